//! 128 bits that stand for one state.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Two multiply-and-fold lanes that never share a constant. With n states the chance that any two of them
/// collide is about n² / 2¹²⁹: below 10⁻²⁴ for ten million.
#[derive(Clone, Debug)]
struct Lanes {
    first: u64,
    second: u64,
}

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
const THIRD: u64 = 0xa076_1d64_78bd_642f;

/// Of everything in a value.
pub fn fingerprint(value: &impl Hash) -> u128 {
    let mut lanes = Lanes { first: FIRST, second: SECOND };
    value.hash(&mut lanes);
    let (first, second) = (fold(lanes.first, THIRD), fold(lanes.second, FIRST));
    (u128::from(first) << 64) | u128::from(second)
}

fn fold(left: u64, right: u64) -> u64 {
    let wide = u128::from(left) * u128::from(right);
    let [low, high] = [wide, wide >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0));
    low ^ high
}

impl Hasher for Lanes {
    fn finish(&self) -> u64 {
        self.first
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(u64::try_from(value).expect("a usize has at most 64 bits"));
    }

    fn write_u64(&mut self, value: u64) {
        self.first = fold(self.first ^ value, FIRST).wrapping_add(THIRD);
        self.second =
            fold(self.second.rotate_left(23) ^ value.wrapping_add(THIRD), SECOND).wrapping_add(FIRST);
    }
}

/// Keys that are fingerprints already need no further hashing.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlreadyHashed(u64);

/// For sets and maps of fingerprints.
pub type BuildAlreadyHashed = BuildHasherDefault<AlreadyHashed>;

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = u64::try_from(value & u128::from(u64::MAX)).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::fingerprint;
    use std::collections::HashSet;

    #[test]
    fn close_values_have_unlike_fingerprints() {
        let mut seen = HashSet::new();
        for left in 0_u64..300 {
            for right in 0_u64..300 {
                assert!(seen.insert(fingerprint(&(left, right))), "{left} {right}");
            }
        }
        assert_ne!(fingerprint(&vec![0_u64]), fingerprint(&vec![0_u64, 0]));
        assert_eq!(fingerprint(&"abc"), fingerprint(&String::from("abc")));
    }
}
