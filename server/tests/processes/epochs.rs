//! Asks several processes all the time who serves, and compares the answers with one another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dexzd_proto as proto;
use proto::admin_service_client::AdminServiceClient;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};

/// A frozen process does not answer; another question follows.
const PATIENCE: Duration = Duration::from_millis(300);

/// One OK answer: the process served this epoch at some instant between the two.
struct Seen {
    asked: Instant,
    answered: Instant,
    epoch: u64,
    holder: String,
}

/// Askers of several processes.
pub(crate) struct Epochs {
    askers: Vec<JoinHandle<()>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    end: watch::Sender<bool>,
}

impl Epochs {
    /// Of these processes, which may come and go.
    pub(crate) fn watch(processes: &[&str]) -> Self {
        let (end, ended) = watch::channel(false);
        let seen = Arc::default();
        let asker = |api: &&str| tokio::spawn(ask(format!("http://{api}"), Arc::clone(&seen), ended.clone()));
        let askers = processes.iter().map(asker).collect();
        Self { askers, seen, end }
    }

    /// Until so many epochs were answered for.
    pub(crate) async fn until(&self, epochs: usize) {
        let count = || {
            let seen = self.seen.lock().expect("no panic");
            seen.iter().map(|seen| seen.epoch).collect::<BTreeSet<_>>().len()
        };
        while count() < epochs {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Invariant 3, as far as clients see it: once anybody has answered for an epoch, no question that is
    /// put afterwards is answered for an earlier one; and an epoch belongs to one process (HA-13).
    pub(crate) async fn verify(self) {
        self.end.send_replace(true);
        for asker in self.askers {
            asker.await.expect("no panic");
        }
        let all = self.seen.lock().expect("no panic");
        let mut holders = BTreeMap::new();
        for seen in all.iter() {
            let holder = holders.entry(seen.epoch).or_insert(&seen.holder);
            assert_eq!(*holder, &seen.holder, "two processes answered for epoch {}", seen.epoch);
        }
        let epochs: Vec<u64> = holders.keys().copied().collect();
        for pair in epochs.windows(2) {
            let first_of_the_later =
                all.iter().filter(|seen| seen.epoch == pair[1]).map(|seen| seen.answered).min();
            let late = all
                .iter()
                .filter(|seen| seen.epoch <= pair[0])
                .filter(|seen| Some(seen.asked) > first_of_the_later);
            assert_eq!(late.count(), 0, "epoch {} was answered for after epoch {}", pair[0], pair[1]);
        }
    }
}

async fn ask(api: String, seen: Arc<Mutex<Vec<Seen>>>, ended: watch::Receiver<bool>) {
    let endpoint = Endpoint::from_shared(api).expect("a URI").connect_timeout(PATIENCE);
    let mut client: Option<AdminServiceClient<Channel>> = None;
    while !*ended.borrow() {
        tokio::time::sleep(Duration::from_millis(3)).await;
        let mut asking = match client.take() {
            Some(client) => client,
            None => match endpoint.connect().await {
                Ok(channel) => AdminServiceClient::new(channel),
                Err(_) => continue,
            },
        };
        let asked = Instant::now();
        let answer = tokio::time::timeout(PATIENCE, asking.describe(proto::DescribeNodeRequest {})).await;
        let answered = Instant::now();
        // A connection of an earlier period is never answered on (D-16), nor one to a dead process.
        let Ok(Ok(answer)) = answer else { continue };
        let proto::NodeDescription { node_epoch, holder_process_id, .. } = answer.into_inner();
        let new = Seen { asked, answered, epoch: node_epoch, holder: holder_process_id };
        seen.lock().expect("no panic").push(new);
        client = Some(asking);
    }
}
