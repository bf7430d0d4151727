//! Parsers of option values. Clap names the wrong option; the errors here describe valid values.

use policy::Time;
use sim::setup::{self, SetupError};

type Parsed<T> = Result<T, String>;

fn why(error: SetupError) -> String {
    error.why
}

/// A setting and its value: `NAME=VALUE`.
pub(super) type Setting = (String, String);

/// A setting that varies, and its values: `NAME=V1,V2`.
pub(super) type Axis = (String, Vec<String>);

pub(super) fn setting(text: &str) -> Parsed<Setting> {
    let (name, value) = text.split_once('=').ok_or("it has no `=`: write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn axis(text: &str) -> Parsed<Axis> {
    let (name, values) = text.split_once('=').ok_or("it has no `=`: write NAME=V1,V2,...")?;
    Ok((name.to_owned(), values.split(',').map(|value| value.trim().to_owned()).collect()))
}

/// Bytes, at least one.
pub fn size(text: &str) -> Parsed<u64> {
    setup::size_bytes("size", text).map_err(why)
}

/// Bytes, or none.
pub(super) fn size_or_none(text: &str) -> Parsed<u64> {
    if text == "0" { Ok(0) } else { size(text) }
}

/// Threads of a run: at least one, at most a bound that exceeds any machine.
pub(super) fn threads(text: &str) -> Parsed<usize> {
    let number = text.parse().ok().filter(|n| (1..=4096).contains(n));
    number.ok_or_else(|| "give a number from 1 to 4096".to_owned())
}

/// A time with its unit.
pub(super) fn span(text: &str) -> Parsed<Time> {
    setup::duration("time", text).map_err(why)
}

/// A rate above 0.
pub(super) fn rate(text: &str) -> Parsed<f64> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "give a number above 0".to_owned())
}

/// Two numbers above 0 with something between them.
pub(super) fn pair(text: &str, between: char) -> Option<(f64, f64)> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
    let (one, other) = text.split_once(between)?;
    number(one).zip(number(other))
}
