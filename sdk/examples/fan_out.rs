//! A fan-out with join: a report counts the words of many pages in parallel, and one Step adds them up.
//!
//! ```text
//!           ┌► CountWords ─┐ counted
//! Split ────┼► CountWords ─┼────────► Join (waits for all counts) ──► completes
//!           └► CountWords ─┘
//! ```
//!
//! The branches hand their counts to the join through a Channel, and end as dead ends: only the join
//! completes the Flow. With a server running (`dexcli dev`):
//!
//! ```text
//! cargo run -p dexzd-sdk --example fan_out
//! ```

use std::time::Duration;

use dexzd_sdk::address_from_environment;
use dexzd_sdk::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Page {
    number: u32,
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Counted {
    page: u32,
    words: usize,
}

const COUNTED: Channel<Counted> = Channel::new("counted");

struct WordReport;

impl Flow for WordReport {
    const TYPE: &'static str = "WordReport";
    type Start = Split;
    type Output = usize;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Split).step(CountWords).step(Join).channel(&COUNTED)
    }
}

struct Split;

impl Step for Split {
    const TYPE: &'static str = "Split";
    type Input = Vec<String>;

    async fn execute(&self, _: &Context, pages: Vec<String>) -> StepResult {
        let count = u32::try_from(pages.len())?;
        println!("splitting into {count} pages");
        let branches =
            (1..).zip(pages).map(|(number, text)| Movement::to::<CountWords>(&Page { number, text }));
        Ok(Decision::go_to_many(branches.chain([Movement::to::<Join>(&count)])))
    }
}

struct CountWords;

impl Step for CountWords {
    const TYPE: &'static str = "CountWords";
    type Input = Page;

    async fn execute(&self, ctx: &Context, page: Page) -> StepResult {
        // Work of different length: the order in which branches end does not matter.
        tokio::time::sleep(Duration::from_millis(u64::from(40 * (page.number % 3)))).await;
        let words = page.text.split_whitespace().count();
        println!("{}: page {} has {words} words", ctx.step_execution_id(), page.number);
        let counted = Counted { page: page.number, words };
        ctx.publish(&COUNTED, &counted)?;
        Ok(Decision::dead_end())
    }
}

struct Join;

impl WaitingStep for Join {
    const TYPE: &'static str = "Join";
    type Input = u32;

    async fn wait_for(&self, _: &Context, branches: u32) -> WaitResult {
        Ok(Wait::until(Condition::messages(&COUNTED, branches)))
    }

    async fn execute(&self, _: &Context, branches: u32, conditions: Conditions) -> StepResult {
        let counts = conditions.messages(&COUNTED)?;
        println!("joined {} of {branches} branches", counts.len());
        let words: usize = counts.iter().map(|counted| counted.words).sum();
        Ok(Decision::complete(&words))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = address_from_environment();
    let client = Client::connect(&address).await?;
    let worker = Worker::builder(&address).flow(WordReport).max_concurrent_tasks(16).build()?;
    let worker = tokio::spawn(worker.run());

    let pages: Vec<String> = (1..=9).map(|page| "word ".repeat(page * 10)).collect();
    let flow_id = format!("report-{}", std::process::id());
    client.start::<WordReport>(&flow_id, &pages).await?;
    println!("{flow_id}: {} words in all", client.result::<WordReport>(&flow_id).await?);
    worker.abort();
    Ok(())
}
