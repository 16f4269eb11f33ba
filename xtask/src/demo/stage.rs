//! What both demos play with: the programs, a folder, the Worker and the batch of orders.

use std::path::PathBuf;
use std::process::Command;

use super::effects::Effects;
use super::orders::Orders;
use crate::processes::{Interruption, Process, Programs, TemporaryFolder};
use crate::shell::Failure;

/// How long one call to the outside world takes, in the Worker that plays bank, warehouse and mail.
const CALL_MS: u32 = 100;

/// How many Steps the Worker runs at once: few, so that the batch lasts long enough to be watched.
pub(super) const CONCURRENCY: u32 = 4;

/// How long an order waits for its parcel before it is refunded.
const PATIENCE_MS: u32 = 4_000;

#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) programs: &'a Programs,
    pub(super) folder: &'a TemporaryFolder,
    pub(super) interruption: &'a Interruption,
}

impl Stage<'_> {
    pub(super) fn start_worker(&self, address: &str) -> Result<Process, Failure> {
        let effects = self.effects_file();
        let mut command = self.order_command(
            address,
            &[
                "worker",
                "--effects",
                &effects.to_string_lossy(),
                "--step-delay",
                &CALL_MS.to_string(),
                "--concurrency",
                &CONCURRENCY.to_string(),
                "--patience",
                &PATIENCE_MS.to_string(),
            ],
        )?;
        let worker = Process::start("the Worker", &mut command, &self.folder.file("worker.log"), None)?;
        println!("Worker    process {}, {CONCURRENCY} Steps at once", worker.id());
        Ok(worker)
    }

    pub(super) fn start_orders(&self, address: &str, count: u32) -> Result<Orders, Failure> {
        println!("orders    {count}: charge the card, ask for shipment, await the parcel or refund\n");
        let command = self.order_command(address, &["start", "--count", &count.to_string()])?;
        Orders::start(command, self.folder, count)
    }

    /// What the outside world was asked to do.
    pub(super) fn effects(&self) -> Result<Effects, Failure> {
        Effects::read(&self.effects_file())
    }

    fn effects_file(&self) -> PathBuf {
        self.folder.file("effects.jsonl")
    }

    fn order_command(&self, address: &str, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(self.programs.find("order")?);
        command.args(arguments).env("DEX_FLOW_SERVICE_ADDRESS", address).env_remove("RUST_LOG");
        Ok(command)
    }
}
