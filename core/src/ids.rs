//! Identifiers and small values that everything else is made of.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

number_id! {
    /// The number of a tenure of the lease. Every acquisition raises it (HA-13).
    Epoch
}
number_id! {
    /// The place of an entry in the log. The first entry stands at 1; 0 means "nothing yet".
    Position
}
number_id! {
    /// One open Worker stream, numbered by the shell.
    StreamId
}
number_id! {
    /// One open client call, numbered by the shell.
    CallId
}
number_id! {
    /// One request to a store, numbered by the core, named by its reply.
    RequestId
}

impl Position {
    /// The place after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u128);

        impl $name {
            /// From its 32 hexadecimal digits.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                u128::from_str_radix(text, 16).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: Write>(
                &self,
                encoder: &mut Encoder<W>,
                _: &mut C,
            ) -> Result<(), EncodeError<W::Error>> {
                encoder.bytes(&self.0.to_be_bytes())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
                let bytes: [u8; 16] = decoder
                    .bytes()?
                    .try_into()
                    .map_err(|_| DecodeError::message("an identifier has 16 bytes"))?;
                Ok(Self(u128::from_be_bytes(bytes)))
            }
        }
    };
}

random_id! {
    /// A process, drawn at its start and kept through a step down and a take-back (D-12).
    ProcessId
}
random_id! {
    /// One run of a Flow, assigned by the server.
    RunId
}
random_id! {
    /// A pending Channel message, assigned by the server. Laid out as a version 7 UUID.
    MessageId
}

/// Shared, immutable text: the name of a type, a Flow ID, a Channel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// A name with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self(Arc::from(text))
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new("")
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, formatter)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<C> Encode<C> for Name {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        encoder.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Name {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        decoder.str().map(Self::new)
    }
}

/// Shared, immutable bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blob(Arc<[u8]>);

impl Default for Blob {
    fn default() -> Self {
        Self(Arc::from([].as_slice()))
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match core::str::from_utf8(&self.0) {
            Ok(text) if text.len() <= 64 => write!(formatter, "b{text:?}"),
            Ok(_) | Err(_) => write!(formatter, "<{} bytes>", self.0.len()),
        }
    }
}

impl<C> Encode<C> for Blob {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        encoder.bytes(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Blob {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        decoder.bytes().map(Self::from)
    }
}

/// One execution of a Step: its type and its number, counted per type from 1 within the run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub struct StepExecutionId {
    /// The Step type.
    #[n(0)]
    pub step_type: Name,
    /// Counts from 1.
    #[n(1)]
    pub number: u32,
}

impl fmt::Display for StepExecutionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.step_type, self.number)
    }
}

/// One hand-out of one method call to one Worker: the only thing that identifies a result (D-44).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
pub struct HandoutId {
    /// The epoch that handed the task out.
    #[n(0)]
    pub epoch: Epoch,
    /// Counts within the epoch, never used twice.
    #[n(1)]
    pub counter: u64,
}
