//! Values of options that several commands read.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One of the given words, as the requests to the daemon write them.
pub fn word<T>(known: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    known.into().try_map(|word| serde_json::from_value::<T>(Value::from(word)))
}

/// As [`word`], with a help text for each of the words.
pub fn explained<T>(known: &'static [(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    word(known.iter().map(|(word, help)| PossibleValue::new(*word).help(*help)).collect::<Vec<_>>())
}

/// A number of bytes.
pub fn size(text: &str) -> Result<u64, &'static str> {
    policy::units::bytes(text).ok_or("give a size, such as `64MiB`, `100GB` or `0`")
}

/// A span, in seconds.
pub fn span_s(text: &str) -> Result<u64, &'static str> {
    span_ms(text).map(|ms| ms / 1000)
}

/// A span, in milliseconds.
pub fn span_ms(text: &str) -> Result<u64, &'static str> {
    policy::units::span_ns(text).map(|ns| ns / 1_000_000).ok_or("give a span, such as `10m`, `12h` or `30d`")
}
