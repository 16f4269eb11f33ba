//! The flags of `dexcli flow`, `channel` and `timer`.

use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use crate::duration::parse_duration;

#[derive(Debug, Subcommand)]
pub(crate) enum FlowCommand {
    /// Start a Flow, and wait for its result if asked to
    Start(Box<StartArguments>),
    /// List Flows, newest first
    Search(SearchArguments),
    /// Show what a Flow is and how it stands
    Summary(RunArguments),
    /// Show a Flow's Steps, Attributes, Channels and timers
    State(RunArguments),
    /// Show what happened in a Flow, oldest first
    History(HistoryArguments),
    /// Show summary, state and history at once
    Inspect(InspectArguments),
    /// Print each event as it happens, one JSON object per line, until the Flow closes
    Watch(WatchArguments),
    /// Stop a running Flow
    Stop(StopArguments),
}

#[derive(Debug, Args)]
pub(crate) struct StartArguments {
    /// The Flow type, as the Worker registers it
    #[arg(long = "type", value_name = "FLOW_TYPE")]
    pub(crate) flow_type: String,

    /// The Flow ID: one open run at a time has it
    #[arg(long, value_name = "FLOW_ID")]
    pub(crate) id: String,

    /// The Step to start with. Without it the Flow is open and idle
    #[arg(long, value_name = "STEP_TYPE")]
    pub(crate) step: Option<String>,

    /// The start Step's input: JSON, @file with JSON, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", requires = "step")]
    pub(crate) input: Option<String>,

    /// The start Step has no WaitFor: run Execute at once
    #[arg(long, requires = "step")]
    pub(crate) skip_wait_for: bool,

    /// Idempotency key: a repeat with the same key returns the same run. Default: a new UUID
    #[arg(long, value_name = "KEY")]
    pub(crate) request_id: Option<String>,

    /// Time out the whole Flow after this long (30s, 2h, 7d)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout_duration: Option<Duration>,

    /// What a timeout does. Default: fail
    #[arg(long, value_name = "POLICY", requires = "timeout_duration")]
    pub(crate) timeout_policy: Option<TimeoutPolicy>,

    /// When the Flow ID may be used again. Default: disallow
    #[arg(long, value_name = "POLICY")]
    pub(crate) id_reuse_policy: Option<IdReusePolicy>,

    /// If the Flow was already started with this request ID, return that run
    #[arg(long)]
    pub(crate) ignore_already_started: bool,

    /// Hold the first Step back for this long (30s, 2h, 7d)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) start_delay: Option<Duration>,

    /// Keep the closed Flow for this long (30s, 2h, 7d)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) retention: Option<Duration>,

    /// An Attribute to start with, as NAME=JSON; may be repeated
    #[arg(long, value_name = "NAME=JSON")]
    pub(crate) attribute: Vec<String>,

    /// The durability of Steps that do not choose one. Default: sync
    #[arg(long, value_name = "DURABILITY")]
    pub(crate) step_durability: Option<StepDurability>,

    /// Which active Steps search can see. Default: all
    #[arg(long, value_name = "STEPS")]
    pub(crate) active_step_search: Option<ActiveStepSearch>,

    /// Wait until the Flow closes and print its result; exit code 1 unless it completed
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TimeoutPolicy {
    Fail,
    Cancel,
    Handler,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum IdReusePolicy {
    Disallow,
    AllowIfPreviousAbnormal,
    AllowIfNotRunning,
    TerminateIfRunning,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StepDurability {
    Sync,
    Async,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ActiveStepSearch {
    All,
    WaitForOnly,
    None,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    /// What to look for, for example: flowType = "Order" AND status = "running"
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) query: String,

    /// How many Flows a page has, 1 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) page_size: u32,

    /// Where to go on: the nextPageToken of the page before
    #[arg(long, value_name = "TOKEN", default_value = "", hide_default_value = true)]
    pub(crate) page_token: String,

    /// All pages
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The Flow ID
    pub(crate) flow_id: String,

    /// One run of the Flow ID. Default: the latest
    #[arg(long, value_name = "RUN_ID")]
    pub(crate) run_id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// The first event wanted
    #[arg(long, value_name = "NUMBER", default_value_t = 1, conflicts_with = "page_token")]
    pub(crate) start_event_id: u64,

    /// How many events a page has, 1 to 1000
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) page_size: u32,

    /// Where to go on: the nextPageToken of the page before
    #[arg(long, value_name = "TOKEN")]
    pub(crate) page_token: Option<u64>,

    /// All pages
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// The whole history instead of its first 100 events
    #[arg(long)]
    pub(crate) all_history: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// The first event to print
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) from_event_id: u64,
}

#[derive(Debug, Args)]
pub(crate) struct StopArguments {
    /// The Flow ID
    pub(crate) flow_id: String,

    /// The run to stop: named, so that a newer run is never stopped by accident
    #[arg(long, value_name = "RUN_ID")]
    pub(crate) run_id: String,

    /// How to stop: cancel asks running attempts to end, terminate does not wait, fail closes as failed
    #[arg(long = "type", value_name = "TYPE", default_value = "cancel")]
    pub(crate) stop_type: StopType,

    /// Why, for the Flow's history
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,

    /// Idempotency key. Default: a new UUID
    #[arg(long, value_name = "KEY")]
    pub(crate) request_id: Option<String>,

    /// Really do it
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StopType {
    Cancel,
    Terminate,
    Fail,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// The Channel, or the ChannelMap with --instance
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: String,

    /// One Channel of a ChannelMap
    #[arg(long, value_name = "KEY")]
    pub(crate) instance: Option<String>,

    /// The message: JSON, @file with JSON, or - for standard input; may be repeated
    #[arg(long, value_name = "JSON|@FILE|-", required = true)]
    pub(crate) value: Vec<String>,

    /// Idempotency key: a repeat with the same key publishes once. Default: a new UUID
    #[arg(long, value_name = "KEY")]
    pub(crate) request_id: Option<String>,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["condition_id", "index", "flow_timeout"]))]
pub(crate) struct SkipArguments {
    #[command(flatten)]
    pub(crate) run: RunArguments,

    /// The Step execution that waits, for example Payment-1
    #[arg(long, value_name = "STEP", conflicts_with = "flow_timeout")]
    pub(crate) step: Option<String>,

    /// The timer condition's ID
    #[arg(long, value_name = "ID", requires = "step")]
    pub(crate) condition_id: Option<String>,

    /// The timer's place among the Wait's timers, from 0
    #[arg(long, value_name = "NUMBER", requires = "step")]
    pub(crate) index: Option<u32>,

    /// The Flow's own timeout
    #[arg(long)]
    pub(crate) flow_timeout: bool,

    /// Idempotency key. Default: a new UUID
    #[arg(long, value_name = "KEY")]
    pub(crate) request_id: Option<String>,
}
