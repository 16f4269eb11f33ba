//! One server that is killed in the middle and started again.

use std::time::Duration;

use super::orders::Verdict;
use super::stage::Stage;
use crate::node::Node;
use crate::shell::Failure;

/// The server is killed when this share of the orders is done.
const KILL_AT_PERCENT: u32 = 35;

/// How long the server stays dead, so that everybody notices.
const DEAD_FOR: Duration = Duration::from_millis(800);

pub(super) fn play(stage: &Stage<'_>, count: u32) -> Result<Verdict, Failure> {
    let node = Node::new(stage.programs, stage.folder, stage.interruption)?;
    let (mut server, took) = node.start()?;
    println!("server    process {}, {}, ready after {} ms", server.id(), node.address(), took.as_millis());
    let mut worker = stage.start_worker(node.address())?;
    let mut orders = stage.start_orders(node.address(), count)?;
    orders.run_until(count * KILL_AT_PERCENT / 100, stage.interruption, || worker.expect_alive())?;

    let victim = server.id();
    server.kill()?;
    orders.say(&format!("kill -9 {victim}: the server is gone, {} orders are under way", orders.open()));
    std::thread::sleep(DEAD_FOR);
    let (again, took) = node.start()?;
    server = again;
    orders.say(&format!(
        "process {} read the log and serves after {} ms: every order goes on where it was",
        server.id(),
        took.as_millis()
    ));

    orders.run_until(count, stage.interruption, || {
        worker.expect_alive()?;
        server.expect_alive()
    })?;
    let summary = orders.finish(stage.interruption)?;
    let verdict = Verdict::reach(&node.dexcli, summary, &stage.effects()?, count)?;
    worker.stop()?;
    server.stop()?;
    Ok(verdict)
}
