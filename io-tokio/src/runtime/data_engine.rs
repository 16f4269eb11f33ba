//! What the engine wants from the world.

use std::sync::atomic::Ordering;

use dexzd_core::engine::{NodeReport, Output};
use dexzd_core::ids::Position;
use dexzd_core::log::AppenderOutput;
use dexzd_core::node::Input as NodeInput;

use super::data::DataPlane;
use super::messages::{ApplyMessage, LogMessage};

impl DataPlane {
    pub(super) fn perform(&mut self, output: Output) {
        match output {
            Output::Reply { id, after, answer } => self.exits.reply(id, after, answer),
            Output::Send { stream, after, frame } => self.exits.send(stream, after, frame),
            Output::Withdraw { handout, .. } => self.exits.withdraw(handout),
            Output::CloseStream { stream } => self.exits.close_stream(stream),
            Output::Log(output) => self.perform_log(output),
            Output::Node(NodeReport::Closed) => self.end_tenure(),
            Output::Node(report @ (NodeReport::Recovered | NodeReport::Drained | NodeReport::Committed)) => {
                self.control.send(NodeInput::Engine(report))
            }
            Output::Event(event) => self.events.engine(&event),
        }
    }

    fn perform_log(&mut self, output: AppenderOutput) {
        let asker = self.asker;
        match output {
            AppenderOutput::Write { request, position, entry } => {
                self.log.send(LogMessage::Write { asker, request, position, entry })
            }
            AppenderOutput::Read { request, position } => {
                self.log.send(LogMessage::Read { asker, request, position });
            }
            AppenderOutput::Apply { end, changes } => {
                self.became_durable(end.position);
                self.apply.send(ApplyMessage::Apply { end, changes });
            }
            AppenderOutput::Failed(reason) => {
                self.fail(reason, "a log write ended this epoch".to_owned());
            }
        }
    }

    pub(super) fn became_durable(&mut self, position: Position) {
        self.durable.store(position.0, Ordering::Release);
        self.exits.became_durable(position);
    }
}
