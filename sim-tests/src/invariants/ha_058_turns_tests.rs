use super::TakesInTurn;
use crate::invariants::made_up::{lease, takeover, tell};
use dexzd_core::ids::{Blob, RequestId};
use dexzd_core::lease::{LeaseState, LeaseTimer};
use dexzd_core::node::{NodeTimer, Role};
use dexzd_core::store::{ReadOutcome, Version, WriteOutcome};
use dexzd_io_sim::watch::Seen;

const WAITING: Seen<'static> =
    Seen::RoleChanged { process: 0, role: Role::Waiting, epoch: None, instant_us: 0 };
const REFUSED: Seen<'static> =
    Seen::LeaseAnswered { process: 0, request: RequestId(3), outcome: &WriteOutcome::Refused };
const TRANSIENT: Seen<'static> = Seen::LeaseAnswered {
    process: 0,
    request: RequestId(3),
    outcome: &WriteOutcome::Transient { retry_after_ms: None },
};
const FAILED: Seen<'static> = Seen::TakeoverFailed { process: 0 };

fn version(number: u8) -> Version {
    Version(Blob::from(&[number][..]))
}

fn free(number: u8) -> ReadOutcome {
    let body = lease(1, 7, LeaseState::Free).encode();
    ReadOutcome::Found { version: version(number), body, stamp_ms: None }
}

fn asked(request: u64) -> Seen<'static> {
    Seen::LeaseAsked { process: 0, request: RequestId(request), instant_us: 0 }
}

fn shown(request: u64, outcome: &ReadOutcome) -> Seen<'_> {
    Seen::LeaseShown { process: 0, request: RequestId(request), outcome, instant_us: 10 }
}

fn planned(timer: LeaseTimer, due_us: u64, is_hot: bool) -> Seen<'static> {
    let timer = NodeTimer::Lease(timer);
    Seen::Planned { process: 0, is_hot_mode: true, is_hot, timer, due_us, instant_us: 10 }
}

fn watcher() -> TakesInTurn {
    TakesInTurn::new(vec![2_000_000])
}

#[test]
fn ha_057_a_hot_standby_takes_a_free_lease_within_50_ms() {
    let free = free(1);
    let story = |due_us| {
        let plan = planned(LeaseTimer::Takeover, due_us, true);
        tell(watcher(), &[(0, WAITING), (1, asked(1)), (2, shown(1, &free)), (2, plan)])
    };
    assert_eq!(story(50_010), Ok(()));
    assert_eq!(story(50_011), Err("p0 sees a free lease, and waits for Lease(Takeover)".to_owned()));
}

#[test]
fn ha_058_a_standby_that_is_not_hot_lets_others_go_first() {
    let (free, base) = (free(1), version(1));
    let story = |instant_us| {
        let poll = planned(LeaseTimer::Poll, 250_000, false);
        let takes = takeover(8, 3, Some(&base), instant_us);
        tell(watcher(), &[(0, WAITING), (1, asked(1)), (2, shown(1, &free)), (2, poll), (3, takes)])
    };
    assert_eq!(story(2_000_010), Ok(()));
    let sentence = "p0 is not hot, and takes the lease 1999999 us after it first saw it so".to_owned();
    assert_eq!(story(2_000_009), Err(sentence));
}

#[test]
fn d_009_a_refused_takeover_of_a_lease_that_did_not_change_comes_again_at_the_second_look() {
    let (free, base) = (free(1), version(1));
    let poll = || planned(LeaseTimer::Poll, 250_000, true);
    let mut story = vec![
        (0, WAITING),
        (1, takeover(8, 3, Some(&base), 5)),
        (2, REFUSED),
        (3, asked(4)),
        (4, shown(4, &free)),
        (4, poll()),
        (5, asked(5)),
        (6, shown(5, &free)),
    ];
    assert_eq!(tell(watcher(), &story), Ok(()));
    story.push((6, poll()));
    assert_eq!(tell(watcher(), &story), Err("p0 sees a free lease, and waits for Lease(Poll)".to_owned()));
}

#[test]
fn ha_062_a_failure_holds_back_from_the_same_state_only() {
    let (same, other, base) = (free(1), free(2), version(1));
    let poll = || planned(LeaseTimer::Poll, 250_000, true);
    let mut story = vec![
        (0, WAITING),
        (1, takeover(8, 3, Some(&base), 5)),
        (2, TRANSIENT),
        (2, FAILED),
        (3, asked(4)),
        (4, shown(4, &same)),
        (4, poll()),
        (5, asked(5)),
        (6, shown(5, &same)),
        (6, poll()),
        (7, asked(6)),
        (8, shown(6, &other)),
    ];
    assert_eq!(tell(watcher(), &story), Ok(()));
    story.push((8, poll()));
    assert_eq!(tell(watcher(), &story), Err("p0 sees a free lease, and waits for Lease(Poll)".to_owned()));
}

#[test]
fn d_052_a_lost_race_is_no_failed_takeover() {
    let base = version(1);
    let story = [(0, WAITING), (1, takeover(8, 3, Some(&base), 5)), (2, REFUSED), (2, FAILED)];
    assert_eq!(tell(watcher(), &story), Err("p0 calls a race that it lost a failed takeover".to_owned()));
}
