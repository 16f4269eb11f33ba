//! What a follower says about itself (HA-82, D-15).

use minicbor::{Decode, Encode};

use crate::time::Instant;

/// How close to the active a hot standby is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum FollowerState {
    /// It builds its local store from a snapshot and reads up to the end of the log for the first time.
    #[default]
    #[n(0)]
    Bootstrapping,
    /// Hot: everything that it knows of is applied (HA-42).
    #[n(1)]
    Following,
    /// Its lag exceeds `standby.behindLagThreshold` (HA-46).
    #[n(2)]
    Behind,
    /// An error, which is tried again (D-15).
    #[n(3)]
    Restarting,
    /// It gave up: it competes like any standby that is not hot, with an empty local store (D-15).
    #[n(4)]
    Failed,
}

impl FollowerState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Bootstrapping, Self::Following, Self::Behind, Self::Restarting, Self::Failed];

    /// The stable name, as in the label `state` of `dexzd_hot_standby_state` (HA-82).
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Bootstrapping => "bootstrapping",
            Self::Following => "following",
            Self::Behind => "behind",
            Self::Restarting => "restarting",
            Self::Failed => "failed",
        }
    }

    /// Whether a standby in this state takes an available lease without `laggingTakeoverDelay` (HA-59).
    #[must_use]
    pub const fn is_hot(self) -> bool {
        match self {
            Self::Following => true,
            Self::Bootstrapping | Self::Behind | Self::Restarting | Self::Failed => false,
        }
    }
}

/// What the data plane tells `node` about its follower: at every change of the state, and at every poll
/// that reached the end of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct FollowerReport {
    /// How close it is.
    #[n(0)]
    pub state: FollowerState,
    /// The start of the last poll that reached the end of the log and was not contradicted by the
    /// lease's `logEnd`: the lag counts from here (D-14). `None`: none has since the follower began.
    #[n(1)]
    pub caught_up_at: Option<Instant>,
}
