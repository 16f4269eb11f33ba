//! An order: charge the card, ask the warehouse to ship, and wait for it against the clock. If the parcel
//! has not left in time, the money goes back.
//!
//! ```text
//! Charge ──► RequestShipment ──► AwaitShipment ──┬─ shipped ──► completes: Shipped
//!                                                └─ too late ─► Refund ──► completes: Refunded
//! ```
//!
//! With a server running (`dexcli dev`):
//!
//! ```text
//! cargo run -p dexzd-sdk --example order                       worker and five orders, in one process
//! cargo run -p dexzd-sdk --example order worker                a Worker, until Ctrl+C
//! cargo run -p dexzd-sdk --example order start --count 100     orders, for Workers that run elsewhere
//! ```
//!
//! Options of the Worker: `--effects FILE` appends one JSON line for each external call it makes,
//! `--step-delay MS` is how long such a call takes, `--concurrency N` how many run at once, `--patience MS`
//! how long an order waits for its parcel. Options of the start: `--count N`, `--prefix ID`.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dexzd_sdk::prelude::*;
use dexzd_sdk::{IdReusePolicy, address_from_environment};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// The warehouse says that the parcel has left, with its tracking number.
const SHIPPED: Channel<String> = Channel::new("shipped");
/// Where the order stands, for people who look at it.
const STATUS: Attribute<String> = Attribute::new("status");

#[derive(Serialize, Deserialize, Clone, Debug)]
struct OrderInput {
    customer: String,
    amount_cents: u64,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
enum Outcome {
    Shipped { tracking: String },
    Refunded { amount_cents: u64 },
}

/// The Flow: its Steps share the outside world.
struct Order {
    world: Arc<World>,
}

impl Flow for Order {
    const TYPE: &'static str = "Order";
    type Start = Charge;
    type Output = Outcome;

    fn define(&self) -> Definition<Self> {
        let world = &self.world;
        Definition::starting_with(Charge { world: world.clone() })
            .step(RequestShipment { world: world.clone() })
            .step(AwaitShipment { world: world.clone() })
            .step(Refund { world: world.clone() })
            .attribute(&STATUS)
            .channel(&SHIPPED)
    }
}

struct Charge {
    world: Arc<World>,
}

impl Step for Charge {
    const TYPE: &'static str = "Charge";
    type Input = OrderInput;

    async fn execute(&self, ctx: &Context, order: OrderInput) -> StepResult {
        // The key is equal for all attempts: a bank that has seen it does not charge again.
        self.world.call("charge", ctx).await?;
        ctx.set(&STATUS, "charged")?;
        Ok(Decision::go_to::<RequestShipment>(&order))
    }
}

struct RequestShipment {
    world: Arc<World>,
}

impl Step for RequestShipment {
    const TYPE: &'static str = "RequestShipment";
    type Input = OrderInput;

    async fn execute(&self, ctx: &Context, order: OrderInput) -> StepResult {
        self.world.call("request-shipment", ctx).await?;
        ctx.set(&STATUS, "waiting for the warehouse")?;
        let input = Shipment { patience_ms: self.world.patience_ms, order };
        Ok(Decision::go_to::<AwaitShipment>(&input))
    }
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Shipment {
    order: OrderInput,
    patience_ms: u64,
}

struct AwaitShipment {
    world: Arc<World>,
}

impl WaitingStep for AwaitShipment {
    const TYPE: &'static str = "AwaitShipment";
    type Input = Shipment;

    async fn wait_for(&self, _: &Context, shipment: Shipment) -> WaitResult {
        Ok(Wait::any_of([
            Condition::message(&SHIPPED),
            Condition::timer(Duration::from_millis(shipment.patience_ms)),
        ]))
    }

    async fn execute(&self, ctx: &Context, shipment: Shipment, conditions: Conditions) -> StepResult {
        match conditions.message(&SHIPPED)? {
            Some(tracking) => {
                self.world.call("send-receipt", ctx).await?;
                ctx.set(&STATUS, "shipped")?;
                Ok(Decision::complete(&Outcome::Shipped { tracking }))
            }
            None => {
                ctx.set(&STATUS, "too late")?;
                Ok(Decision::go_to::<Refund>(&shipment.order))
            }
        }
    }
}

struct Refund {
    world: Arc<World>,
}

impl Step for Refund {
    const TYPE: &'static str = "Refund";
    type Input = OrderInput;

    async fn execute(&self, ctx: &Context, order: OrderInput) -> StepResult {
        self.world.call("refund", ctx).await?;
        ctx.set(&STATUS, "refunded")?;
        Ok(Decision::complete(&Outcome::Refunded { amount_cents: order.amount_cents }))
    }
}

/// Stands for the bank, the warehouse and the mail: it only writes down that it was called.
struct World {
    effects: Option<File>,
    call_takes: Duration,
    patience_ms: u64,
}

impl World {
    async fn call(&self, effect: &str, ctx: &Context) -> Result<(), StepError> {
        tokio::time::sleep(self.call_takes).await;
        let line = serde_json::json!({
            "flow": ctx.flow_id(),
            "effect": effect,
            "key": ctx.idempotency_key(),
            "attempt": ctx.attempt(),
        });
        match &self.effects {
            // One write in append mode: lines of several Workers do not mix.
            Some(file) => (&*file).write_all(format!("{line}\n").as_bytes())?,
            None => println!("  {effect:<17} {} (attempt {})", ctx.idempotency_key(), ctx.attempt()),
        }
        Ok(())
    }
}

/// Every fifth parcel is forgotten: its order is refunded.
fn is_forgotten(number: u32) -> bool {
    number.is_multiple_of(5)
}

async fn run_worker(options: &Options, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let effects = match &options.effects {
        None => None,
        Some(path) => Some(File::options().create(true).append(true).open(path)?),
    };
    let world = World {
        effects,
        call_takes: Duration::from_millis(options.step_delay_ms),
        patience_ms: options.patience_ms,
    };
    let worker = Worker::builder(address_from_environment())
        .flow(Order { world: Arc::new(world) })
        .max_concurrent_tasks(options.concurrency)
        .build()?;
    Ok(worker.run_until(shutdown).await?)
}

/// Starts orders, plays the warehouse, and waits for all of them.
async fn run_orders(client: &Client, options: &Options) -> Result<(), Error> {
    let mut orders = JoinSet::new();
    for number in 1..=options.count {
        let client = client.clone();
        let flow_id = format!("{}-{number}", options.prefix);
        orders.spawn(async move { (flow_id.clone(), run_order(&client, flow_id, number).await) });
    }
    let (mut shipped, mut refunded, mut failed) = (0, 0, 0);
    while let Some(order) = orders.join_next().await {
        let (flow_id, outcome) = order?;
        match outcome {
            Ok(Outcome::Shipped { tracking }) => {
                shipped += 1;
                println!("{flow_id}: shipped as {tracking}");
            }
            Ok(Outcome::Refunded { amount_cents }) => {
                refunded += 1;
                println!("{flow_id}: too late, {amount_cents} cents refunded");
            }
            Err(error) => {
                failed += 1;
                println!("{flow_id}: {error}");
            }
        }
    }
    println!("{} orders: {shipped} shipped, {refunded} refunded, {failed} failed", options.count);
    if failed > 0 {
        return Err(format!("{failed} orders failed").into());
    }
    Ok(())
}

async fn run_order(client: &Client, flow_id: String, number: u32) -> Result<Outcome, ClientError> {
    let input =
        OrderInput { customer: format!("customer {number}"), amount_cents: 1_000 + u64::from(number) };
    let options = StartOptions::new().id_reuse_policy(IdReusePolicy::AllowIfNotRunning);
    client.start_with::<Order>(&flow_id, &input, options).await?;
    if !is_forgotten(number) {
        let tracking = format!("PARCEL-{number:04}");
        match client.publish(&flow_id, &SHIPPED, &tracking).await {
            // The order was quicker to give up.
            Ok(_) | Err(ClientError::NotActive { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    client.result::<Order>(&flow_id).await
}

type Error = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    mode: String,
    effects: Option<String>,
    step_delay_ms: u64,
    patience_ms: u64,
    concurrency: u32,
    count: u32,
    prefix: String,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut options = Self {
            mode: "all".to_owned(),
            effects: None,
            step_delay_ms: 50,
            patience_ms: 3_000,
            concurrency: 64,
            count: 5,
            prefix: "order".to_owned(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "worker" | "start" => options.mode = argument,
                "--effects" => options.effects = Some(value()?),
                "--step-delay" => options.step_delay_ms = value()?.parse()?,
                "--patience" => options.patience_ms = value()?.parse()?,
                "--concurrency" => options.concurrency = value()?.parse()?,
                "--count" => options.count = value()?.parse()?,
                "--prefix" => options.prefix = value()?,
                other => {
                    return Err(format!("{other} is no mode or option: see the head of order.rs").into());
                }
            }
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(log_filter())
        .init();
    let options = Options::parse(std::env::args().skip(1))?;
    match options.mode.as_str() {
        "worker" => run_worker(&options, stop_signal()).await,
        "start" => run_orders(&Client::connect(address_from_environment()).await?, &options).await,
        _ => {
            // Connecting first says at once when there is no server.
            let client = Client::connect(address_from_environment()).await?;
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let worker = run_worker(&options, async {
                let _ = stopped.await;
            });
            let orders = async {
                let outcome = run_orders(&client, &options).await;
                let _ = stop.send(());
                outcome
            };
            let (worker, orders) = tokio::join!(worker, orders);
            worker.and(orders)
        }
    }
}

fn log_filter() -> tracing_subscriber::EnvFilter {
    tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into())
}

/// Ctrl+C, or the signal by which process managers stop a process.
async fn stop_signal() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("a process may listen for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
