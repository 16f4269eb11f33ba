//! The names of metrics in PromQL expressions.

use std::collections::BTreeSet;

/// Every metric of ours that the expression reads.
#[must_use]
pub fn metrics_of(expression: &str) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == ':';
    expression
        .split(|character: char| !is_part(character))
        .filter(|word| word.starts_with("dexzd_"))
        .map(str::to_owned)
        .collect()
}

/// The metric that a series belongs to: a histogram's parts and a counter's ending are of its exposition.
#[must_use]
pub fn family_of(series: &str) -> &str {
    ["_bucket", "_sum", "_count", "_total"]
        .iter()
        .find_map(|ending| series.strip_suffix(ending))
        .unwrap_or(series)
}
