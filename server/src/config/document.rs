//! The YAML document as a tree, taken apart key by key, so that every refusal can name its full key.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::duration;
use super::error::ConfigError;

/// One value of the document.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Nothing,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Node>),
    Section(BTreeMap<String, Node>),
}

impl Node {
    pub(super) fn parse(yaml: &str) -> Result<Self, ConfigError> {
        if yaml.trim().is_empty() {
            return Ok(Self::Nothing);
        }
        // Of YAML 1.2: a node may be called `no`.
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(yaml, options)
            .map_err(|error| ConfigError::NotYaml { error: error.to_string() })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => formatter.write_str("nothing"),
            Self::Bool(value) => write!(formatter, "`{value}`"),
            Self::Number(text) | Self::Text(text) => write!(formatter, "`{text}`"),
            Self::List(_) => formatter.write_str("a list"),
            Self::Section(_) => formatter.write_str("a section"),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut section = BTreeMap::new();
        while let Some((key, value)) = entries.next_entry::<String, Node>()? {
            section.insert(key, value);
        }
        Ok(Node::Section(section))
    }
}

/// A section whose keys are taken out one by one; what is left at the end is unknown.
pub(super) struct Section {
    /// Empty at the top, else with a point at its end.
    prefix: String,
    entries: BTreeMap<String, Node>,
    known: Vec<&'static str>,
}

impl Section {
    pub(super) fn top(document: Node) -> Result<Self, ConfigError> {
        Self::of(String::new(), document)
    }

    fn of(prefix: String, node: Node) -> Result<Self, ConfigError> {
        let entries = match node {
            Node::Nothing => BTreeMap::new(),
            Node::Section(entries) => entries,
            Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => {
                let key = match prefix.trim_end_matches('.') {
                    "" => "the configuration",
                    key => key,
                };
                return Err(ConfigError::refused(
                    key,
                    node.to_string(),
                    "it must be a section of `key: value` lines",
                ));
            }
        };
        Ok(Self { prefix, entries, known: Vec::new() })
    }

    pub(super) fn section(&mut self, name: &'static str) -> Result<Self, ConfigError> {
        let node = self.take(name).unwrap_or(Node::Nothing);
        Self::of(format!("{}{name}.", self.prefix), node)
    }

    /// None where the key is missing. An empty section is one that is there.
    pub(super) fn section_if_there(&mut self, name: &'static str) -> Result<Option<Self>, ConfigError> {
        let node = self.take(name);
        node.map(|node| Self::of(format!("{}{name}.", self.prefix), node)).transpose()
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, ConfigError> {
        match self.take(name) {
            None => Ok(None),
            Some(Node::Text(text) | Node::Number(text)) => Ok(Some(text)),
            Some(Node::Bool(value)) => Ok(Some(value.to_string())),
            Some(node @ (Node::Nothing | Node::List(_) | Node::Section(_))) => {
                Err(self.refuse(name, &node, "it must be one text"))
            }
        }
    }

    pub(super) fn truth(&mut self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.take(name) {
            None => Ok(None),
            Some(Node::Bool(value)) => Ok(Some(value)),
            Some(
                node @ (Node::Nothing | Node::Number(_) | Node::Text(_) | Node::List(_) | Node::Section(_)),
            ) => Err(self.refuse(name, &node, "it must be true or false")),
        }
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Result<Option<Duration>, ConfigError> {
        match self.take(name) {
            None => Ok(None),
            Some(node @ (Node::Text(_) | Node::Number(_))) => {
                let text = match &node {
                    Node::Text(text) | Node::Number(text) => text.as_str(),
                    Node::Nothing | Node::Bool(_) | Node::List(_) | Node::Section(_) => "",
                };
                match duration::parse(text) {
                    Ok(duration) => Ok(Some(duration)),
                    Err(rule) => Err(self.refuse(name, &node, &rule)),
                }
            }
            Some(node @ (Node::Nothing | Node::Bool(_) | Node::List(_) | Node::Section(_))) => {
                Err(self.refuse(name, &node, duration::RULE))
            }
        }
    }

    /// Everything known was taken: what is left is refused (HA-50).
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        let Some((name, node)) = self.entries.first_key_value() else {
            return Ok(());
        };
        let place = match self.prefix.trim_end_matches('.') {
            "" => "at the top".to_owned(),
            section => format!("in `{section}`"),
        };
        let mut hint = format!("this release knows {place}: {}", self.known.join(", "));
        if name.contains('.') {
            hint.push_str("; sections are written nested, as in `lease:` and below it `  duration: 10s`");
        }
        Err(ConfigError::Unknown {
            key: format!("{}{name}", self.prefix),
            value: node.to_string(),
            section: matches!(node, Node::Section(_)),
            hint,
        })
    }

    fn take(&mut self, name: &'static str) -> Option<Node> {
        self.known.push(name);
        self.entries.remove(name)
    }

    fn refuse(&self, name: &str, node: &Node, rule: &str) -> ConfigError {
        self.refused(name, node.to_string(), rule)
    }

    /// A refusal of one key of this section.
    pub(super) fn refused(&self, name: &str, value: String, rule: &str) -> ConfigError {
        ConfigError::refused(format!("{}{name}", self.prefix), value, rule)
    }
}

/// One key that names a file or a folder.
pub(super) fn path(section: &mut Section, name: &'static str) -> Result<Option<PathBuf>, ConfigError> {
    match section.text(name)? {
        Some(text) if text.trim().is_empty() => {
            Err(section.refused(name, format!("`{text}`"), "it must be a path"))
        }
        text => Ok(text.map(PathBuf::from)),
    }
}
