//! Configuration, parsed into types that cannot hold an unsafe value (operations.md 2).
//!
//! The reference for people is `docs/configuration.md`.

mod address;
mod document;
pub mod duration;
mod error;
mod object_storage;
mod security;
mod standby;

use std::path::{Path, PathBuf};
use std::time::Duration;

use dexzd_core::lease::{LONGEST_ADVISED, LeaseDuration};
pub use dexzd_io_tokio::DurabilityMode;

pub use address::ListenAddress;
pub use error::ConfigError;
pub use object_storage::ObjectStorage;
pub use security::{Authentication, Tls};
pub use standby::{HotStandby, Standby};

use document::{Node, Section, path};

/// What kind of process this is; it decides defaults and what is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// `dex-server-zd dev`: one development node.
    Dev,
    /// `dex-server-zd local`: one lasting node on a local disk (HA-12).
    Local,
    /// `dex-server-zd serve`: one process of a production node on an object store.
    Node,
}

impl Profile {
    /// The name on the command line and in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Local => "local",
            Self::Node => "node",
        }
    }

    const fn is_on_local_disk(self) -> bool {
        match self {
            Self::Dev | Self::Local => true,
            Self::Node => false,
        }
    }
}

/// The identity that an active process and its standbys share; part of every path in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeId(String);

impl NodeId {
    /// Longer ones would not fit into the names that object stores allow below a prefix.
    const MAX_BYTES: usize = 63;

    /// Checks the form.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if text.len() > Self::MAX_BYTES || !starts_well || !text.bytes().all(allowed) {
            return Err(format!(
                "a node ID has 1 to {} letters, digits, `-`, `_` or `.` and begins with a letter or digit",
                Self::MAX_BYTES
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Everything a process is told at its start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// What kind of process.
    pub profile: Profile,
    /// `nodeId`.
    pub node_id: NodeId,
    /// `api.listen`.
    pub api_listen: ListenAddress,
    /// `metrics.listen`.
    pub metrics_listen: ListenAddress,
    /// Whether `metrics.listen` was given: a default may give way, a given address may not.
    pub metrics_listen_given: bool,
    /// `lease.duration`.
    pub lease_duration: LeaseDuration,
    /// `lease.failIfHeld`. No effect in dev and local, where a held `dev.lock` always fails the start (HA-48).
    pub lease_fail_if_held: bool,
    /// `standby.*`.
    pub standby: Standby,
    /// `lifecycle.attemptDrainTimeout`.
    pub attempt_drain_timeout: Duration,
    /// Where everything is that must not be lost.
    pub storage: Storage,
    /// `dataDir`, `--data-dir`.
    pub data_dir: PathBuf,
    /// `authentication.*`; off by default.
    pub authentication: Option<Authentication>,
    /// `tls.*`; off by default.
    pub tls: Option<Tls>,
}

/// Where everything is that must not be lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Storage {
    /// In the data directory of `dev` and `local`.
    DataDir {
        /// `dev.durabilityMode`.
        durability: DurabilityMode,
    },
    /// In `objectStorage`; the data directory holds what can be rebuilt.
    Shared(ObjectStorage),
}

/// What the command line says; it wins over the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overrides {
    /// `--listen`.
    pub api_listen: Option<ListenAddress>,
    /// `--durability` (HA-11).
    pub durability: Option<DurabilityMode>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
}

impl Config {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or any value that is refused.
    pub fn load(profile: Profile, file: Option<&Path>, overrides: Overrides) -> Result<Self, ConfigError> {
        let yaml = match file {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
                path: path.to_owned(),
                error: error.to_string(),
            })?,
        };
        Self::parse(profile, &yaml, overrides)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    ///
    /// Any unknown key, and any value that is refused.
    pub fn parse(profile: Profile, yaml: &str, overrides: Overrides) -> Result<Self, ConfigError> {
        let mut top = Section::top(Node::parse(yaml)?)?;

        let node_id = checked(&mut top, "nodeId", "nodeId", NodeId::parse)?
            .or_else(|| default_node_id(profile))
            .ok_or_else(|| ConfigError::refused("nodeId", "nothing", "a node needs a nodeId"))?;

        let mut api = top.section("api")?;
        let api_listen = checked(&mut api, "listen", "api.listen", ListenAddress::parse)?;
        api.finish()?;

        let mut lease = top.section("lease")?;
        let lease_duration = match lease.duration("duration")? {
            Some(duration) => checked_lease_duration(duration)?,
            None => default_lease_duration(profile),
        };
        let lease_fail_if_held = lease.truth("failIfHeld")?.unwrap_or(false);
        lease.finish()?;

        let standby = Standby::parse(top.section("standby")?, profile, lease_fail_if_held)?;

        let mut lifecycle = top.section("lifecycle")?;
        let attempt_drain_timeout =
            lifecycle.duration("attemptDrainTimeout")?.unwrap_or(Duration::from_secs(30));
        lifecycle.finish()?;

        let storage = Storage::parse(&mut top, profile, overrides.durability)?;
        let data_dir = path(&mut top, "dataDir")?;

        let mut metrics = top.section("metrics")?;
        let metrics_listen = checked(&mut metrics, "listen", "metrics.listen", ListenAddress::parse)?;
        metrics.finish()?;

        let authentication = Authentication::parse(&mut top)?;
        let tls = Tls::parse(&mut top)?;

        top.finish()?;

        let api_listen = overrides.api_listen.or(api_listen).unwrap_or_else(|| default_api_listen(profile));
        Ok(Self {
            profile,
            node_id,
            metrics_listen_given: metrics_listen.is_some(),
            metrics_listen: metrics_listen.unwrap_or_else(|| default_metrics_listen(profile)),
            lease_duration,
            lease_fail_if_held,
            standby,
            attempt_drain_timeout,
            storage,
            data_dir: overrides
                .data_dir
                .or(data_dir)
                .unwrap_or_else(|| default_data_dir(profile, api_listen.port())),
            api_listen,
            authentication,
            tls,
        })
    }

    /// Legal values that are unwise, each as a line for the log.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = lease_advice(self.lease_duration).into_iter().collect();
        warnings.extend(self.exposure());
        if self.storage == (Storage::DataDir { durability: DurabilityMode::Relaxed }) {
            warnings.push(
                "durability mode relaxed: after any abrupt end this data directory must be deleted"
                    .to_owned(),
            );
        }
        warnings
    }
}

impl Storage {
    /// `objectStorage` of a production node, `dev` of the others.
    fn parse(
        top: &mut Section,
        profile: Profile,
        override_durability: Option<DurabilityMode>,
    ) -> Result<Self, ConfigError> {
        let shared = top.section_if_there("objectStorage")?;
        let dev = top.section_if_there("dev")?;
        if !profile.is_on_local_disk() {
            if dev.is_some() {
                return Err(ConfigError::refused(
                    "dev",
                    "a section",
                    "it is for `dex-server-zd dev` and `local`; what a node acknowledges is in its object store",
                ));
            }
            return ObjectStorage::parse(shared).map(Self::Shared);
        }
        if shared.is_some() {
            return Err(ConfigError::refused(
                "objectStorage",
                "a section",
                format!(
                    "`dex-server-zd {}` keeps everything in its data directory; `dex-server-zd serve` runs a node on an \
                     object store",
                    profile.name()
                ),
            ));
        }
        let Some(mut dev) = dev else {
            return Ok(Self::DataDir { durability: override_durability.unwrap_or_default() });
        };
        let durability = checked(&mut dev, "durabilityMode", "dev.durabilityMode", |text| {
            text.parse::<DurabilityMode>().map_err(|_| {
                "it must be strict, processCrashSafe (or process-crash-safe) or relaxed".to_owned()
            })
        })?;
        dev.finish()?;
        Ok(Self::DataDir { durability: override_durability.or(durability).unwrap_or_default() })
    }
}

impl Config {
    /// HA-111: what others than this machine's own users can do, and what to do about it.
    fn exposure(&self) -> Option<String> {
        if self.api_listen.is_loopback() {
            return None;
        }
        let address = &self.api_listen;
        match (&self.authentication, &self.tls) {
            (None, Some(Tls { client_ca_file: Some(_), .. })) => Some(format!(
                "authentication is off: everybody with a client certificate who reaches api.listen ({address}) can step \
                 this node down again and again; `authentication` keeps that for admin tokens (HA-111)"
            )),
            (None, _) => Some(format!(
                "authentication is off, and api.listen ({address}) is not a loopback address: everybody who reaches it \
                 can read and change every Flow, and step this node down again and again; set `authentication`, or \
                 restrict who reaches the address (HA-111)"
            )),
            (Some(_), None) => Some(format!(
                "tls is off, and api.listen ({address}) is not a loopback address: tokens travel readable for everybody \
                 in between; set `tls`, or let something in front of this process speak TLS"
            )),
            (Some(_), Some(_)) => None,
        }
    }
}

/// One text value, given to the parser of its type.
fn checked<T>(
    section: &mut Section,
    name: &'static str,
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let Some(text) = section.text(name)? else {
        return Ok(None);
    };
    parse(&text).map(Some).map_err(|rule| ConfigError::refused(key, format!("`{text}`"), rule))
}

fn default_node_id(profile: Profile) -> Option<NodeId> {
    match profile {
        Profile::Dev | Profile::Local => Some(NodeId(profile.name().to_owned())),
        Profile::Node => None,
    }
}

/// D-3, D-7. The lease record keeps whole milliseconds.
fn checked_lease_duration(duration: Duration) -> Result<LeaseDuration, ConfigError> {
    let whole = duration.subsec_micros().is_multiple_of(1_000);
    u64::try_from(duration.as_millis())
        .ok()
        .filter(|_| whole)
        .and_then(LeaseDuration::from_millis)
        .ok_or_else(|| {
            ConfigError::refused(
                "lease.duration",
                format!("`{}`", duration::show(duration)),
                "it must be at least 3s, so that a renewal and its retries fit, at most 1h, and in whole milliseconds",
            )
        })
}

/// HA-2, HA-4, HA-12.
fn default_lease_duration(profile: Profile) -> LeaseDuration {
    if profile.is_on_local_disk() { LeaseDuration::DEFAULT_SINGLE } else { LeaseDuration::DEFAULT }
}

/// HA-37.
fn lease_advice(duration: LeaseDuration) -> Option<String> {
    (duration.period() > LONGEST_ADVISED).then(|| {
        format!(
            "lease.duration is {}: after a crash nobody serves for up to that long and 1s more; above {} there is \
             little left to save",
            duration::show(duration.period()),
            duration::show(LONGEST_ADVISED)
        )
    })
}

fn default_api_listen(profile: Profile) -> ListenAddress {
    ListenAddress::fixed(
        match profile {
            Profile::Dev => "127.0.0.1",
            Profile::Local | Profile::Node => "0.0.0.0",
        },
        8801,
    )
}

fn default_metrics_listen(profile: Profile) -> ListenAddress {
    ListenAddress::fixed(
        match profile {
            Profile::Dev => "127.0.0.1",
            Profile::Local | Profile::Node => "",
        },
        9090,
    )
}

/// `dev` keeps its state where `dexcli dev` does: one directory per port below the home directory.
fn default_data_dir(profile: Profile, port: u16) -> PathBuf {
    match profile {
        Profile::Dev => std::env::home_dir()
            .unwrap_or_else(|| PathBuf::from("."))
            .join(".dex/zd")
            .join(port.to_string())
            .join("data"),
        Profile::Local | Profile::Node => PathBuf::from("/var/lib/dex-server-zd"),
    }
}

#[cfg(test)]
mod object_storage_tests;
#[cfg(test)]
mod tests;
