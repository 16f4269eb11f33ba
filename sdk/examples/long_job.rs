//! A long job with checkpoints: it copies rows in chunks and survives a crash in the middle, because each
//! attempt goes on where the last checkpoint was.
//!
//! The first attempt fails half-way on purpose. The second one starts at the checkpoint, not at row 0. A
//! heartbeat timeout makes the server notice a handler that hangs. With a server running (`dexcli dev`):
//!
//! ```text
//! cargo run -p dexzd-sdk --example long_job
//! ```

use std::time::Duration;

use dexzd_sdk::address_from_environment;
use dexzd_sdk::prelude::*;
use serde::{Deserialize, Serialize};

const CHUNK_ROWS: u64 = 100;

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Job {
    rows: u64,
}

/// What the next attempt needs to go on.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
struct Progress {
    rows_copied: u64,
}

struct CopyTable;

impl Flow for CopyTable {
    const TYPE: &'static str = "CopyTable";
    type Start = CopyRows;
    type Output = u64;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(CopyRows)
    }
}

struct CopyRows;

impl Step for CopyRows {
    const TYPE: &'static str = "CopyRows";
    type Input = Job;

    fn options() -> StepOptions {
        StepOptions::new()
            .timeout(Duration::from_secs(3600))
            .heartbeat_timeout(Duration::from_secs(10))
            .retry(RetryPolicy::new().initial_interval(Duration::from_secs(1)).maximum_attempts(5))
    }

    async fn execute(&self, ctx: &Context, job: Job) -> StepResult {
        let mut progress: Progress = ctx.last_checkpoint()?.unwrap_or_default();
        println!("attempt {}: from row {}", ctx.attempt(), progress.rows_copied);
        while progress.rows_copied < job.rows {
            if let Some(reason) = ctx.cancel_reason() {
                return Err(StepError::new("Cancelled", format_args!("{reason:?} at {progress:?}")));
            }
            copy_chunk(progress.rows_copied).await;
            progress.rows_copied = (progress.rows_copied + CHUNK_ROWS).min(job.rows);
            // Stored by the server; a chunk may be copied twice if it is lost, so copying must be repeatable.
            ctx.checkpoint(&progress)?;
            if ctx.attempt() == 1 && progress.rows_copied >= job.rows / 2 {
                return Err(StepError::new("DiskFull", "somebody has to make room (this one is on purpose)"));
            }
        }
        Ok(Decision::complete(&progress.rows_copied))
    }
}

async fn copy_chunk(from_row: u64) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("  rows {from_row} to {}", from_row + CHUNK_ROWS - 1);
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = address_from_environment();
    let client = Client::connect(&address).await?;
    let worker = Worker::builder(&address).flow(CopyTable).build()?;
    let worker = tokio::spawn(worker.run());

    let flow_id = format!("copy-{}", std::process::id());
    client.start::<CopyTable>(&flow_id, &Job { rows: 1_000 }).await?;
    println!("{flow_id}: {} rows copied", client.result::<CopyTable>(&flow_id).await?);
    worker.abort();
    Ok(())
}
