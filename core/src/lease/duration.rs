//! How long a lease lasts, and every number that follows from it (requirements.md, section 1).
//!
//! ```text
//! sent                    renewal starts                                 cut-off  end     successor
//!  |------- D/3 ------------|------ tries: cut-off D/6, then back-off ------|-100ms-|--- 1 s ---|
//! ```

use core::time::Duration;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use crate::mutant::{self, Mutant};

/// A shorter lease could not be renewed safely over an object store (D-7).
pub const SHORTEST: Duration = Duration::from_secs(3);
/// A longer one is damage or a mistake: nobody may have to wait for it (D-3).
pub const LONGEST: Duration = Duration::from_secs(3_600);
/// Above this a long outage buys few saved requests (HA-37): the server warns.
pub const LONGEST_ADVISED: Duration = Duration::from_secs(120);
/// What is left of the period when the holder gives up renewing (HA-25).
pub const CUT_OFF_MARGIN: Duration = Duration::from_millis(100);
/// What a candidate adds to the holder's period (D-2).
pub const TAKEOVER_MARGIN: Duration = Duration::from_secs(1);
/// The cut-off of one try is never shorter than this: a slow store still gets through (HA-23).
pub const SHORTEST_TRY: Duration = Duration::from_secs(1);
/// The cut-off of one try is never longer than this: a dead connection is noticed (HA-23).
pub const LONGEST_TRY: Duration = Duration::from_secs(5);

/// A legal lease duration: 3 s to 1 h, in whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseDuration {
    millis: u64,
}

impl LeaseDuration {
    /// Outside `dev` and `local` (HA-2).
    pub const DEFAULT: Self = Self { millis: 10_000 };
    /// In `dev` and `local` (HA-4, HA-12).
    pub const DEFAULT_SINGLE: Self = Self { millis: 30_000 };

    /// From milliseconds; nothing outside 3 s to 1 h (D-3, D-7).
    #[must_use]
    pub const fn from_millis(millis: u64) -> Option<Self> {
        let duration = Duration::from_millis(millis);
        if duration.as_millis() < SHORTEST.as_millis() || duration.as_millis() > LONGEST.as_millis() {
            return None;
        }
        Some(Self { millis })
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.millis
    }

    /// The whole period, counted from the sending of the write that landed (D-1).
    #[must_use]
    pub const fn period(self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// When the next renewal starts, counted from the start of the period (HA-3).
    #[must_use]
    pub fn renewal(self) -> Duration {
        self.period() / 3
    }

    /// How long one try may take while another still fits (HA-23).
    #[must_use]
    pub fn try_cut_off(self) -> Duration {
        (self.period() / 6).clamp(SHORTEST_TRY, LONGEST_TRY)
    }

    /// When the holder gives up, counted from the start of the period (HA-25).
    #[must_use]
    pub fn renewal_cut_off(self) -> Duration {
        if mutant::is(Mutant::NoCutOffMargin) { self.period() } else { self.period() - CUT_OFF_MARGIN }
    }

    /// How long a candidate must see one version unchanged (D-2).
    #[must_use]
    pub fn takeover(self) -> Duration {
        if mutant::is(Mutant::NoTakeoverMargin) { self.period() } else { self.period() + TAKEOVER_MARGIN }
    }
}

impl<C> Encode<C> for LeaseDuration {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        encoder.u64(self.millis)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for LeaseDuration {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        Self::from_millis(decoder.u64()?).ok_or_else(|| DecodeError::message("a lease lasts 3 s to 1 h"))
    }
}
