//! Two real processes of one node: one serves, the other follows and takes over.

use std::path::{Path, PathBuf};

use dexzd_proto as proto;
use dexzd_sdk::prelude::*;
use proto::admin_service_client::AdminServiceClient;
use proto::{LeaseHolder, StepDownRequest};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::flows::{Relay, WORD, relay_worker};
use crate::harness::{Home, Server, Start, connect, free_port};

/// The shortest lease, and a standby that looks often.
const HOT: &str = "lease: {duration: 3s}\nstandby: {mode: hot, stepDownHoldOff: 3s}\n";

/// One of the two processes, running or not.
struct Member {
    data: PathBuf,
    store: PathBuf,
    api: String,
}

impl Member {
    fn new(home: &Home, name: &str, store: &Path) -> Self {
        Self {
            data: home.folder(name).join("data"),
            store: store.to_path_buf(),
            api: format!("127.0.0.1:{}", free_port()),
        }
    }

    fn active(&self) -> Server {
        Start::serve(&self.data, &self.store).config(HOT).ready_at(&self.api)
    }

    /// Until it follows the log.
    async fn hot_standby(&self) -> Server {
        let start = Start::serve(&self.data, &self.store).config(HOT);
        let server = tokio::task::block_in_place(|| start.standing_by_at(&self.api));
        await_hot(&self.api).await;
        server
    }
}

/// HA-70: the name with which a hot standby says that it follows.
async fn await_hot(api: &str) {
    let request = HealthCheckRequest { service: "dex.HotStandby".to_owned() };
    let mut watch = HealthClient::new(connect(api).await).watch(request).await.expect("watched").into_inner();
    while let Some(answer) = watch.message().await.expect("the stream goes on") {
        if answer.status() == ServingStatus::Serving {
            return;
        }
    }
    panic!("the watch ended");
}

async fn next_word(server: &Server) -> String {
    tokio::task::block_in_place(|| server.next_word())
}

async fn step_down(api: &str) -> LeaseHolder {
    let mut admin = AdminServiceClient::new(connect(api).await);
    let before = admin.describe(proto::DescribeNodeRequest {}).await.expect("it serves").into_inner();
    assert_eq!(before.node_id, "pair");
    let request =
        StepDownRequest { expected_node_id: before.node_id, expected_node_epoch: before.node_epoch };
    let answer = admin.step_down(request).await.expect("it steps down").into_inner();
    assert_eq!(answer.released_node_epoch, before.node_epoch);
    answer.lease_holder_after_step_down()
}

/// Flows that were begun under one active end under the next, which a kill and a step down made.
#[tokio::test(flavor = "multi_thread")]
async fn ha_042_ha_055_ha_099_two_processes_change_places_and_lose_nothing() {
    let home = Home::new();
    let store = home.folder("store");
    let (a, b) = (Member::new(&home, "a", &store), Member::new(&home, "b", &store));
    let both = format!("{},{}", a.api, b.api);
    let first = tokio::task::block_in_place(|| a.active());
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
    for server in [second, first] {
        let ended = tokio::task::block_in_place(|| server.terminate());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
