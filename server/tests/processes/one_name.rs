//! Clients that know one name only, as behind a Service: which process it leads to is decided per connection.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dexzd_proto::LeaseHolder;
use dexzd_sdk::prelude::*;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::flows::{Relay, WORD, relay_worker};
use crate::harness::Home;
use crate::pair::{Member, next_word, step_down, terminate};

/// A client that has asked nobody by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands for the name. Open connections stay where they are, as in a cluster.
struct Name {
    address: String,
    leads_to: Arc<Mutex<String>>,
    serving: JoinHandle<()>,
}

impl Name {
    async fn leading_to(api: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let leads_to = Arc::new(Mutex::new(api.to_owned()));
        let target = Arc::clone(&leads_to);
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let api = target.lock().expect("no panic").clone();
                tokio::spawn(async move {
                    // Either end may close it at any time.
                    if let Ok(mut server) = TcpStream::connect(api).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { address, leads_to, serving }
    }

    fn lead_to(&self, api: &str) {
        api.clone_into(&mut self.leads_to.lock().expect("no panic"));
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The connection of client and Worker stays with the process that stepped down. It says that it does not serve, and closes
/// the connection; both look the name up again, and no call is lost.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_f3_ha_068_d_016_a_client_behind_one_name_finds_the_new_active() {
    let home = Home::new();
    let (a, b, _) = Member::pair(&home);
    let (first, second) = (a.active(), b.hot_standby().await);
    let name = Name::leading_to(&a.api).await;
    let worker = relay_worker(&name.address);
    let client = Client::new(&name.address).expect("an address");
    let relay = async |flow_id: &str| {
        client.start::<Relay>(flow_id, &"text".to_owned()).await.expect("started");
        client.publish(flow_id, &WORD, &"word".to_owned()).await.expect("published");
        assert_eq!(client.result::<Relay>(flow_id).await.expect("it completes"), "text word");
    };
    relay("before").await;
    assert_eq!(step_down(&a.api).await, LeaseHolder::TakenOverByAnotherProcess);
    assert_eq!(next_word(&second).await, "ready");
    name.lead_to(&b.api);
    relay("after").await;
    worker.abort();
    terminate([first, second]);
}

/// A client that comes while the name still leads to a standby.
#[tokio::test(flavor = "multi_thread")]
async fn lesson_f3_a_client_that_is_led_to_a_standby_at_first_is_served_in_the_end() {
    let home = Home::new();
    let (a, b, _) = Member::pair(&home);
    let (first, second) = (a.active(), b.hot_standby().await);
    let name = Name::leading_to(&b.api).await;
    let client = Client::new(&name.address).expect("an address");
    let starting = tokio::spawn({
        let client = client.clone();
        async move { client.start::<Relay>("early", &"text".to_owned()).await.map(|_| ()) }
    });
    // It has been told by the standby that nobody serves there before the name leads elsewhere.
    let is_told = || {
        let is_refusal =
            |line: &str| line.starts_with("dexzd_calls_total{") && line.contains("\"UNAVAILABLE\"");
        second.metrics().lines().any(|line| is_refusal(line) && !line.ends_with(" 0"))
    };
    let asked = Instant::now();
    while !is_told() {
        assert!(asked.elapsed() < PATIENCE, "nobody asked the standby: {}", second.metrics());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    name.lead_to(&a.api);
    starting.await.expect("no panic").expect("started in the end");
    assert_eq!(client.describe("early").await.expect("it is there").flow_type, "Relay");
    terminate([first, second]);
}
