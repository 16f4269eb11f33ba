//! Decisions and staged effects.

use dexzd_core::engine::{Decision, DecisionKind, Effects};
use dexzd_core::ids::Name;
use dexzd_proto as proto;

use super::field::{Checked, Field, all};
use super::options::{movement_in, movement_out};
use super::value::{
    attribute_write_in, deletion_in, key_in, key_out, named_value_in, publication_in, value_in, value_out,
};

pub(super) fn decision_in(field: Field<'_>, decision: proto::Decision) -> Checked<Decision> {
    use proto::decision::Kind;
    let kind = match decision.kind {
        Some(Kind::GoTo(go_to)) => {
            let movements = field.child("go_to");
            DecisionKind::GoTo(all(movements.child("movements"), go_to.movements, movement_in)?)
        }
        Some(Kind::GracefulComplete(complete)) => {
            DecisionKind::GracefulComplete(complete.output.map(value_in))
        }
        Some(Kind::DeadEnd(_)) => DecisionKind::DeadEnd,
        Some(Kind::ForceComplete(complete)) => DecisionKind::ForceComplete(complete.output.map(value_in)),
        Some(Kind::ForceFail(fail)) => DecisionKind::ForceFail(Name::from(fail.reason)),
        Some(Kind::ForceCompleteIfChannelsEmpty(complete)) => {
            let kind = field.child("force_complete_if_channels_empty");
            DecisionKind::ForceCompleteIfChannelsEmpty {
                output: complete.output.map(value_in),
                channels: all(kind.child("channels"), complete.channels, key_in)?,
                fallback: all(kind.child("fallback"), complete.fallback, movement_in)?,
            }
        }
        None => {
            return Err(field.child("kind").invalid(
                "is missing, or of a kind that the server does not know: a decision says what happens next",
            ));
        }
    };
    let names = |types: Vec<String>| types.into_iter().map(Name::from).collect();
    Ok(Decision {
        kind,
        cancel_steps: names(decision.cancel_steps),
        cancel_sibling_steps: names(decision.cancel_sibling_steps),
    })
}

pub(super) fn decision_out(decision: &Decision) -> proto::Decision {
    use proto::decision::{Complete, CompleteIfChannelsEmpty, DeadEnd, ForceFail, GoTo, Kind};
    let names = |types: &[Name]| types.iter().map(ToString::to_string).collect();
    proto::Decision {
        kind: Some(match &decision.kind {
            DecisionKind::GoTo(movements) => {
                Kind::GoTo(GoTo { movements: movements.iter().map(movement_out).collect() })
            }
            DecisionKind::GracefulComplete(output) => {
                Kind::GracefulComplete(Complete { output: output.as_ref().map(value_out) })
            }
            DecisionKind::DeadEnd => Kind::DeadEnd(DeadEnd {}),
            DecisionKind::ForceComplete(output) => {
                Kind::ForceComplete(Complete { output: output.as_ref().map(value_out) })
            }
            DecisionKind::ForceFail(reason) => Kind::ForceFail(ForceFail { reason: reason.to_string() }),
            DecisionKind::ForceCompleteIfChannelsEmpty { output, channels, fallback } => {
                Kind::ForceCompleteIfChannelsEmpty(CompleteIfChannelsEmpty {
                    output: output.as_ref().map(value_out),
                    channels: channels.iter().map(key_out).collect(),
                    fallback: fallback.iter().map(movement_out).collect(),
                })
            }
        }),
        cancel_steps: names(&decision.cancel_steps),
        cancel_sibling_steps: names(&decision.cancel_sibling_steps),
    }
}

/// No effects at all may be left out.
pub(super) fn effects_in(field: Field<'_>, effects: Option<proto::Effects>) -> Checked<Effects> {
    let Some(effects) = effects else {
        return Ok(Effects::default());
    };
    Ok(Effects {
        attributes: all(field.child("attributes"), effects.attributes, attribute_write_in)?,
        publications: all(field.child("publications"), effects.publications, publication_in)?,
        deletions: all(field.child("deletions"), effects.deletions, deletion_in)?,
        locals: all(field.child("locals"), effects.locals, named_value_in)?,
        events: all(field.child("events"), effects.events, named_value_in)?,
    })
}
