//! A client that asks both servers all the time, and tells when another one answers.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::processes::{Interruption, Process, Programs, TemporaryFolder};
use crate::shell::Failure;

/// No takeover takes longer: the default lease, its second, and much.
const GAP_TIMEOUT: Duration = Duration::from_secs(90);

/// The running client.
#[derive(Debug)]
pub(crate) struct Probe {
    process: Process,
    gaps: Receiver<Gap>,
}

/// A time in which nobody answered.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Gap {
    /// Who answered before it.
    pub(crate) from: String,
    /// Who answered after it.
    pub(crate) to: String,
    /// From the last answer before to the first one after.
    pub(crate) length: Duration,
    /// The first answer after it, since 1970.
    first_at: Duration,
}

impl Probe {
    /// Starts it and waits until somebody has answered it: what nobody was seen to do before, nobody can be seen to stop.
    pub(crate) fn start(
        programs: &Programs,
        folder: &TemporaryFolder,
        addresses: &str,
        interruption: &Interruption,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(programs.find("probe")?);
        command.arg(addresses);
        let log = folder.file("probe.log");
        let mut process = Process::start("the probe", &mut command, &log, Some(Stdio::piped()))?;
        let stdout = process.take_stdout().expect("stdout was asked for as a pipe");
        let (sender, gaps) = mpsc::channel();
        let (answered, first) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            // The first line says who serves; nobody waits for it any more if this fails.
            let _ = answered.send(lines.next());
            for gap in lines.filter_map(|line| Gap::parse(&line)) {
                if sender.send(gap).is_err() {
                    return;
                }
            }
        });
        interruption.wait_until("the probe's first answer", GAP_TIMEOUT, || {
            process.expect_alive()?;
            Ok(first.try_recv().is_ok())
        })?;
        Ok(Self { process, gaps })
    }

    /// Waits until somebody else serves, and tells the gap before it. Pauses of one and the same server are passed
    /// over.
    pub(crate) fn switch(&mut self, interruption: &Interruption) -> Result<Gap, Failure> {
        let mut switch = None;
        interruption.wait_until("the next server's first answer", GAP_TIMEOUT, || {
            self.process.expect_alive()?;
            switch = self.gaps.try_iter().find(|gap| gap.from != gap.to);
            Ok(switch.is_some())
        })?;
        Ok(switch.expect("it was waited for"))
    }

    /// What has been seen and not been asked for yet is of no interest any more.
    pub(crate) fn forget(&mut self) {
        self.gaps.try_iter().for_each(drop);
    }

    pub(crate) fn stop(self) -> Result<(), Failure> {
        self.process.stop().map(drop)
    }
}

impl Gap {
    fn parse(line: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(line).ok()?;
        let milliseconds =
            |name: &str| Some(Duration::from_secs_f64(json[name].as_f64()?.max(0.0) / 1_000.0));
        Some(Self {
            from: json["from"].as_str()?.to_owned(),
            to: json["to"].as_str()?.to_owned(),
            length: milliseconds("gapMs")?,
            first_at: milliseconds("firstAt")?,
        })
    }

    /// From a moment to the first answer after the gap.
    pub(crate) fn ended_after(&self, moment: SystemTime) -> Duration {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.first_at.saturating_sub(moment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_read_from_its_line() {
        let line = r#"{"from":"a:1","to":"b:2","gapMs":812.5,"lastAt":1000.0,"firstAt":1812.5}"#;
        let gap = Gap::parse(line).expect("well formed");
        assert_eq!((gap.from.as_str(), gap.to.as_str(), gap.length.as_micros()), ("a:1", "b:2", 812_500));
        assert_eq!(gap.ended_after(UNIX_EPOCH + Duration::from_millis(1_800)).as_micros(), 12_500);
        assert_eq!(Gap::parse("{}"), None);
    }
}
