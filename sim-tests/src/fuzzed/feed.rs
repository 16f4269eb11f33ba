//! Small plausible values out of arbitrary bytes.

use dexzd_core::ids::{Blob, Name};

/// Bytes, one after the other; zero when they are used up, so that every input is a whole one.
pub(super) struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    /// 0 to `most - 1`.
    pub(super) fn below(&mut self, most: u8) -> u8 {
        self.byte() % most
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Small numbers mostly, with a few at the edges.
    pub(super) fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            253 => 1 << 62,
            small => u64::from(small),
        }
    }

    /// Mostly short, sometimes hours.
    pub(super) fn millis(&mut self) -> u64 {
        const STEPS: [u64; 12] = [0, 1, 40, 100, 250, 500, 1_000, 1_700, 3_000, 10_000, 31_000, 7_200_000];
        STEPS[usize::from(self.below(12))]
    }

    pub(super) fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| some(self))
    }

    /// Up to three.
    pub(super) fn few<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| one(self)).collect()
    }

    /// One of four names of this kind; rarely the empty one.
    pub(super) fn name(&mut self, kind: &str) -> Name {
        match self.byte() {
            255 => Name::default(),
            other => Name::from(format!("{kind}{}", other % 4)),
        }
    }

    pub(super) fn blob(&mut self) -> Blob {
        let length = usize::from(self.below(9));
        Blob::from((0..length).map(|_| self.byte()).collect::<Vec<u8>>())
    }
}
