//! The flags of `dexcli admin`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Show which process serves: node ID, node epoch and process ID
    ///
    /// Another node epoch or process ID than before shows that a switch has taken place, this one or a different one:
    /// then do not repeat a step down.
    Describe,
    /// Make the process that serves give its lease to another one
    ///
    /// Running attempts may finish (for lifecycle.attemptDrainTimeout, 30s by default), then the lease is released, and
    /// the command waits until another process has it; without one, this process takes it back after its hold-off.
    ///
    /// If the command ends without knowing the outcome, repeat it with the --expected-node-id and
    /// --expected-node-epoch that it printed: that is always safe. Never repeat it without the two, or with a newer
    /// epoch: that would step down whoever serves by then.
    StepDown(StepDownArguments),
}

#[derive(Debug, Args)]
pub(crate) struct StepDownArguments {
    /// Step down only a process of this node. Give it on a first run: it guards against a wrong --server
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) expected_node_id: Option<String>,

    /// Step down only in this epoch, as `dexcli admin describe` shows it; needs --expected-node-id
    #[arg(long, value_name = "EPOCH", allow_hyphen_values = true)]
    pub(crate) expected_node_epoch: Option<String>,

    /// Confirm that running work may be interrupted
    #[arg(long)]
    pub(crate) yes: bool,
}
