//! Kills and step downs of a pair, one after the other, as often as it takes, and what each took.

use std::time::{Duration, SystemTime};

use super::clients::Clients;
use crate::pair::{Member, Pair, Settings};
use crate::probe::Probe;
use crate::processes::Process;
use crate::shell::Failure;

/// A step down waits for what runs, and then for the other one.
const STEP_DOWN_TIMEOUT: Duration = Duration::from_secs(120);

/// Both servers running, and who of them serves.
pub(super) struct Running<'a> {
    pair: &'a Pair,
    clients: Clients<'a>,
    active: Side,
    a: Process,
    b: Process,
    probe: Probe,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    A,
    B,
}

/// What one kill took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kill {
    /// From SIGKILL to the first served call.
    pub(super) outage: Duration,
    /// Of it, from the lease to serving, by the log of the one who took over.
    pub(super) recovery: Duration,
}

impl<'a> Running<'a> {
    /// Starts both with these settings and waits until one serves and the other one is hot.
    pub(super) fn start(pair: &'a Pair, clients: Clients<'a>, settings: &Settings) -> Result<Self, Failure> {
        pair.set(settings)?;
        let mut a = pair.a.spawn()?;
        pair.a.wait_until_active(&mut a)?;
        let mut b = pair.b.spawn()?;
        pair.b.wait_until_hot(&mut b)?;
        let probe = Probe::start(clients.programs, clients.folder, pair.addresses(), clients.interruption)?;
        Ok(Self { pair, clients, active: Side::A, a, b, probe })
    }

    /// Stops everything in order; the active last, so that nobody takes over from it.
    pub(super) fn stop(self) -> Result<(), Failure> {
        self.probe.stop()?;
        let (first, last) = match self.active {
            Side::A => (self.b, self.a),
            Side::B => (self.a, self.b),
        };
        first.stop()?;
        last.stop().map(drop)
    }

    fn member(&self, side: Side) -> &'a Member {
        match side {
            Side::A => &self.pair.a,
            Side::B => &self.pair.b,
        }
    }

    fn process(&mut self, side: Side) -> &mut Process {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Kills the active without warning, waits until the standby serves, and starts the killed one again.
    pub(super) fn kill(&mut self) -> Result<Kill, Failure> {
        self.probe.forget();
        let (victim, heir) = (self.active, self.active.other());
        let killed_at = SystemTime::now();
        self.process(victim).kill()?;
        let gap = self.switch(heir)?;
        let again = self.member(victim).spawn()?;
        *self.process(victim) = again;
        self.active = heir;
        let recovery = self.member(heir).last_takeover()?.recovery;
        self.wait_until_hot(victim)?;
        Ok(Kill { outage: gap.ended_after(killed_at), recovery })
    }

    /// Lets `dexcli` step the active down, and waits until the other one serves and this one is hot. Returns the time
    /// from the old one's last answer to the new one's first: the release lies in it.
    pub(super) fn step_down(&mut self) -> Result<Duration, Failure> {
        self.probe.forget();
        let (former, heir) = (self.active, self.active.other());
        let dexcli = self.pair.dexcli.of(&self.member(former).address);
        let mut command = dexcli.step_down(self.clients.folder)?;
        let gap = self.switch(heir)?;
        self.active = heir;
        self.clients
            .interruption
            .wait_until("dexcli admin step-down", STEP_DOWN_TIMEOUT, || Ok(command.ended()?.is_some()))?;
        command.answer()?;
        self.wait_until_hot(former)?;
        Ok(gap.length)
    }

    fn switch(&mut self, heir: Side) -> Result<crate::probe::Gap, Failure> {
        let result = self.probe.switch(self.clients.interruption);
        let address = &self.member(heir).address;
        match result {
            Ok(gap) if gap.to == *address => Ok(gap),
            Ok(gap) => Err(self.process(heir).failure(&format!("{} serves, not the other one", gap.to))),
            Err(failure) => Err(self.process(heir).failure(&failure.to_string())),
        }
    }

    fn wait_until_hot(&mut self, side: Side) -> Result<(), Failure> {
        let member = self.member(side);
        member.wait_until_hot(self.process(side)).map(drop)
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The time below which so many of a hundred lie.
pub(super) fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<_> = (1..=50).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Some(Duration::from_millis(25)));
        assert_eq!(percentile(&times, 99), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&times[..1], 99), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&[], 50), None);
    }
}
