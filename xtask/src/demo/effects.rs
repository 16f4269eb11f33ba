//! What the outside world was asked to do: one JSON line per call, written by the Worker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::orders::EffectsVerdict;
use crate::shell::Failure;

/// All calls, in the order in which they were made.
#[derive(Debug)]
pub(super) struct Effects(Vec<Effect>);

#[derive(Debug)]
struct Effect {
    flow: String,
    name: String,
    key: String,
}

impl Effects {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let effect = |line: &str| {
            let json: Value = serde_json::from_str(line).ok()?;
            let field = |name: &str| json[name].as_str().map(str::to_owned);
            Some(Effect { flow: field("flow")?, name: field("effect")?, key: field("key")? })
        };
        let effects = text.lines().map(|line| {
            effect(line)
                .ok_or_else(|| Failure::new(format!("the Worker wrote an effect that is none: {line}")))
        });
        effects.collect::<Result<_, _>>().map(Self)
    }

    /// Counts calls as a world that knows idempotency keys does: the same key twice is one call.
    pub(super) fn judge(&self) -> EffectsVerdict {
        let mut keys: BTreeSet<(&str, &str)> = BTreeSet::new();
        let mut by_flow: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for effect in &self.0 {
            if keys.insert((&effect.name, &effect.key)) {
                by_flow.entry(&effect.flow).or_default().push(&effect.name);
            }
        }
        let times = |names: &[&str], name: &str| names.iter().filter(|it| **it == name).count();
        let contradictions = by_flow.iter().filter_map(|(flow, names)| {
            let (charges, receipts, refunds) =
                (times(names, "charge"), times(names, "send-receipt"), times(names, "refund"));
            (charges != 1 || receipts + refunds != 1)
                .then(|| format!("{flow}: {charges} charges, {receipts} receipts, {refunds} refunds"))
        });
        EffectsVerdict {
            calls: self.0.len(),
            keys: keys.len(),
            charged_orders: by_flow.values().filter(|names| times(names, "charge") == 1).count(),
            contradictions: contradictions.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Effects;

    fn line(flow: &str, effect: &str, key: &str) -> String {
        format!(r#"{{"flow":"{flow}","effect":"{effect}","key":"{key}","attempt":1}}"#)
    }

    #[test]
    fn a_repeat_under_the_same_key_counts_once() {
        let lines =
            [line("a", "charge", "a/1"), line("a", "charge", "a/1"), line("a", "send-receipt", "a/2")];
        let verdict = Effects::parse(&lines.join("\n")).expect("well formed").judge();
        assert_eq!((verdict.calls, verdict.keys, verdict.charged_orders), (3, 2, 1));
        assert_eq!(verdict.contradictions, Vec::<String>::new());
    }

    #[test]
    fn two_charges_and_two_ends_are_contradictions() {
        let lines = [
            line("a", "charge", "a/1"),
            line("a", "charge", "a/2"),
            line("a", "refund", "a/3"),
            line("b", "charge", "b/1"),
            line("b", "refund", "b/2"),
            line("b", "send-receipt", "b/3"),
            line("c", "charge", "c/1"),
        ];
        let verdict = Effects::parse(&lines.join("\n")).expect("well formed").judge();
        assert_eq!(
            verdict.contradictions,
            [
                "a: 2 charges, 0 receipts, 1 refunds",
                "b: 1 charges, 1 receipts, 1 refunds",
                "c: 1 charges, 0 receipts, 0 refunds",
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_effect_is_refused() {
        assert!(Effects::parse("{\"flow\":\"a\"}").is_err());
    }
}
