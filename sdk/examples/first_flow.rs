//! The program of `docs/first-flow.md`: a sign-up that waits for the click on the link in a mail.
//!
//! ```text
//! cargo run -p dexzd-sdk --example first_flow              a Worker, until Ctrl+C
//! cargo run -p dexzd-sdk --example first_flow start ada    signs ada up and waits for the outcome
//! ```

use std::time::Duration;

use dexzd_sdk::prelude::*;

const CONFIRMED: Channel<String> = Channel::new("confirmed");

struct SendMail;

impl Step for SendMail {
    const TYPE: &'static str = "SendMail";
    type Input = String;

    async fn execute(&self, ctx: &Context, name: String) -> StepResult {
        println!("mail to {name}: please confirm (key {})", ctx.idempotency_key());
        Ok(Decision::go_to::<AwaitClick>(&name))
    }
}

struct AwaitClick;

impl WaitingStep for AwaitClick {
    const TYPE: &'static str = "AwaitClick";
    type Input = String;

    async fn wait_for(&self, _: &Context, _: String) -> WaitResult {
        Ok(Wait::any_of([
            Condition::message(&CONFIRMED),
            Condition::timer(Duration::from_secs(120)).id("give-up"),
        ]))
    }

    async fn execute(&self, _: &Context, name: String, conditions: Conditions) -> StepResult {
        let outcome = match conditions.message(&CONFIRMED)? {
            Some(from) => format!("{name} confirmed from {from}"),
            None => format!("{name} never confirmed"),
        };
        println!("{outcome}");
        Ok(Decision::complete(&outcome))
    }
}

struct SignUp;

impl Flow for SignUp {
    const TYPE: &'static str = "SignUp";
    type Start = SendMail;
    type Output = String;

    fn define(&self) -> Definition<Self> {
        Definition::starting_with(SendMail).step(AwaitClick).channel(&CONFIRMED)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = dexzd_sdk::address_from_environment();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => {
            let worker = Worker::builder(address).flow(SignUp).build()?;
            worker.run_until(async { tokio::signal::ctrl_c().await.unwrap_or(()) }).await?;
        }
        [start, name] if start == "start" => {
            let client = Client::connect(address).await?;
            client.start::<SignUp>(format!("signup-{name}"), name).await?;
            println!("{}", client.result::<SignUp>(format!("signup-{name}")).await?);
        }
        _ => return Err("usage: first_flow [start NAME]".into()),
    }
    Ok(())
}
