//! Watches which of several servers serves, as a client sees it that asks all the time.
//!
//! ```text
//! probe ADDRESS,ADDRESS         until Ctrl+C or SIGTERM
//! ```
//!
//! Prints one line of JSON at the first answer, and whenever another server answers than before, or nobody did for a
//! while:
//!
//! ```text
//! {"serves":"127.0.0.1:8801"}
//! {"from":"127.0.0.1:8801","to":"127.0.0.1:8811","gapMs":3921.4,"lastAt":1796101972000.1,"firstAt":1796101975921.5}
//! ```
//!
//! `gapMs` is the time from the last answer before to the first one after; the others are milliseconds since 1970.
//! An answer counts if the server looked into its state for it, so it asks for a Flow; that there is none, too, is an
//! answer.

use std::cell::RefCell;
use std::io::Write as _;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dexzd_sdk::proto;
use proto::flow_service_client::FlowServiceClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// Who serves is asked again after so long: far below the gaps that are looked for.
const SERVING_INTERVAL: Duration = Duration::from_millis(5);
/// While nobody serves, everybody is asked again after so long.
const SEARCHING_INTERVAL: Duration = Duration::from_millis(3);
/// While another one serves, a standby is left alone for so long.
const STANDBY_INTERVAL: Duration = Duration::from_millis(250);
/// Without an answer for so long, nobody serves.
const SILENCE: Duration = Duration::from_millis(30);
/// A pause of one and the same server that is worth a line.
const TOLD_GAP: Duration = Duration::from_millis(250);
/// A server that does not answer so quickly is asked anew, on another connection.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The last answer, and whose it was.
#[derive(Default)]
struct Watch {
    last: RefCell<Option<(usize, Instant, SystemTime)>>,
}

// One thread: who measures must not take the place of who is measured.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let list = std::env::args().nth(1).ok_or("say which servers: ADDRESS,ADDRESS")?;
    let addresses: Rc<[String]> = list.split(',').map(str::to_owned).collect();
    let watch = Rc::new(Watch::default());
    let local = tokio::task::LocalSet::new();
    for number in 0..addresses.len() {
        let endpoint = Endpoint::from_shared(format!("http://{}", addresses[number]))?
            .connect_timeout(ANSWER_TIMEOUT)
            .timeout(ANSWER_TIMEOUT);
        local.spawn_local(ask_for_ever(number, endpoint, Rc::clone(&addresses), Rc::clone(&watch)));
    }
    local.run_until(stop_signal()).await;
    Ok(())
}

async fn ask_for_ever(number: usize, endpoint: Endpoint, addresses: Rc<[String]>, watch: Rc<Watch>) {
    let mut channel = None;
    loop {
        let is_answered = ask(&endpoint, &mut channel).await;
        if is_answered {
            watch.answered(number, &addresses);
        } else {
            // A connection belongs to the period in which it was opened (D-16): the next try takes a new one.
            channel = None;
        }
        watch.rest(number).await;
    }
}

async fn ask(endpoint: &Endpoint, channel: &mut Option<Channel>) -> bool {
    let open = match channel {
        Some(open) => open.clone(),
        None => match endpoint.connect().await {
            Ok(open) => channel.insert(open).clone(),
            Err(_) => return false,
        },
    };
    let target = proto::Target { flow_id: "probe".to_owned(), ..proto::Target::default() };
    let request = proto::DescribeFlowRequest { target: Some(target) };
    match FlowServiceClient::new(open).describe_flow(request).await {
        Ok(_) => true,
        Err(status) => status.code() == Code::NotFound,
    }
}

impl Watch {
    /// Who serves now, if anybody does.
    fn serving(&self) -> Option<usize> {
        let (number, at, _) = (*self.last.borrow())?;
        (at.elapsed() < SILENCE).then_some(number)
    }

    /// Until this server is to be asked again.
    async fn rest(&self, number: usize) {
        let begin = Instant::now();
        while begin.elapsed() < STANDBY_INTERVAL {
            match self.serving() {
                Some(serving) if serving == number => return tokio::time::sleep(SERVING_INTERVAL).await,
                Some(_) => tokio::time::sleep(SEARCHING_INTERVAL).await,
                None => return tokio::time::sleep(SEARCHING_INTERVAL).await,
            }
        }
    }

    fn answered(&self, number: usize, addresses: &[String]) {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let before = self.last.replace(Some((number, now, wall)));
        let Some((from, last, last_wall)) = before else {
            return tell(&serde_json::json!({ "serves": addresses[number] }));
        };
        let gap = now - last;
        if from == number && gap < TOLD_GAP {
            return;
        }
        tell(&serde_json::json!({
            "from": addresses[from],
            "to": addresses[number],
            "gapMs": gap.as_secs_f64() * 1_000.0,
            "lastAt": unix_ms(last_wall),
            "firstAt": unix_ms(wall),
        }));
    }
}

fn tell(line: &serde_json::Value) {
    let mut stdout = std::io::stdout();
    // Whoever closed the pipe does not want to know.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

fn unix_ms(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1_000.0)
}

async fn stop_signal() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .expect("a process may listen for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
