//! One table for each section of a `volume.toml`. `section!` makes of it a struct, the reader of that, and the keys that
//! the template and the reference show.
//!
//! A line of a table is `field: Type = kind, value;`. The comment before it is the help that operators read, and the
//! value is what a key has that is not given. `else default` follows where the default is none that a file could have; the
//! value is an example then. So it is with `or missing`, where there is no default. `in "key"` is for fields that are
//! named otherwise than their keys.

use super::section::{Given, integer};
use policy::glob::Glob;
use policy::units;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);

/// Description of values that are bytes per second.
pub const RATE: &str = "bytes per second, such as \"200MiB\", or 0 for no limit";

/// A key of a section.
pub struct Key {
    /// Name of the key in the file.
    pub name: &'static str,
    /// Description of the key, line by line.
    pub help: &'static [&'static str],
    /// Default of the key as written in a file, or an example.
    pub value: &'static str,
}

macro_rules! section {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@default $section:ident, $kind:ident, $key:expr, $value:tt) => { $section.default(&$kind, stringify!($value)) };
    (@default $section:ident, $kind:ident, $key:expr, $value:tt, $default:expr) => { $default };
    (@default $section:ident, $kind:ident, $key:expr, $value:tt; missing) => { $section.missing($key, stringify!($value)) };
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $help:literal])+ $field:ident $(in $key:literal)?: $type:ty = $kind:expr, $value:tt $(or $missing:ident)? $(else $default:expr)?;)+
        $(+ $(#[doc = $other_help:literal])+ $other:ident: $other_type:ty;)*
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)+
            $($(#[doc = $other_help])+ pub $other: $other_type,)*
        }

        impl $name {
            pub(in crate::volume) const KEYS: &'static [$crate::volume::keys::Key] = &[$($crate::volume::keys::Key {
                name: section!(@name $field $($key)?),
                help: &[$($help),+],
                value: stringify!($value),
            }),+];

            pub(in crate::volume) fn read(section: &$crate::volume::section::Section<'_, '_, '_>) -> $name {
                $name {
                    $($field: {
                        let (key, kind) = (section!(@name $field $($key)?), $kind);
                        let default = || section!(@default section, kind, key, $value $(, $default)? $(; $missing)?);
                        section.value(key, &kind).unwrap_or_else(default)
                    },)+
                    $($other: Default::default(),)*
                }
            }
        }
    };
}
pub(super) use section;

/// A checked value of a key, or a description of the values that are valid.
pub type Read<T> = Result<T, String>;

/// Bytes, as a number or with a unit.
pub fn size(range: RangeInclusive<u64>, what: &str) -> impl Fn(&Given<'_>) -> Read<u64> {
    move |given| {
        let size = given.value.as_str().map_or_else(|| integer(given.value), units::bytes);
        size.filter(|size| range.contains(size)).ok_or_else(|| format!("Give {what}"))
    }
}

pub fn rate(given: &Given<'_>) -> Read<u64> {
    let rate = given.value.as_str().map_or_else(|| integer(given.value), units::rate);
    rate.ok_or_else(|| format!("Give {RATE}"))
}

pub fn count<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&Given<'_>) -> Read<T> {
    move |given| {
        let count = integer(given.value).filter(|n| range.contains(n)).and_then(|n| T::try_from(n).ok());
        count.ok_or_else(|| format!("Give a number from {} to {}", range.start(), range.end()))
    }
}

pub fn percent(given: &Given<'_>) -> Read<u32> {
    count(0..=100)(given)
}

/// A span of time with its unit, or in seconds.
pub fn span(range: RangeInclusive<Duration>) -> impl Fn(&Given<'_>) -> Read<Duration> {
    move |given| {
        let span = given.word().and_then(|word| units::span_ns(&word)).map(Duration::from_nanos);
        span.filter(|span| range.contains(span)).ok_or_else(|| {
            format!("Give a span from {:?} to {:?}, such as \"5s\" or \"500ms\"", range.start(), range.end())
        })
    }
}

pub fn flag(given: &Given<'_>) -> Read<bool> {
    given.value.as_bool().ok_or_else(|| "Give true or false".to_owned())
}

pub fn choice<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&Given<'_>) -> Read<T> {
    move |given| {
        let found = choices.iter().find(|(name, _)| Some(*name) == given.value.as_str());
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            format!("Give {}", names.join(" or "))
        })
    }
}

pub fn text(given: &Given<'_>) -> Read<String> {
    let text = given.value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| "Give a text in quotes, not empty".to_owned())
}

/// Address and port.
pub fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "Give an address and a port, such as \"127.0.0.1:9469\" or \"[::1]:9469\"")
}

/// Reads a text with `parse`; its error describes the valid values.
pub fn parsed<T, E: Display>(parse: impl Fn(&str) -> Result<T, E>) -> impl Fn(&Given<'_>) -> Read<T> {
    move |given| parse(&text(given)?).map_err(|why| why.to_string())
}

/// A list of texts, not empty.
pub fn texts(given: &Given<'_>) -> Read<Vec<String>> {
    let list = given.value.as_array().map(|list| list.iter().map(|one| one.get_ref().as_str().map(str::to_owned)));
    let list = list.and_then(|list| list.collect::<Option<Vec<_>>>()).filter(|list| !list.is_empty());
    list.filter(|list| list.iter().all(|text| !text.is_empty()))
        .ok_or_else(|| "Give a list of texts, such as [\"n1\", \"n2\"]".to_owned())
}

/// A list of patterns over paths, which may be empty.
pub fn globs(given: &Given<'_>) -> Read<Vec<Glob>> {
    let list = given.value.as_array().ok_or("Give a list of patterns, such as [\"tmp/**\"]")?;
    list.iter().map(|one| one.get_ref().as_str().unwrap_or_default().parse()).collect()
}

/// A key without a default.
pub fn optional<T>(kind: impl Fn(&Given<'_>) -> Read<T>) -> impl Fn(&Given<'_>) -> Read<Option<T>> {
    move |given| kind(given).map(Some)
}

/// A file or directory, relative to the file that names it.
pub fn path(given: &Given<'_>) -> Read<PathBuf> {
    Ok(given.reading.file.parent().unwrap_or(Path::new("")).join(text(given)?))
}

/// A directory, and its line and column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directory {
    pub path: PathBuf,
    pub place: (usize, usize),
}

pub fn directory(given: &Given<'_>) -> Read<Directory> {
    let path = path(given)?;
    Ok(Directory { path: std::path::absolute(&path).unwrap_or(path), place: given.reading.place(given.start) })
}

/// The number of a tier.
pub fn tier(given: &Given<'_>) -> Read<u8> {
    let (name, tiers) = (text(given)?, given.reading.tiers.borrow());
    let found = tiers.iter().position(|tier| *tier == name).and_then(|at| u8::try_from(at).ok());
    found.ok_or_else(|| format!("There is no such tier. Use one of: {}", tiers.join(", ")))
}
