//! A pair over S3's protocol whose active has trouble with its store, under load.

use std::time::Duration;

use dexzd_rig::proxy::{Fate, Rule};

use crate::cloud::Cloud;
use crate::epochs::Epochs;
use crate::harness::Server;
use crate::load::Load;
use crate::pair::{ended, next_word, terminate};

const RENEWALS: &str = "dexzd_lease_renewal_seconds_count";
const FAILED: &str = "dexzd_lease_renewal_failures_total";

fn lease(fate: Fate) -> Rule {
    Rule::always(fate).of("PUT").on("/pair/lease")
}

fn log(fate: Fate) -> Rule {
    Rule::always(fate).of("PUT").on("/pair/log/")
}

/// A pair under load, as the parts of each test need it.
struct Scene {
    cloud: Cloud,
    active: Server,
    standby: Server,
    epochs: Epochs,
    load: Load,
}

impl Scene {
    async fn new() -> Self {
        let cloud = Cloud::new();
        let (active, standby) = (cloud.a.active(), cloud.b.hot_standby().await);
        let epochs = Epochs::watch(&[&cloud.a.api, &cloud.b.api]);
        let load = Load::begin(&cloud.both, 2);
        epochs.until(1).await;
        load.acknowledge(20).await;
        Self { cloud, active, standby, epochs, load }
    }

    /// Until this counter of the active has grown by so much, with calls acknowledged all the time.
    async fn until(&self, counter: &str, more: u64) {
        let goal = self.active.metric(counter) + more;
        while self.active.metric(counter) < goal {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// It lived through it: no other epoch, and no client saw anything.
    async fn lives_on(self) {
        self.load.acknowledge(20).await;
        assert_eq!(self.active.metric("dexzd_epoch"), 1);
        assert_eq!(self.active.metric("dexzd_role{role=\"active\"}"), 1);
        self.load.verify().await;
        self.epochs.verify().await;
        terminate([self.standby, self.active]);
    }

    /// It ends for this reason, the other one takes over, and nothing that was acknowledged is lost.
    async fn followed_after(self, reason: &str) {
        let ended = ended(self.active).await;
        assert_eq!(ended.code, Some(1), "HA-34: {}", ended.stderr);
        let line = ended.last_line();
        assert!(line.starts_with(&format!("dex-server-zd stopped: {reason}: ")), "{line}");
        assert!(line.ends_with(&format!("; see docs/errors/{reason}.md")), "{line}");
        assert_eq!(next_word(&self.standby).await, "ready");
        self.epochs.until(2).await;
        self.load.verify().await;
        self.epochs.verify().await;
        terminate([self.standby]);
    }
}

/// D-8, D-9, D-10, HA-28, lesson C1: the store did it and nobody said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_008_d_010_ha_028_lesson_c1_lost_answers_of_renewals_and_log_writes_are_found_again() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(lease(Fate::AnswerLost).times(2));
    scene.cloud.before_a.add(log(Fate::AnswerLost).times(5));
    scene.load.acknowledge(30).await;
    scene.until(RENEWALS, 2).await;
    assert!(scene.active.metric(FAILED) >= 1, "an answer was lost");
    scene.lives_on().await;
}

/// HA-22, HA-26: a storm that is over before the lease is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_022_d_009_a_short_storm_of_503_is_survived() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(lease(Fate::s3_error(503, "SlowDown")).times(2));
    scene.cloud.before_a.add(log(Fate::s3_error(503, "SlowDown")).times(5));
    scene.until(FAILED, 2).await;
    scene.until(RENEWALS, 1).await;
    scene.lives_on().await;
}

/// HA-27, HA-34, D-51: one that is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_027_ha_034_a_storm_longer_than_the_lease_ends_the_active() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(Rule::always(Fate::s3_error(503, "SlowDown")));
    scene.followed_after("lease_expired").await;
}

/// HA-27, HA-18: one process alone cannot reach the store; it ends by itself before the other one begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_018_ha_027_a_process_that_is_cut_off_from_the_store_ends_and_the_other_takes_over() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(Rule::always(Fate::Lost));
    scene.followed_after("lease_expired").await;
}

/// HA-31, D-9: a denial does not use up the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_031_d_009_a_denied_renewal_ends_the_active_with_that_reason() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(lease(Fate::s3_error(403, "AccessDenied")));
    scene.followed_after("storage_permanent").await;
}

/// Lesson 10, HA-32: log writes that each take longer than a lease delay no renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_001_lesson_10_renewals_wait_for_no_log_write() {
    let scene = Scene::new().await;
    scene.cloud.before_a.add(log(Fate::Delayed(Duration::from_secs(4))).times(2));
    scene.until(RENEWALS, 5).await;
    scene.cloud.before_a.clear();
    scene.lives_on().await;
}
