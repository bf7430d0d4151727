//! Values of options in words. Clap says which option is wrong, these say what would be right.

use policy::Time;
use sim::setup::{self, SetupError};

type Parsed<T> = Result<T, String>;

fn why(error: SetupError) -> String {
    error.why
}

/// Bytes, at least one.
pub(super) fn size(text: &str) -> Parsed<u64> {
    setup::size_bytes("size", text).map_err(why)
}

/// Bytes, or none.
pub(super) fn size_or_none(text: &str) -> Parsed<u64> {
    if text == "0" { Ok(0) } else { size(text) }
}

/// A time with its unit.
pub(super) fn span(text: &str) -> Parsed<Time> {
    setup::duration("time", text).map_err(why)
}

/// Two numbers above 0 with something between them.
pub(super) fn pair(text: &str, between: char) -> Option<(f64, f64)> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
    let (one, other) = text.split_once(between)?;
    number(one).zip(number(other))
}
