//! An active server and a hot standby over one folder. The active is killed in the middle, the standby takes over;
//! the killed one comes back as the standby, and a step down gives the role back to it.

use std::time::Duration;

use super::orders::{Orders, Verdict};
use super::stage::Stage;
use crate::pair::{Member, Pair, Settings, SharedStore};
use crate::probe::{Gap, Probe};
use crate::processes::Process;
use crate::shell::Failure;

/// Shorter than the default of 10 s, so that nobody has to watch 11 s of nothing.
const LEASE: Duration = Duration::from_secs(3);

/// The active is killed when this share of the orders is done.
const KILL_AT_PERCENT: u32 = 25;

/// The second one steps down when this share is done, at the earliest.
const STEP_DOWN_AT_PERCENT: u32 = 60;

/// The step down waits for the Steps that run: fractions of a second, here.
const STEP_DOWN_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn play(stage: &Stage<'_>, count: u32) -> Result<Verdict, Failure> {
    let store = stage.folder.file("store");
    std::fs::create_dir(&store)
        .map_err(|error| Failure::new(format!("cannot create {}: {error}", store.display())))?;
    let settings =
        Settings { node_id: "demo", store: SharedStore::Folder(store), lease: LEASE, hold_off: None };
    let pair = Pair::new(stage.programs, stage.folder, stage.interruption, &settings)?;
    println!("store     a folder that both servers share; the lease is {} s (default: 10)", LEASE.as_secs());
    let mut active = pair.a.spawn()?;
    let took = pair.a.wait_until_active(&mut active)?;
    introduce(&pair.a, &active, "active", took);
    let mut standby = pair.b.spawn()?;
    let took = pair.b.wait_until_hot(&mut standby)?;
    introduce(&pair.b, &standby, "hot standby", took);
    let mut worker = stage.start_worker(pair.addresses())?;
    let mut probe = Probe::start(stage.programs, stage.folder, pair.addresses(), stage.interruption)?;
    let mut orders = stage.start_orders(pair.addresses(), count)?;

    orders.run_until(count * KILL_AT_PERCENT / 100, stage.interruption, || worker.expect_alive())?;
    let killed = kill(&pair, active, standby, &mut orders, &mut probe, stage)?;
    let Killed { gap: crash, mut a, mut b } = killed;

    orders.run_until(count * STEP_DOWN_AT_PERCENT / 100, stage.interruption, || worker.expect_alive())?;
    let step_down = step_down(&pair, &orders, &mut probe, stage)?;

    orders.run_until(count, stage.interruption, || {
        worker.expect_alive()?;
        a.expect_alive()?;
        b.expect_alive()
    })?;
    let summary = orders.finish(stage.interruption)?;
    println!(
        "\nA client that asked both servers every few milliseconds had no answer\n  \
         for {:>5} ms when the active was killed: what was left of its {} s lease, and 1 s more\n  \
         for {:>5} ms when the active stepped down: nobody waits for a lease that was given back",
        crash.length.as_millis(),
        LEASE.as_secs(),
        step_down.length.as_millis()
    );
    let verdict = Verdict::reach(&pair.dexcli.of(&pair.a.address), summary, &stage.effects()?, count)?;
    worker.stop()?;
    probe.stop()?;
    // The standby first: it would take over from an active that stops.
    b.stop()?;
    a.stop()?;
    Ok(verdict)
}

fn introduce(member: &Member, process: &Process, role: &str, took: Duration) {
    println!(
        "server {}  process {}, {}, {role} after {} ms",
        member.name,
        process.id(),
        member.address,
        took.as_millis()
    );
}

/// After the kill: B is active, and A, started again, its standby.
struct Killed {
    gap: Gap,
    a: Process,
    b: Process,
}

fn kill(
    pair: &Pair,
    mut active: Process,
    standby: Process,
    orders: &mut Orders,
    probe: &mut Probe,
    stage: &Stage<'_>,
) -> Result<Killed, Failure> {
    let victim = active.id();
    active.kill()?;
    orders.say(&format!(
        "kill -9 {victim}: A is gone with {} orders under way; B may take over 1 s after A's lease has run out",
        orders.open()
    ));
    let gap = probe.switch(stage.interruption).map_err(|failure| standby.failure(&failure.to_string()))?;
    orders.say(&format!(
        "B serves {:.1} s after A's last answer, as epoch {}: every order goes on where it was",
        gap.length.as_secs_f64(),
        pair.b.epoch()
    ));
    let mut again = pair.a.spawn()?;
    let took = pair.a.wait_until_hot(&mut again)?;
    orders.say(&format!(
        "A is started again: process {}, hot standby after {} ms",
        again.id(),
        took.as_millis()
    ));
    Ok(Killed { gap, a: again, b: standby })
}

fn step_down(pair: &Pair, orders: &Orders, probe: &mut Probe, stage: &Stage<'_>) -> Result<Gap, Failure> {
    orders.say(&format!("dexcli admin step-down --yes: B finishes what runs and gives the lease back, {} orders are under way", orders.open()));
    let dexcli = pair.dexcli.of(&pair.b.address);
    let mut command = dexcli.step_down(stage.folder)?;
    stage.interruption.wait_until("the step down", STEP_DOWN_TIMEOUT, || Ok(command.ended()?.is_some()))?;
    let answer = command.answer()?;
    let gap = probe.switch(stage.interruption)?;
    orders.say(&format!(
        "{}: A serves {} ms after B's last answer, as epoch {}; B is its standby",
        answer["leaseHolderAfterStepDown"].as_str().unwrap_or("?"),
        gap.length.as_millis(),
        answer["activeNodeEpoch"].as_str().unwrap_or("?")
    ));
    Ok(gap)
}
