//! A human approval with a reminder: ask, remind whoever has not answered, and give up after three
//! reminders.
//!
//! ```text
//! Ask ──► AwaitAnswer ──┬─ answered ──► completes: Approved or Rejected
//!            ▲          └─ no answer ─► Remind ─┬─ again
//!            └──────────────────────────────────┘
//!                                               └─ three times ► completes: Expired
//! ```
//!
//! With a server running (`dexcli dev`), this asks, answers after the second reminder, and shows a second
//! request that nobody answers:
//!
//! ```text
//! cargo run -p dexzd-sdk --example approval
//! ```
//!
//! Real reminders wait for days; nothing is held while they do. `dexcli timer skip` lets one fire at once.

use std::time::Duration;

use dexzd_sdk::address_from_environment;
use dexzd_sdk::prelude::*;
use serde::{Deserialize, Serialize};

const REMINDER_AFTER: Duration = Duration::from_secs(1);
const REMINDERS: u32 = 3;

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Request {
    what: String,
    approver: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Answer {
    approved: bool,
    comment: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
enum Outcome {
    Approved(String),
    Rejected(String),
    Expired,
}

const ANSWER: Channel<Answer> = Channel::new("answer");
const REMINDERS_SENT: Attribute<u32> = Attribute::new("reminders_sent");

struct Approval;

impl Flow for Approval {
    const TYPE: &'static str = "Approval";
    type Start = Ask;
    type Output = Outcome;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(Ask)
            .step(AwaitAnswer)
            .step(Remind)
            .channel(&ANSWER)
            .attribute(&REMINDERS_SENT)
    }
}

struct Ask;

impl Step for Ask {
    const TYPE: &'static str = "Ask";
    type Input = Request;

    async fn execute(&self, ctx: &Context, request: Request) -> StepResult {
        println!("{}: to {}: may we {}?", ctx.flow_id(), request.approver, request.what);
        Ok(Decision::go_to::<AwaitAnswer>(&request))
    }
}

struct AwaitAnswer;

impl WaitingStep for AwaitAnswer {
    const TYPE: &'static str = "AwaitAnswer";
    type Input = Request;

    async fn wait_for(&self, _: &Context, _: Request) -> WaitResult {
        Ok(Wait::any_of([Condition::message(&ANSWER), Condition::timer(REMINDER_AFTER).id("reminder")]))
    }

    async fn execute(&self, _: &Context, request: Request, conditions: Conditions) -> StepResult {
        Ok(match conditions.message(&ANSWER)? {
            Some(answer) if answer.approved => Decision::complete(&Outcome::Approved(answer.comment)),
            Some(answer) => Decision::complete(&Outcome::Rejected(answer.comment)),
            None => Decision::go_to::<Remind>(&request),
        })
    }
}

struct Remind;

impl Step for Remind {
    const TYPE: &'static str = "Remind";
    type Input = Request;

    async fn execute(&self, ctx: &Context, request: Request) -> StepResult {
        let sent = ctx.get(&REMINDERS_SENT)?.unwrap_or(0);
        if sent == REMINDERS {
            println!("{}: {} never answered", ctx.flow_id(), request.approver);
            return Ok(Decision::complete(&Outcome::Expired));
        }
        let sent = sent + 1;
        println!("{}: reminder {sent} to {}", ctx.flow_id(), request.approver);
        ctx.set(&REMINDERS_SENT, &sent)?;
        Ok(Decision::go_to::<AwaitAnswer>(&request))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = address_from_environment();
    let client = Client::connect(&address).await?;
    let worker = tokio::spawn(Worker::builder(&address).flow(Approval).build()?.run());

    let answered = format!("approval-{}-a", std::process::id());
    let ignored = format!("approval-{}-b", std::process::id());
    for flow_id in [&answered, &ignored] {
        let request =
            Request { what: "buy a second printer".to_owned(), approver: "ada@example.com".to_owned() };
        client.start::<Approval>(flow_id, &request).await?;
    }

    tokio::time::sleep(REMINDER_AFTER * 5 / 2).await;
    let answer = Answer { approved: true, comment: "but recycle the first".to_owned() };
    client.publish(&answered, &ANSWER, &answer).await?;
    println!("{answered}: {:?}", client.result::<Approval>(&answered).await?);
    println!("{ignored}: {:?}", client.result::<Approval>(&ignored).await?);
    worker.abort();
    Ok(())
}
