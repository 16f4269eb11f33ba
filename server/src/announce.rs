//! What a process says about its role: lines on stdout for scripts, log lines for people.

use std::io::Write as _;
use std::net::SocketAddr;

use dexzd_core::node::{Period, Role};

use crate::config::{Config, Storage};

/// Where a process listens.
pub(crate) struct Addresses {
    pub(crate) api: SocketAddr,
    pub(crate) metrics: SocketAddr,
}

/// Says each thing once per role period.
pub(crate) struct Announcer<'a> {
    config: &'a Config,
    addresses: &'a Addresses,
    told: Option<(Period, bool)>,
}

impl<'a> Announcer<'a> {
    pub(crate) const fn new(config: &'a Config, addresses: &'a Addresses) -> Self {
        Self { config, addresses, told: None }
    }

    /// The process is in this role now.
    pub(crate) fn role(&mut self, role: Role, period: Period) {
        match role {
            Role::Active => self.tell(period, true),
            Role::HoldOff => self.tell(period, false),
            Role::Waiting
            | Role::Withdrawing
            | Role::Opening
            | Role::Outwaiting
            | Role::Raising
            | Role::Confirming
            | Role::Recovering
            | Role::Draining
            | Role::Interrupting
            | Role::Committing
            | Role::Closing
            | Role::Abandoning
            | Role::Releasing
            | Role::Stopped => {}
        }
    }

    /// It waits for a lease that is not free: a process that takes it at once is no standby on the way.
    pub(crate) fn waits(&mut self, role: Role, period: Period) {
        if role == Role::Waiting {
            self.tell(period, false);
        }
    }

    fn tell(&mut self, period: Period, is_active: bool) {
        if self.told == Some((period, is_active)) {
            return;
        }
        self.told = Some((period, is_active));
        let Self { config, addresses, .. } = self;
        let node_id = config.node_id.as_str();
        let word = if is_active { "ready" } else { "standby" };
        let storage = match &config.storage {
            Storage::DataDir { durability } => format!("durability={durability}"),
            Storage::Shared(store) => format!("objectStorage={:?}", store.name()),
        };
        let line = format!(
            "{word} api={} metrics=http://{}/metrics nodeId={node_id} {storage} dataDir={}\n",
            addresses.api,
            addresses.metrics,
            config.data_dir.display()
        );
        let mut stdout = std::io::stdout();
        // Without a stdout nobody waits for the line.
        let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
        tracing::info!(
            api = %addresses.api,
            metrics = %addresses.metrics,
            version = env!("CARGO_PKG_VERSION"),
            profile = config.profile.name(),
            node_id,
            storage,
            data_dir = %config.data_dir.display(),
            "{}",
            if is_active { "ready: calls are answered" } else { "standing by: another process serves, calls get UNAVAILABLE" }
        );
    }
}
