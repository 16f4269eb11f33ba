//! Whatever happens in whatever order: what must never happen does not.

use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

use proptest::collection::vec as list;
use proptest::prelude::*;

use super::driver::Driver;
use super::{AdminRequest, FollowOrder, Input, Output, Period, Role};
use crate::engine::{NodeOrder, NodeReport};
use crate::gate::GateView;
use crate::ids::{CallId, Epoch};
use crate::lease::driver::{OTHER, Store, held_by, node};
use crate::lease::{CandidateConfig, LeaseRecord, LeaseState};
use crate::standby::{FollowerReport, FollowerState};
use crate::stop::StopReason;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    Pass {
        ms: u64,
    },
    Freeze {
        ms: u64,
    },
    JumpWall,
    StoreFallsSilent,
    StoreAnswers,
    /// What was sent so far never arrives.
    StoreForgets,
    OtherTakes,
    OtherRenews,
    OtherReleases,
    /// The data plane does what it was told last.
    Obeys,
    StoreCloses,
    Follower(FollowerState),
    Describe,
    StepDown {
        on_old_connection: bool,
    },
    EpochBehind,
    Fails(StopReason),
    Terminate,
}

fn act() -> impl Strategy<Value = Act> {
    let state = prop::sample::select(FollowerState::ALL.to_vec());
    let reasons = [StopReason::LogWriteTimeout, StopReason::LocalStoreFailed, StopReason::LogHole];
    prop_oneof![
        12 => (0_u64..6_000).prop_map(|ms| Act::Pass { ms }),
        1 => (0_u64..30_000).prop_map(|ms| Act::Freeze { ms }),
        1 => Just(Act::JumpWall),
        2 => Just(Act::StoreFallsSilent),
        4 => Just(Act::StoreAnswers),
        1 => Just(Act::StoreForgets),
        2 => Just(Act::OtherTakes),
        1 => Just(Act::OtherRenews),
        2 => Just(Act::OtherReleases),
        20 => Just(Act::Obeys),
        4 => Just(Act::StoreCloses),
        3 => state.prop_map(Act::Follower),
        2 => Just(Act::Describe),
        5 => any::<bool>().prop_map(|on_old_connection| Act::StepDown { on_old_connection }),
        1 => Just(Act::EpochBehind),
        1 => prop::sample::select(reasons.to_vec()).prop_map(Act::Fails),
        1 => Just(Act::Terminate),
    ]
}

/// What the data plane owes, and what was seen of the node so far.
struct World {
    driver: Driver,
    owed: Vec<Input>,
    is_store_open: bool,
    was_built: bool,
    is_following: bool,
    calls: BTreeSet<CallId>,
    released: Option<Epoch>,
    period: Period,
}

impl World {
    fn new(hot: bool) -> Self {
        let driver = if hot {
            Driver::hot(Store::default())
        } else {
            Driver::new(CandidateConfig::default(), Store::default())
        };
        Self {
            driver,
            owed: Vec::new(),
            is_store_open: false,
            was_built: false,
            is_following: false,
            calls: BTreeSet::new(),
            released: None,
            period: Period(1),
        }
    }

    fn act(&mut self, act: &Act) {
        let driver = &mut self.driver;
        match act {
            Act::Pass { ms } => {
                let until = driver.now_ms() + ms;
                driver.alive_until_ms(until);
            }
            Act::Freeze { ms } => {
                let until = driver.now_ms() + ms;
                driver.freeze_until_ms(until);
            }
            Act::JumpWall => driver.jump_wall_ms(10_000),
            Act::StoreFallsSilent => driver.is_store_silent = true,
            Act::StoreAnswers => driver.answer(),
            Act::StoreForgets => driver.unanswered.clear(),
            Act::OtherTakes => self.other_takes(),
            Act::OtherRenews => self.other_writes(LeaseState::Held),
            Act::OtherReleases => self.other_writes(LeaseState::Free),
            Act::Obeys => {
                if !self.owed.is_empty() {
                    let input = self.owed.remove(0);
                    self.driver.input(input);
                }
            }
            Act::StoreCloses => {
                // Never before nothing can leave any more.
                let role = driver.node.role();
                if self.is_store_open && matches!(role, Role::Releasing | Role::HoldOff) {
                    self.is_store_open = false;
                    driver.input(Input::StoreClosed);
                }
            }
            Act::Follower(state) => {
                if self.is_following {
                    let caught_up_at = Some(driver.now().instant);
                    driver.input(Input::Follower(FollowerReport { state: *state, caught_up_at }));
                }
            }
            Act::Describe => {
                let call = driver.call(AdminRequest::Describe);
                assert!(driver.answer_of(call).is_some(), "describe is answered at once");
            }
            Act::StepDown { on_old_connection } => {
                let epoch = driver.node.tenure().map_or(Epoch(1), |tenure| tenure.record.epoch);
                let Period(period) = driver.node.period().number;
                let opened_in = Period(period - u64::from(*on_old_connection && period > 1));
                let request = AdminRequest::StepDown { node_id: node(), epoch };
                self.calls.insert(driver.call_on(opened_in, request));
            }
            Act::EpochBehind => {
                if driver.node.role() == Role::Opening {
                    let found = Epoch(driver.epoch_in_lease().0 + 3);
                    self.owed.clear();
                    driver.input(Input::EpochBehind { found, lease_duration_ms: Some(10_000) });
                }
            }
            Act::Fails(reason) => driver.input(Input::Failed(*reason)),
            Act::Terminate => driver.input(Input::Terminate),
        }
        self.look();
    }

    /// A lease that is free, or that nobody renewed for long enough.
    fn other_takes(&mut self) {
        if self.driver.store.is_empty() {
            return;
        }
        let record = self.driver.store.record();
        let expired = self.driver.node.tenure().is_none();
        if record.state == LeaseState::Free || (expired && record.holder != OTHER) {
            let taken = LeaseRecord { epoch: Epoch(record.epoch.0 + 1), ..held_by(OTHER, 0, self.nonce()) };
            self.driver.store.put(&taken);
        }
    }

    fn other_writes(&mut self, state: LeaseState) {
        if self.driver.store.is_empty() || self.driver.store.record().holder != OTHER {
            return;
        }
        let epoch = self.driver.epoch_in_lease();
        let record = LeaseRecord { epoch, state, ..held_by(OTHER, 0, self.nonce()) };
        self.driver.store.put(&record);
    }

    fn nonce(&self) -> u64 {
        1_000 + self.driver.now_ms()
    }

    fn look(&mut self) {
        for order in self.driver.follows() {
            self.is_following = match order {
                FollowOrder::Start { .. } => {
                    assert!(!self.is_store_open, "the old store is closed first (D-38)");
                    assert!(!self.is_following, "one follower at a time");
                    true
                }
                FollowOrder::Lease { .. } => {
                    assert!(self.is_following);
                    true
                }
                FollowOrder::Stop => false,
            };
        }
        // No act both opens a log and follows again after it.
        for output in self.driver.told() {
            self.obey(&output);
        }
        self.look_at_calls();
        self.look_at_node();
    }

    fn obey(&mut self, output: &Output) {
        match output {
            Output::OpenLog(open) => {
                // Where the epoch is raised the store was opened by the same tenure (D-55).
                assert!(!self.is_store_open || self.released < Some(open.epoch));
                self.is_store_open = true;
                self.is_following = false;
                self.was_built = false;
                assert!(self.released.is_none_or(|released| open.epoch > released), "a higher epoch (HA-13)");
                self.owed = Vec::from([Input::LogFenced]);
            }
            Output::BuildEngine { .. } => {
                assert!(!self.was_built, "one engine per tenure");
                self.was_built = true;
                self.owed = Vec::from([Input::Engine(NodeReport::Recovered)]);
            }
            Output::Engine(order) => {
                self.owed = match order {
                    NodeOrder::Serve => Vec::new(),
                    NodeOrder::Drain | NodeOrder::Interrupt => {
                        Vec::from([Input::Engine(NodeReport::Drained)])
                    }
                    NodeOrder::Commit => Vec::from([Input::Engine(NodeReport::Committed)]),
                    NodeOrder::Close => Vec::from([Input::Engine(NodeReport::Closed)]),
                };
            }
            _ => {}
        }
    }

    fn look_at_calls(&mut self) {
        let open: Vec<CallId> = self.calls.iter().copied().collect();
        for call in open {
            if self.driver.answer_of(call).is_some() {
                self.calls.remove(&call);
            }
        }
        assert!(self.calls.len() <= 1, "one step down at a time");
    }

    fn look_at_node(&mut self) {
        let now = self.driver.now().instant;
        let gate = self.driver.look_at_gate();
        let driver = &self.driver;
        let (role, period) = (driver.node.role(), driver.node.period());
        assert!(period.number >= self.period, "periods only grow");
        self.period = period.number;
        if role == Role::Releasing || role == Role::HoldOff {
            let epoch = driver.node.epoch.expect("something was held");
            self.released = self.released.max(Some(epoch));
        }
        if gate == GateView::Open {
            let epoch = driver.node.tenure().expect("an open gate has a lease behind it").record.epoch;
            assert!(self.released < Some(epoch), "a released epoch never serves again (D-37)");
            assert!(role.is_serving());
        }
        let health = driver.node.health(now);
        assert!(!health.is_serving || (role.is_serving() && !period.is_standby));
        assert!(!(health.is_serving && health.is_hot_standby));
        assert!(!health.is_hot_standby || self.is_following);
        assert_eq!(driver.node.standby_gauges(now).state.is_some(), {
            let stands_by = matches!(role, Role::Waiting | Role::HoldOff);
            stands_by && driver.node.config.standby.is_hot()
        });
        assert!(role != Role::Stopped || driver.exit.is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn d_037_ha_104_d_047_whatever_happens_in_whatever_order(hot: bool, acts in list(act(), 1..120)) {
        let mut world = World::new(hot);
        for act in &acts {
            if world.driver.exit.is_some() {
                break;
            }
            world.act(act);
        }
        // From here on everything works: every step down is answered, in the time that it has at most.
        for _ in 0..130 {
            if world.driver.exit.is_some() {
                break;
            }
            world.act(&Act::StoreAnswers);
            world.act(&Act::Obeys);
            world.act(&Act::Pass { ms: 1_000 });
        }
        prop_assert!(world.calls.is_empty(), "every step down is answered");
        // And the lease is somebody's, or this process has ended.
        let role = world.driver.node.role();
        let held = || world.driver.store.record().state == LeaseState::Held;
        prop_assert!(world.driver.exit.is_some() || held(), "{role:?}");
    }
}
