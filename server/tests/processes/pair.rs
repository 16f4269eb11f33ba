//! Two real processes of one node.

use std::path::{Path, PathBuf};

use dexzd_proto as proto;
use proto::admin_service_client::AdminServiceClient;
use proto::{LeaseHolder, StepDownRequest};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Ended, Home, Server, Start, connect, free_port};

/// The shortest lease, and a standby that looks often.
pub(crate) const HOT: &str = "lease: {duration: 3s}\nstandby: {mode: hot, stepDownHoldOff: 3s}\n";

/// One of the processes of a node, running or not.
pub(crate) struct Member {
    pub(crate) data: PathBuf,
    /// Of a folder store.
    pub(crate) store: PathBuf,
    /// `objectStorage`, as in its configuration.
    section: String,
    pub(crate) api: String,
}

impl Member {
    pub(crate) fn new(home: &Home, name: &str, store: &Path) -> Self {
        let section = format!("objectStorage: {{kind: folder, path: {store:?}}}\n");
        Self { store: store.to_path_buf(), ..Self::on(home, name, section) }
    }

    /// On the store that this section names.
    pub(crate) fn on(home: &Home, name: &str, section: String) -> Self {
        let data = home.folder(name).join("data");
        Self { data, store: PathBuf::new(), section, api: format!("127.0.0.1:{}", free_port()) }
    }

    /// Two of them, and both addresses for clients.
    pub(crate) fn pair(home: &Home) -> (Self, Self, String) {
        let store = home.folder("store");
        let (a, b) = (Self::new(home, "a", &store), Self::new(home, "b", &store));
        let both = format!("{},{}", a.api, b.api);
        (a, b, both)
    }

    pub(crate) fn start(&self) -> Start {
        Start::serve_on(&self.data, &self.section).config(HOT)
    }

    pub(crate) fn active(&self) -> Server {
        tokio::task::block_in_place(|| self.start().ready_at(&self.api))
    }

    /// Until it follows the log.
    pub(crate) async fn hot_standby(&self) -> Server {
        let server = tokio::task::block_in_place(|| self.start().standing_by_at(&self.api));
        await_hot(&self.api).await;
        server
    }
}

/// HA-70: the name with which a hot standby says that it follows.
pub(crate) async fn await_hot(api: &str) {
    loop {
        let request = HealthCheckRequest { service: "dex.HotStandby".to_owned() };
        let mut health = HealthClient::new(connect(api).await);
        let mut watch = health.watch(request).await.expect("watched").into_inner();
        // A standby closes each connection after about 3 s (HA-68).
        while let Ok(Some(answer)) = watch.message().await {
            if answer.status() == ServingStatus::Serving {
                return;
            }
        }
    }
}

pub(crate) async fn next_word(server: &Server) -> String {
    tokio::task::block_in_place(|| server.next_word())
}

/// The end, on a thread that may wait for it.
pub(crate) async fn ended(mut server: Server) -> Ended {
    tokio::task::block_in_place(|| server.wait())
}

pub(crate) async fn step_down(api: &str) -> LeaseHolder {
    let mut admin = AdminServiceClient::new(connect(api).await);
    let before = admin.describe(proto::DescribeNodeRequest {}).await.expect("it serves").into_inner();
    assert_eq!(before.node_id, "pair");
    let request =
        StepDownRequest { expected_node_id: before.node_id, expected_node_epoch: before.node_epoch };
    let answer = admin.step_down(request).await.expect("it steps down").into_inner();
    assert_eq!(answer.released_node_epoch, before.node_epoch);
    answer.lease_holder_after_step_down()
}

/// SIGTERM to each, which ends all of them in order.
pub(crate) fn terminate(servers: impl IntoIterator<Item = Server>) {
    for server in servers {
        let ended = tokio::task::block_in_place(|| server.terminate());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
