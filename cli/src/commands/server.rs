//! `health` and `version`: what answers, and whether it can be talked to.

use dexzd_proto::{GetServerInfoRequest, HealthRequest, PROTOCOL_VERSIONS};
use serde_json::{Value, json};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::args::Arguments;
use crate::connection::{Connection, bounded};
use crate::failure::{Failure, Kind};
use crate::output::Output;
use crate::render;

/// The names that the standard health service knows.
const HEALTH_NAMES: [&str; 4] = ["", "dex.FlowService", "dex.WorkerTaskService", "dex.HotStandby"];

pub(super) async fn health(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let operation = "health";
    bounded(arguments, operation, async {
        let connection = Connection::open(arguments, operation).await?;
        let services = services(&connection).await;
        let answer = connection.answer(connection.flows().health(HealthRequest {}).await)?;
        let json = json!({
            "server": connection.server,
            "serving": answer.serving,
            "role": answer.role,
            "services": services,
        });
        output.result(&json, render::fields_table);
        if answer.serving {
            return Ok(());
        }
        let message =
            format!("the server at {} answers, but does not serve: {}", connection.server, answer.role);
        Err(Failure::new(Kind::NotServing, operation, message))
    })
    .await
}

/// What the standard health service says. A name it does not know, or no such service, reads `unknown`.
async fn services(connection: &Connection) -> Value {
    let mut client = HealthClient::new(connection.channel.clone());
    let mut services = serde_json::Map::new();
    for name in HEALTH_NAMES {
        let request = HealthCheckRequest { service: name.to_owned() };
        let status = match client.check(request).await.map(|answer| answer.into_inner().status()) {
            Ok(ServingStatus::Serving) => "SERVING",
            Ok(ServingStatus::NotServing) => "NOT_SERVING",
            Ok(ServingStatus::Unknown | ServingStatus::ServiceUnknown) | Err(_) => "unknown",
        };
        services.insert(name.to_owned(), json!(status));
    }
    Value::Object(services)
}

pub(super) fn version(output: &Output) {
    output.result(&own_version(), render::fields_table);
}

fn own_version() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "protocolMin": PROTOCOL_VERSIONS.0,
        "protocolMax": PROTOCOL_VERSIONS.1,
    })
}

pub(super) async fn check_version(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let operation = "version check";
    bounded(arguments, operation, async {
        let connection = Connection::open(arguments, operation).await?;
        let answer = connection.flows().get_server_info(GetServerInfoRequest {}).await;
        let info = connection.answer(answer)?;
        let theirs = (info.protocol_min, info.protocol_max);
        let compatible = intervals_meet(PROTOCOL_VERSIONS, theirs);
        let json = json!({
            "client": own_version(),
            "server": render::server_info(&info),
            "compatible": compatible,
        });
        output.result(&json, render::fields_table);
        if compatible {
            return Ok(());
        }
        let message = format!(
            "dexcli speaks protocol versions {} to {}, the server at {} speaks {} to {}",
            PROTOCOL_VERSIONS.0, PROTOCOL_VERSIONS.1, connection.server, theirs.0, theirs.1,
        );
        Err(Failure::new(Kind::Incompatible, operation, message)
            .with_hint("Upgrade the older of the two; servers are upgraded before SDKs and dexcli."))
    })
    .await
}

fn intervals_meet(ours: (u32, u32), theirs: (u32, u32)) -> bool {
    ours.0 <= theirs.1 && theirs.0 <= ours.1
}

#[cfg(test)]
mod tests {
    use super::intervals_meet;

    #[test]
    fn protocol_intervals_meet_when_they_share_a_version() {
        assert!(intervals_meet((1, 1), (1, 1)));
        assert!(intervals_meet((1, 2), (2, 5)));
        assert!(!intervals_meet((1, 1), (2, 3)));
        assert!(!intervals_meet((4, 5), (2, 3)));
    }
}
