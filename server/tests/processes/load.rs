//! Load whose every acknowledgement is remembered, and looked for afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dexzd_sdk::prelude::*;
use tokio::task::JoinHandle;

use crate::flows::{Relay, SEEN, WORD, relay_worker};

/// Longer than any failover here, on a machine with other things to do.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a client was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Acknowledged {
    Started(u64),
    Published(u64),
}

/// A Worker, and clients that start Flows and publish their words until told to end. Calls that meet a dead
/// server are repeated by the SDK with the same request ID, so that no client sees an error.
pub(crate) struct Load {
    api: String,
    end: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Acknowledged>>>,
    worker: JoinHandle<()>,
    acknowledged: Arc<AtomicU64>,
}

impl Load {
    /// `api`: one address, or those of several processes.
    pub(crate) fn begin(api: &str, clients: u64) -> Self {
        let worker = relay_worker(api);
        let (next, end) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let client = |_| {
            let (api, next, end) = (api.to_owned(), Arc::clone(&next), Arc::clone(&end));
            tokio::spawn(call(api, next, end, Arc::clone(&acknowledged)))
        };
        let clients = (0..clients).map(client).collect();
        Self { api: api.to_owned(), end, clients, worker, acknowledged }
    }

    /// Until so many more calls were acknowledged.
    pub(crate) async fn acknowledge(&self, more: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + more;
        while self.acknowledged.load(Ordering::Relaxed) < goal {
            assert!(!self.clients.iter().any(JoinHandle::is_finished), "a client saw an error");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it and looks for every acknowledged effect; the number of Flows.
    pub(crate) async fn verify(self) -> u64 {
        self.end.store(true, Ordering::Relaxed);
        let client = Client::new(&self.api).expect("an address").with_deadline(DEADLINE);
        let mut started = 0;
        for handle in self.clients {
            for effect in handle.await.expect("no client saw an error") {
                match effect {
                    Acknowledged::Started(number) => {
                        started += 1;
                        let summary =
                            client.describe(format!("relay-{number}")).await.expect("it was started");
                        assert_eq!(summary.flow_type, "Relay");
                    }
                    // The word was taken: nothing else lets the Flow complete.
                    Acknowledged::Published(number) => {
                        let flow_id = format!("relay-{number}");
                        let result = client.result::<Relay>(&*flow_id).await.expect("it completes");
                        assert_eq!(result, format!("text {number} word {number}"));
                        let seen = client.attribute(&*flow_id, &SEEN).await.expect("readable");
                        assert_eq!(seen, Some(format!("text {number}")));
                    }
                }
            }
        }
        self.worker.abort();
        started
    }
}

async fn call(
    api: String,
    next: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Vec<Acknowledged> {
    let client = Client::new(&api).expect("an address").with_deadline(DEADLINE);
    let mut acknowledged = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let flow_id = format!("relay-{number}");
        client.start::<Relay>(&*flow_id, &format!("text {number}")).await.expect("started in the end");
        acknowledged.push(Acknowledged::Started(number));
        count.fetch_add(1, Ordering::Relaxed);
        client.publish(&*flow_id, &WORD, &format!("word {number}")).await.expect("published in the end");
        acknowledged.push(Acknowledged::Published(number));
        count.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}
