//! A seeded generator: the core's only source of chance (jitter and identifiers).
//!
//! Its seed is an argument. In production it comes from the operating system, in the simulator from
//! a named stream of the run's root seed. It is no source of secrets.

/// `SplitMix64`: one multiplication chain per draw, every seed is good, and the whole state is a `u64`.
#[derive(Clone, Hash, Debug, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// A generator that repeats itself exactly for equal seeds.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())
    }

    /// Uniform in `0..=most`.
    pub fn up_to(&mut self, most: u64) -> u64 {
        // The bias of the multiplication is below 2^-32 for every bound that the core uses.
        let wide = u128::from(self.next_u64()) * (u128::from(most) + 1);
        u64::try_from(wide >> 64).expect("a u64 times at most 2^64, shifted by 64, fits in a u64")
    }
}
