//! The batch of orders while it runs, and the judgement afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::effects::Effects;
use crate::node::Dexcli;
use crate::processes::{Interruption, LOOK_INTERVAL, Process, TemporaryFolder};
use crate::shell::Failure;

/// The batch takes seconds; one that takes longer than this has got stuck.
const BATCH_TIMEOUT: Duration = Duration::from_secs(180);

/// A running batch of orders.
pub(super) struct Orders {
    process: Process,
    lines: Receiver<String>,
    finished: u32,
    total: u32,
    bar: ProgressBar,
    /// Where there is no terminal for the bar, it is told in quarters.
    told_quarters: u32,
    last_line: String,
}

impl Orders {
    pub(super) fn start(mut command: Command, folder: &TemporaryFolder, total: u32) -> Result<Self, Failure> {
        let log = folder.file("orders.log");
        let mut process = Process::start("the client", &mut command, &log, Some(Stdio::piped()))?;
        let stdout = process.take_stdout().expect("stdout was asked for as a pipe");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let style = ProgressStyle::with_template("  {bar:40.green} {pos}/{len} orders finished  {elapsed}")
            .expect("the template is well formed");
        let bar = ProgressBar::new(total.into()).with_style(style);
        Ok(Self { process, lines, finished: 0, total, bar, told_quarters: 0, last_line: String::new() })
    }

    /// How many are under way.
    pub(super) fn open(&self) -> u32 {
        self.total - self.finished
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.bar.println(format!("  {text}"));
        } else {
            println!("  {text}");
        }
    }

    /// Follows the batch until so many orders are finished; `look` fails if something else has failed.
    pub(super) fn run_until(
        &mut self,
        finished: u32,
        interruption: &Interruption,
        mut look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let result = interruption.wait_until("the batch of orders", BATCH_TIMEOUT, || {
            look()?;
            let ended = self.process.ended()?;
            while let Ok(line) = self.lines.recv_timeout(LOOK_INTERVAL) {
                self.note(line);
            }
            if self.finished < finished
                && let Some(status) = ended
            {
                return Err(self
                    .process
                    .failure(&format!("the client ended early ({status}): {}", self.last_line)));
            }
            Ok(self.finished >= finished)
        });
        result.map(drop)
    }

    /// `order-1: shipped as …` is one finished order.
    fn note(&mut self, line: String) {
        if line.contains(": ") && !line.starts_with(char::is_numeric) {
            self.finished += 1;
            self.bar.set_position(self.finished.into());
            let quarters = self.finished * 4 / self.total;
            if quarters > self.told_quarters && !std::io::stderr().is_terminal() {
                println!("  {} of {} orders finished", self.finished, self.total);
            }
            self.told_quarters = quarters;
        }
        self.last_line = line;
    }

    /// The client's own summary, once it has ended.
    pub(super) fn finish(mut self, interruption: &Interruption) -> Result<String, Failure> {
        interruption.wait_until("the client's end", BATCH_TIMEOUT, || Ok(self.process.ended()?.is_some()))?;
        while let Ok(line) = self.lines.recv_timeout(LOOK_INTERVAL) {
            self.note(line);
        }
        self.bar.finish_and_clear();
        Ok(self.last_line.clone())
    }
}

/// What came of the orders.
#[derive(Debug)]
pub(super) struct Verdict {
    orders: u32,
    completed: usize,
    summary: String,
    steps_completed: usize,
    /// Step executions whose completion the history does not hold exactly once.
    steps_not_once: Vec<String>,
    effects: EffectsVerdict,
}

#[derive(Debug)]
pub(super) struct EffectsVerdict {
    pub(super) calls: usize,
    pub(super) keys: usize,
    pub(super) charged_orders: usize,
    /// Orders that were both shipped and refunded, or charged under two keys.
    pub(super) contradictions: Vec<String>,
}

impl Verdict {
    /// Asks the server about every order, and the outside world what it was asked to do.
    pub(super) fn reach(
        dexcli: &Dexcli,
        summary: String,
        effects: &Effects,
        orders: u32,
    ) -> Result<Self, Failure> {
        let search = dexcli.ask(&["flow", "search", "--all", "--query", "flowType = \"Order\""])?;
        let flows = search["flows"].as_array().cloned().unwrap_or_default();
        let completed = flows.iter().filter(|flow| flow["status"] == "completed").count();
        let mut steps_completed = 0;
        let mut steps_not_once = Vec::new();
        for flow in &flows {
            let flow_id = flow["flowId"].as_str().unwrap_or_default();
            let history = dexcli.ask(&["flow", "history", flow_id, "--all"])?;
            let mut completions: BTreeMap<String, u32> = BTreeMap::new();
            for event in history["events"].as_array().into_iter().flatten() {
                if event["type"] == "executeCompleted" {
                    let step = event["step"].as_str().unwrap_or_default();
                    *completions.entry(format!("{flow_id}/{step}")).or_default() += 1;
                }
            }
            steps_completed += completions.len();
            steps_not_once
                .extend(completions.into_iter().filter(|(_, times)| *times != 1).map(|(step, _)| step));
        }
        Ok(Self { orders, completed, summary, steps_completed, steps_not_once, effects: effects.judge() })
    }

    pub(super) fn holds(&self) -> bool {
        self.completed == self.orders as usize
            && self.effects.charged_orders == self.orders as usize
            && self.steps_not_once.is_empty()
            && self.effects.contradictions.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effects = &self.effects;
        writeln!(formatter, "What the client saw     {}", self.summary)?;
        writeln!(formatter, "What the server holds   {} of {} Flows completed", self.completed, self.orders)?;
        writeln!(
            formatter,
            "Steps, exactly once     {} completed, {} of them twice or contradictory",
            self.steps_completed,
            self.steps_not_once.len()
        )?;
        writeln!(
            formatter,
            "Calls to the outside    {} calls under {} idempotency keys; {} of {} cards charged",
            effects.calls, effects.keys, effects.charged_orders, self.orders
        )?;
        let repeated = effects.calls - effects.keys;
        if repeated > 0 {
            writeln!(
                formatter,
                "                        {repeated} were running when a server died and ran again. No system can\n\
                 \x20                       take back a call it has made: it repeats it under the same key, and a\n\
                 \x20                       bank that knows the key charges once. What a Step decided counts once."
            )?;
        }
        for step in &self.steps_not_once {
            writeln!(formatter, "NOT ONCE                {step}")?;
        }
        for contradiction in &effects.contradictions {
            writeln!(formatter, "CONTRADICTION           {contradiction}")?;
        }
        Ok(())
    }
}
