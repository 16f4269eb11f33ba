//! Two real processes of one node: one serves, the other follows and takes over.

use dexzd_proto::LeaseHolder;
use dexzd_sdk::prelude::*;

use crate::flows::{Relay, WORD, relay_worker};
use crate::harness::Home;
use crate::pair::{Member, next_word, step_down, terminate};

/// Flows that were begun under one active end under the next, which a kill and a step down made.
#[tokio::test(flavor = "multi_thread")]
async fn ha_042_ha_055_ha_099_two_processes_change_places_and_lose_nothing() {
    let home = Home::new();
    let (a, b, both) = Member::pair(&home);
    let first = a.active();
    let second = b.hot_standby().await;
    let worker = relay_worker(&both);
    let client = Client::new(&both).expect("addresses");
    let start = async |flow_id: &str| {
        client.start::<Relay>(flow_id, &"text".to_owned()).await.expect("started");
    };
    let finish = async |flow_id: &str| {
        client.publish(flow_id, &WORD, &"word".to_owned()).await.expect("published");
        assert_eq!(client.result::<Relay>(flow_id).await.expect("it completes"), "text word");
    };
    start("killed").await;
    start("stepped down").await;

    tokio::task::block_in_place(|| first.kill());
    finish("killed").await;
    assert_eq!(next_word(&second).await, "ready");
    let epoch = second.metric("dexzd_epoch");

    let first = a.hot_standby().await;
    assert_eq!(step_down(&b.api).await, LeaseHolder::TakenOverByAnotherProcess);
    finish("stepped down").await;
    assert_eq!(next_word(&second).await, "standby");
    assert_eq!(next_word(&first).await, "ready");
    assert!(first.metric("dexzd_epoch") > epoch, "HA-13");
    start("afterwards").await;
    finish("afterwards").await;

    worker.abort();
    terminate([second, first]);
}
