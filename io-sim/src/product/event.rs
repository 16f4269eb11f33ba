//! Everything that can happen in a product world.

use dexzd_core::engine::{Answer, Call, CallError, ServerFrame};
use dexzd_core::ids::StreamId;

use super::control::LeaseRequest;
use super::log_io::LogRequest;
use super::operator::{AdminCall, Errand};
use super::orders::{ByHand, Order};
use super::people::ClientToken;
use super::process::{Part, ToData};
use super::snapshot_io::SnapshotRequest;
use super::worker::Wake;
use crate::TrueTime;
use crate::watch::ProcessNumber;

/// One event. Those that are for a process name the life of it that they are meant for.
#[derive(Debug)]
pub(super) enum Event {
    ToNode(ProcessNumber, u32, Box<dexzd_core::node::Input>),
    ToData(ProcessNumber, u32, Box<ToData>),
    NodeTimer(ProcessNumber, u32),
    DataTimer(ProcessNumber, u32),
    /// The engine's sign of life.
    Alive(ProcessNumber, u32),
    /// The watchdog looks (D-32).
    Watchdog(ProcessNumber, u32),
    /// A freeze, or the starvation of one part, may be over.
    Thaw(ProcessNumber),
    /// A pause is over that the monotonic clocks did not count, and the wall clock did or did not.
    Uncounted(ProcessNumber, TrueTime, bool),
    LeaseLands(Box<LeaseRequest>),
    LogLands(Box<LogRequest>),
    SnapshotLands(Box<SnapshotRequest>),
    DiskSynced(ProcessNumber, u32),
    Order(ProcessNumber, Order),
    ByHand(ByHand),
    /// An operator begins something.
    Errand(Errand),
    AdminCalls(ProcessNumber, Box<AdminCall>),
    ClientWakes(usize),
    ClientCalls(ClientToken, ProcessNumber, Box<Call>),
    ClientHears(ClientToken, Box<Result<Answer, CallError>>),
    ClientGivesUp(ClientToken),
    WorkerWakes(usize, Wake),
    WorkerConnects(usize, ProcessNumber),
    WorkerHears(usize, StreamId, Box<ServerFrame>),
    WorkerLosesStream(usize, Option<StreamId>),
    ServerLosesStream(StreamId),
    Heal,
}

impl Event {
    /// The process and the life of it that must run for this to happen, and the part of it that must not
    /// be stopped.
    pub(super) fn addressee(&self) -> Option<(ProcessNumber, u32, Part)> {
        match self {
            Self::ToNode(number, life, _) | Self::NodeTimer(number, life) => {
                Some((*number, *life, Part::Node))
            }
            Self::ToData(number, life, _) | Self::DataTimer(number, life) | Self::Alive(number, life) => {
                Some((*number, *life, Part::Data))
            }
            Self::Watchdog(number, life) => Some((*number, *life, Part::Watchdog)),
            Self::Thaw(_)
            | Self::Uncounted(..)
            | Self::LeaseLands(_)
            | Self::LogLands(_)
            | Self::SnapshotLands(_)
            | Self::DiskSynced(..)
            | Self::Order(..)
            | Self::ByHand(_)
            | Self::Errand(_)
            | Self::AdminCalls(..)
            | Self::ClientWakes(_)
            | Self::ClientCalls(..)
            | Self::ClientHears(..)
            | Self::ClientGivesUp(_)
            | Self::WorkerWakes(..)
            | Self::WorkerConnects(..)
            | Self::WorkerHears(..)
            | Self::WorkerLosesStream(..)
            | Self::ServerLosesStream(_)
            | Self::Heal => None,
        }
    }

    pub(super) fn is_timer(&self) -> bool {
        matches!(self, Self::NodeTimer(..) | Self::DataTimer(..) | Self::Alive(..) | Self::Watchdog(..))
    }
}
