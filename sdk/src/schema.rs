//! What a Flow keeps: typed handles of Attributes and Channels, and the schema that lists them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use dexzd_proto as proto;

/// One Attribute, or one instance of an [`AttributeMap`]: a named value of a Flow execution.
///
/// ```
/// use dexzd_sdk::Attribute;
/// const STATUS: Attribute<String> = Attribute::new("status");
/// ```
pub struct Attribute<T> {
    key: Key,
    value: PhantomData<fn() -> T>,
}

/// Independent values of one type under one name, told apart by an instance key.
pub struct AttributeMap<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

/// One Channel, or one instance of a [`ChannelMap`]: a FIFO queue of a Flow execution.
///
/// ```
/// use dexzd_sdk::Channel;
/// const SHIPPED: Channel<String> = Channel::new("shipped");
/// ```
pub struct Channel<T> {
    key: Key,
    value: PhantomData<fn() -> T>,
}

/// One queue for each instance key, under one name.
pub struct ChannelMap<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

/// A name and, for a map, the key of one instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) instance: Option<Cow<'static, str>>,
}

impl<T> Attribute<T> {
    /// Declares the handle of an Attribute.
    pub const fn new(name: &'static str) -> Self {
        Self { key: Key { name, instance: None }, value: PhantomData }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl<T> AttributeMap<T> {
    /// Declares the handle of an AttributeMap.
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    /// One instance. Its key is non-empty and has no slash; the server refuses others.
    pub fn at(&self, instance: impl Into<Cow<'static, str>>) -> Attribute<T> {
        Attribute { key: Key { name: self.name, instance: Some(instance.into()) }, value: PhantomData }
    }

    /// The declared name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Channel<T> {
    /// Declares the handle of a Channel.
    pub const fn new(name: &'static str) -> Self {
        Self { key: Key { name, instance: None }, value: PhantomData }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl<T> ChannelMap<T> {
    /// Declares the handle of a ChannelMap.
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    /// One instance. Its key is non-empty and has no slash; the server refuses others.
    pub fn at(&self, instance: impl Into<Cow<'static, str>>) -> Channel<T> {
        Channel { key: Key { name: self.name, instance: Some(instance.into()) }, value: PhantomData }
    }

    /// The declared name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Attribute<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: PhantomData }
    }
}

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for Attribute<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attribute({})", self.key)
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channel({})", self.key)
    }
}

impl<T> fmt::Debug for AttributeMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttributeMap({})", self.name)
    }
}

impl<T> fmt::Debug for ChannelMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelMap({})", self.name)
    }
}

impl Key {
    pub(crate) fn to_proto(&self) -> proto::Key {
        proto::Key { name: self.name.to_owned(), instance: self.instance.as_deref().map(str::to_owned) }
    }

    pub(crate) fn matches(&self, key: Option<&proto::Key>) -> bool {
        key.is_some_and(|key| key.name == self.name && key.instance.as_deref() == self.instance.as_deref())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            None => f.write_str(self.name),
            Some(instance) => write!(f, "{}/{instance}", self.name),
        }
    }
}

/// What a schema name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Declared {
    Attribute,
    AttributeMap,
    Channel,
    ChannelMap,
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attribute => "Attribute",
            Self::AttributeMap => "AttributeMap",
            Self::Channel => "Channel",
            Self::ChannelMap => "ChannelMap",
        })
    }
}

/// The persistence schema of a Flow type: what its Steps may read, write, publish and wait for.
#[derive(Clone, Default, Debug)]
pub(crate) struct Schema {
    attributes: BTreeMap<&'static str, Declared>,
    channels: BTreeMap<&'static str, Declared>,
}

/// A name was used that the Flow's definition does not declare, or not as this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the Flow type {flow_type:?} declares no {declared} {name:?}: add it to the Flow's definition with `.{method}(…)`"
)]
pub struct UndeclaredError {
    /// The Flow type whose schema was asked.
    pub flow_type: String,
    /// The name used.
    pub name: String,
    declared: &'static str,
    method: &'static str,
}

impl Schema {
    /// False: the name was declared before.
    pub(crate) fn declare(&mut self, name: &'static str, declared: Declared) -> bool {
        let names = match declared {
            Declared::Attribute | Declared::AttributeMap => &mut self.attributes,
            Declared::Channel | Declared::ChannelMap => &mut self.channels,
        };
        names.insert(name, declared).is_none()
    }

    pub(crate) fn check_attribute(&self, flow_type: &str, key: &Key) -> Result<(), UndeclaredError> {
        let wanted = match key.instance {
            None => Declared::Attribute,
            Some(_) => Declared::AttributeMap,
        };
        check(self.attributes.get(key.name), wanted, flow_type, key.name)
    }

    pub(crate) fn check_channel(&self, flow_type: &str, key: &Key) -> Result<(), UndeclaredError> {
        self.check_channel_name(flow_type, key.name, key.instance.is_some())
    }

    pub(crate) fn check_channel_name(
        &self,
        flow_type: &str,
        name: &str,
        is_map: bool,
    ) -> Result<(), UndeclaredError> {
        let wanted = if is_map { Declared::ChannelMap } else { Declared::Channel };
        check(self.channels.get(name), wanted, flow_type, name)
    }
}

fn check(
    found: Option<&Declared>,
    wanted: Declared,
    flow_type: &str,
    name: &str,
) -> Result<(), UndeclaredError> {
    if found == Some(&wanted) {
        return Ok(());
    }
    let (declared, method) = match wanted {
        Declared::Attribute => ("Attribute", "attribute"),
        Declared::AttributeMap => ("AttributeMap", "attribute_map"),
        Declared::Channel => ("Channel", "channel"),
        Declared::ChannelMap => ("ChannelMap", "channel_map"),
    };
    Err(UndeclaredError { flow_type: flow_type.to_owned(), name: name.to_owned(), declared, method })
}
