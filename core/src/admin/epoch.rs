//! The text of a node epoch (D-20): unsigned decimal, compared as a number, printed as a string (HA-126).

use core::fmt;

use crate::ids::Epoch;

/// Why a text is no epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpochText {
    /// It has something else than the digits 0 to 9, or nothing at all: a sign, a space, hexadecimal.
    NotDecimal,
    /// No epoch is 0.
    Zero,
    /// It exceeds 64 bits.
    TooLarge,
}

impl fmt::Display for EpochText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotDecimal => "a node epoch is written with the digits 0 to 9 only",
            Self::Zero => "a node epoch is at least 1",
            Self::TooLarge => "a node epoch fits into 64 bits",
        })
    }
}

/// Reads an epoch as a flag or a request carries it. Leading zeros change nothing: epochs are compared as
/// numbers.
///
/// # Errors
///
/// Whatever is not an unsigned 64-bit decimal above 0.
pub fn parse_epoch(text: &str) -> Result<Epoch, EpochText> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(EpochText::NotDecimal);
    }
    match text.parse() {
        Ok(0) => Err(EpochText::Zero),
        Ok(number) => Ok(Epoch(number)),
        // Digits only: nothing else is left to be wrong.
        Err(_) => Err(EpochText::TooLarge),
    }
}
