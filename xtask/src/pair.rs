//! Two servers of one node over one object store: one active, one a hot standby, until they swap.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::node::Dexcli;
use crate::processes::{Interruption, Process, Programs, TemporaryFolder, free_address};
use crate::shell::Failure;
use crate::takeover::Takeover;

/// A server that takes longer than this to become what is waited for will not: a lease and some.
const ROLE_TIMEOUT: Duration = Duration::from_secs(120);

/// A server that does not show its metrics so quickly is busy with something else.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// What the servers share.
#[derive(Clone, Debug)]
pub(crate) enum SharedStore {
    /// A folder on this machine.
    Folder(PathBuf),
    /// A bucket of something that speaks S3.
    Bucket {
        /// Where it listens.
        endpoint: String,
        /// Its name.
        name: String,
    },
}

/// What both servers are told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_id: &'static str,
    pub(crate) store: SharedStore,
    pub(crate) lease: Duration,
    /// How long a server that stepped down does not compete; the default if None.
    pub(crate) hold_off: Option<Duration>,
}

/// One of the two.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    pub(crate) log: PathBuf,
    metrics: String,
    config: PathBuf,
    data: PathBuf,
    log_format: &'static str,
    server: PathBuf,
    interruption: Interruption,
}

/// Both.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: Member,
    pub(crate) b: Member,
    /// Knows both addresses, as clients and Workers do.
    pub(crate) dexcli: Dexcli,
}

impl Pair {
    /// Writes what the two are started with; starts nothing.
    pub(crate) fn new(
        programs: &Programs,
        folder: &TemporaryFolder,
        interruption: &Interruption,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let a = Member::new("A", programs, folder, interruption, settings)?;
        let b = Member::new("B", programs, folder, interruption, settings)?;
        let dexcli = Dexcli::new(programs, format!("{},{}", a.address, b.address))?;
        Ok(Self { a, b, dexcli })
    }

    /// Both addresses, as clients and Workers are told them.
    pub(crate) fn addresses(&self) -> &str {
        &self.dexcli.address
    }

    /// From their next start on they are told this. Addresses and data stay.
    pub(crate) fn set(&self, settings: &Settings) -> Result<(), Failure> {
        self.a.write_config(settings)?;
        self.b.write_config(settings)
    }
}

impl Member {
    /// Its files in `folder` begin with its name.
    pub(crate) fn new(
        name: &'static str,
        programs: &Programs,
        folder: &TemporaryFolder,
        interruption: &Interruption,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        let member = Self {
            name,
            address: free_address()?,
            metrics: free_address()?,
            config: folder.file(&format!("{name}.yaml")),
            data: folder.file(&format!("{name}-volume")),
            log: folder.file(&format!("{name}.log")),
            log_format: "json",
            server: programs.find("dex-server-zd")?,
            interruption: interruption.clone(),
        };
        member.write_config(settings)?;
        Ok(member)
    }

    fn write_config(&self, settings: &Settings) -> Result<(), Failure> {
        let text = self.config(settings);
        std::fs::write(&self.config, text)
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", self.config.display())))
    }

    fn config(&self, settings: &Settings) -> String {
        let store = match &settings.store {
            SharedStore::Folder(path) => format!("  kind: folder\n  path: {}\n", path.display()),
            SharedStore::Bucket { endpoint, name } => {
                format!("  kind: s3\n  bucket: {name}\n  endpoint: {endpoint}\n  allowHttp: true\n")
            }
        };
        let hold_off = settings
            .hold_off
            .map_or(String::new(), |hold_off| format!("  stepDownHoldOff: {}ms\n", hold_off.as_millis()));
        format!(
            "nodeId: {}\n\
             dataDir: {}\n\
             objectStorage:\n{store}\
             api:\n  listen: {}\n\
             metrics:\n  listen: {}\n\
             lease:\n  duration: {}s\n\
             standby:\n  mode: hot\n{hold_off}",
            settings.node_id,
            self.data.display(),
            self.address,
            self.metrics,
            settings.lease.as_secs()
        )
    }

    /// Starts it and does not wait for it.
    pub(crate) fn spawn(&self) -> Result<Process, Failure> {
        let mut command = Command::new(&self.server);
        command.arg("serve").arg("--config").arg(&self.config).args(["--log-format", self.log_format]);
        // Looked at by nobody, but no client of S3 does without.
        command.env("AWS_ACCESS_KEY_ID", "rig").env("AWS_SECRET_ACCESS_KEY", "rig");
        Process::start("dex-server-zd", &mut command, &self.log, None)
    }

    /// Waits until it serves. Says how long that took.
    pub(crate) fn wait_until_active(&self, process: &mut Process) -> Result<Duration, Failure> {
        self.wait(process, "becoming active", Self::is_active)
    }

    /// Waits until it follows the log, ready to take over.
    pub(crate) fn wait_until_hot(&self, process: &mut Process) -> Result<Duration, Failure> {
        self.wait(process, "becoming a hot standby", Self::is_hot)
    }

    fn wait(
        &self,
        process: &mut Process,
        what: &str,
        is_reached: impl Fn(&Self) -> bool,
    ) -> Result<Duration, Failure> {
        let took = self.interruption.wait_until(&format!("{}: {what}", self.name), ROLE_TIMEOUT, || {
            process.expect_alive()?;
            Ok(is_reached(self))
        });
        took.map_err(|failure| process.failure(&failure.to_string()))
    }

    pub(crate) fn is_active(&self) -> bool {
        self.metric("dexzd_role{role=\"active\"}") == Some(1.0)
    }

    /// Hot, and free to compete: not in the hold-off after a step down.
    fn is_hot(&self) -> bool {
        self.metric("dexzd_hot_standby_state{state=\"following\"}") == Some(1.0)
            && self.metric("dexzd_role{role=\"waiting\"}") == Some(1.0)
    }

    /// The number of its tenure.
    pub(crate) fn epoch(&self) -> u64 {
        self.metric("dexzd_epoch").map_or(0, |epoch| epoch as u64)
    }

    /// The value of one series; None if the process does not answer, or has no such series.
    fn metric(&self, series: &str) -> Option<f64> {
        let page = self.metrics_page()?;
        let mut values = page.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        values.next()?.trim().parse().ok()
    }

    fn metrics_page(&self) -> Option<String> {
        let address: SocketAddr = self.metrics.parse().ok()?;
        let mut stream = TcpStream::connect_timeout(&address, METRICS_TIMEOUT).ok()?;
        stream.set_read_timeout(Some(METRICS_TIMEOUT)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: rig\r\nConnection: close\r\n\r\n").ok()?;
        let mut page = String::new();
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    }

    /// Its last way from winning the lease to serving, by its own log.
    pub(crate) fn last_takeover(&self) -> Result<Takeover, Failure> {
        let log = std::fs::read_to_string(&self.log)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", self.log.display())))?;
        Takeover::last_in(&log)
            .ok_or_else(|| Failure::new(format!("{} tells of no takeover", self.log.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_its_store_its_lease_and_its_own_volume() {
        let member = Member {
            name: "A",
            address: "127.0.0.1:1".to_owned(),
            metrics: "127.0.0.1:2".to_owned(),
            config: PathBuf::new(),
            data: PathBuf::from("/tmp/A-volume"),
            log: PathBuf::new(),
            log_format: "json",
            server: PathBuf::new(),
            interruption: Interruption::none(),
        };
        let settings = Settings {
            node_id: "demo",
            store: SharedStore::Folder(PathBuf::from("/tmp/store")),
            lease: Duration::from_secs(3),
            hold_off: Some(Duration::from_secs(2)),
        };
        assert_eq!(
            member.config(&settings),
            "nodeId: demo\ndataDir: /tmp/A-volume\nobjectStorage:\n  kind: folder\n  path: /tmp/store\n\
             api:\n  listen: 127.0.0.1:1\nmetrics:\n  listen: 127.0.0.1:2\nlease:\n  duration: 3s\n\
             standby:\n  mode: hot\n  stepDownHoldOff: 2000ms\n"
        );
        let store = SharedStore::Bucket { endpoint: "http://127.0.0.1:9".to_owned(), name: "b".to_owned() };
        let text = member.config(&Settings { store, hold_off: None, ..settings });
        assert!(text.contains("\nobjectStorage:\n  kind: s3\n  bucket: b\n"), "{text}");
        assert!(text.ends_with("standby:\n  mode: hot\n"), "{text}");
    }
}
