//! What each command does.

mod admin;
mod dev;
mod flow;
mod interrupt;
mod server;
mod start;
mod watch;

use clap::CommandFactory as _;

use crate::args::{Arguments, ChannelCommand, Command, FlowCommand, TimerCommand};
use crate::failure::Failure;
use crate::output::Output;

/// Runs the command that was typed.
pub(crate) async fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    match &arguments.command {
        Command::Health => server::health(arguments, output).await,
        Command::Version { command: None } => {
            server::version(output);
            Ok(())
        }
        Command::Version { command: Some(_) } => server::check_version(arguments, output).await,
        Command::Dev(dev) => dev::run(arguments, dev, output).await,
        Command::Flow(command) => run_flow(arguments, command, output).await,
        Command::Channel(ChannelCommand::Publish(publish)) => flow::publish(arguments, publish, output).await,
        Command::Timer(TimerCommand::Skip(skip)) => flow::skip_timer(arguments, skip, output).await,
        Command::Admin(command) => admin::run(arguments, command, output).await,
        Command::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(*shell, &mut command, "dexcli", &mut std::io::stdout());
            Ok(())
        }
    }
}

async fn run_flow(arguments: &Arguments, command: &FlowCommand, output: &Output) -> Result<(), Failure> {
    match command {
        FlowCommand::Start(start) => start::start(arguments, start, output).await,
        FlowCommand::Search(search) => flow::search(arguments, search, output).await,
        FlowCommand::Summary(run) => flow::summary(arguments, run, output).await,
        FlowCommand::State(run) => flow::state(arguments, run, output).await,
        FlowCommand::History(history) => flow::history(arguments, history, output).await,
        FlowCommand::Inspect(inspect) => flow::inspect(arguments, inspect, output).await,
        FlowCommand::Watch(watch) => watch::watch(arguments, watch, output).await,
        FlowCommand::Stop(stop) => flow::stop(arguments, stop, output).await,
    }
}

/// The key that was given, or a new one.
fn request_id(given: Option<&String>) -> String {
    given.cloned().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}
