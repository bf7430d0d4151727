//! Names of the states of a target.

/// What a target may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum State {
    Ok,
    Suspect,
    Failed,
    Draining,
}

/// Limits.
pub struct Config;
