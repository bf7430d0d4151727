//! Targets of one shared file system: a fault of the file system is not a fault of a target.
//!
//! ```text
//!   t0 in doubt ──> Unknown: the others are probed ──┬── one answers ──> Answers: t0 may fail
//!                                                    └── all in doubt ─> Away: none fails, calls wait as the client does
//! ```
//! While the file system is away, another target on it is no better. So no target of it fails, and new objects go where
//! they would go otherwise.

/// State of a shared file system, as seen by its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// No target of the file system is in doubt, or one of them answers.
    Answers,
    /// A target is in doubt, and others have not been probed since.
    Unknown,
    /// No target answers.
    Away,
}

/// One target of a shared file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether the target is in doubt.
    pub in_doubt: bool,
    /// Whether the target is failed.
    pub is_failed: bool,
    /// Whether its last probe succeeded, and began after the first doubt of any of the targets.
    pub answered: bool,
}

/// Returns the state of the file system of these targets.
pub fn seen(members: impl IntoIterator<Item = Member>) -> FileSystem {
    let (mut doubts, mut unknown) = (false, false);
    for member in members.into_iter().filter(|member| !member.is_failed) {
        if member.answered && !member.in_doubt {
            return FileSystem::Answers;
        }
        doubts |= member.in_doubt;
        unknown |= !member.in_doubt;
    }
    match (doubts, unknown) {
        (false, _) => FileSystem::Answers,
        (true, true) => FileSystem::Unknown,
        (true, false) => FileSystem::Away,
    }
}
