//! Waits, conditions and their results.

use dexzd_core::engine::{Condition, ConditionKind, ConditionResult, Wait, WaitKind};
use dexzd_core::ids::Name;
use dexzd_proto as proto;

use super::field::{Checked, Field, all, duration_ms, known};
use super::options::milliseconds_out;
use super::value::{key_out, key_required, value_out};

pub(super) fn wait_in(field: Field<'_>, wait: proto::Wait) -> Checked<Wait> {
    use proto::wait::Kind;
    let kind_field = field.child("kind");
    let kind: Kind = known(kind_field, wait.kind)?;
    if kind != Kind::AnyCombinationOf && !wait.groups.is_empty() {
        return Err(field
            .child("groups")
            .invalid("groups belong to ANY_COMBINATION_OF only: leave them out"));
    }
    Ok(Wait {
        kind: match kind {
            Kind::Unspecified => return Err(kind_field.invalid("is missing: say what the Step waits for")),
            Kind::Skip => WaitKind::Skip,
            Kind::UntilOne => WaitKind::UntilOne,
            Kind::AllOf => WaitKind::AllOf,
            Kind::AnyOf => WaitKind::AnyOf,
            Kind::AnyCombinationOf => {
                let group =
                    |group: proto::wait::Group| group.condition_ids.into_iter().map(Name::from).collect();
                WaitKind::AnyCombinationOf(wait.groups.into_iter().map(group).collect())
            }
        },
        conditions: all(field.child("conditions"), wait.conditions, condition_in)?,
    })
}

pub(super) fn wait_out(wait: &Wait) -> proto::Wait {
    use proto::wait::{Group, Kind};
    let (kind, groups) = match &wait.kind {
        WaitKind::Skip => (Kind::Skip, Vec::new()),
        WaitKind::UntilOne => (Kind::UntilOne, Vec::new()),
        WaitKind::AllOf => (Kind::AllOf, Vec::new()),
        WaitKind::AnyOf => (Kind::AnyOf, Vec::new()),
        WaitKind::AnyCombinationOf(groups) => {
            let group =
                |ids: &Vec<Name>| Group { condition_ids: ids.iter().map(ToString::to_string).collect() };
            (Kind::AnyCombinationOf, groups.iter().map(group).collect())
        }
    };
    proto::Wait { kind: kind.into(), conditions: wait.conditions.iter().map(condition_out).collect(), groups }
}

fn condition_in(field: Field<'_>, condition: proto::Condition) -> Checked<Condition> {
    use proto::condition::Kind;
    let kind = match condition.kind {
        Some(Kind::Timer(timer)) => ConditionKind::Timer {
            duration_ms: duration_ms(field.child("timer").child("duration_ms"), timer.duration_ms)?,
        },
        Some(Kind::Channel(channel)) => ConditionKind::Channel {
            channel: key_required(field.child("channel").child("channel"), channel.channel)?,
            at_least: channel.at_least,
            at_most: channel.at_most,
        },
        None => {
            return Err(field
                .child("kind")
                .invalid("is missing, or of a kind that the server does not know"));
        }
    };
    Ok(Condition { id: condition.condition_id.map(Name::from), kind })
}

fn condition_out(condition: &Condition) -> proto::Condition {
    use proto::condition::{Channel, Kind, Timer};
    proto::Condition {
        condition_id: condition.id.as_deref().map(str::to_owned),
        kind: Some(match &condition.kind {
            ConditionKind::Timer { duration_ms } => {
                Kind::Timer(Timer { duration_ms: milliseconds_out(*duration_ms) })
            }
            ConditionKind::Channel { channel, at_least, at_most } => Kind::Channel(Channel {
                channel: Some(key_out(channel)),
                at_least: *at_least,
                at_most: *at_most,
            }),
        }),
    }
}

pub(super) fn condition_result_out(result: &ConditionResult) -> proto::ConditionResult {
    use proto::condition_result::{Channel, Kind, Timer};
    proto::ConditionResult {
        kind: Some(match result {
            ConditionResult::Timer { fired } => Kind::Timer(Timer { fired: *fired }),
            ConditionResult::Channel { values } => {
                Kind::Channel(Channel { values: values.iter().map(value_out).collect() })
            }
        }),
    }
}
