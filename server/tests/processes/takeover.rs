//! A pair under load whose active is killed and stepped down, again and again.

use std::time::Duration;

use dexzd_proto::LeaseHolder;

use crate::epochs::Epochs;
use crate::harness::Home;
use crate::load::Load;
use crate::pair::{Member, next_word, step_down, terminate};

const ROUNDS: u32 = 6;

/// HA-14, HA-18, HA-55, FD-1, FD-7, FD-16, D-35: kills and step downs in turn at random moments. Clients of the SDK
/// see no error, what they were told is true afterwards, and each takeover has a higher epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ha_014_ha_055_fd_001_fd_007_fd_016_kills_and_step_downs_under_load_cost_no_client_an_error() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let mut active = (a.active(), &a);
    let mut standby = (b.hot_standby().await, &b);
    let epochs = Epochs::watch(&[&a.api, &b.api]);
    let load = Load::begin(&both, 4);

    let seed = u64::from(std::process::id());
    println!("moments from seed {seed}");
    let mut moments = fastrand::Rng::with_seed(seed);
    let mut epoch = active.0.metric("dexzd_epoch");
    for round in 0..ROUNDS {
        epochs.until(round as usize + 1).await;
        load.acknowledge(10).await;
        tokio::time::sleep(Duration::from_millis(moments.u64(0..1_200))).await;
        let (server, member) = active;
        let old = if round % 2 == 0 {
            tokio::task::block_in_place(|| server.kill());
            None
        } else {
            assert_eq!(step_down(&member.api).await, LeaseHolder::TakenOverByAnotherProcess);
            assert_eq!(next_word(&server).await, "standby", "HA-93: it lives on");
            Some(server)
        };
        assert_eq!(next_word(&standby.0).await, "ready");
        active = standby;
        standby = match old {
            Some(server) => {
                crate::pair::await_hot(&member.api).await;
                (server, member)
            }
            None => (member.hot_standby().await, member),
        };
        let newer = active.0.metric("dexzd_epoch");
        assert!(newer > epoch, "HA-13: epoch {newer} after {epoch}");
        epoch = newer;
    }

    let started = load.verify().await;
    println!("{started} Flows over {ROUNDS} changes of the active");
    epochs.until(ROUNDS as usize + 1).await;
    epochs.verify().await;
    terminate([standby.0, active.0]);
}
