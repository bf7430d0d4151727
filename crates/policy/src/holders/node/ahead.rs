//! Release of holds before other nodes ask: nodes often use files in the order in which another closed them.
//!
//! The number of files doubles while recalls go on in the order of the closes, as in the read-ahead of a file.

use super::Holder;
use super::file::File;
use crate::time::Time;

/// Files that are released with a recalled one, at most. A guess: each costs one request to the store.
const AHEAD_MAX: usize = 32;

/// Progress of another node through the files that this one closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ahead {
    /// Place of the file that was released last, in the order of the closes.
    last: Option<(Time, u64)>,
    number: usize,
}

impl Holder {
    /// Releases unused files with this one, which another node has recalled, and returns them.
    pub(super) fn release_ahead(&mut self, key: u64) -> Vec<u64> {
        let is_unused = |key: &u64| self.files.get(key).is_some_and(File::is_unused);
        let Some(place) = self.deadlines.place(key).filter(|(_, key)| is_unused(key)) else { return Vec::new() };
        let unused_after = |place| self.deadlines.after(place).filter(|(_, key)| is_unused(key));
        let goes_on = self.ahead.last.is_some_and(|last| unused_after(last).next() == Some(place));
        let number = if goes_on { (2 * self.ahead.number).clamp(2, AHEAD_MAX) } else { 0 };
        let files: Vec<(Time, u64)> = unused_after(place).take(number).collect();
        self.ahead = Ahead { last: files.last().copied().or(Some(place)), number };
        let keys: Vec<u64> = files.into_iter().map(|(_, key)| key).collect();
        keys.iter().for_each(|key| self.file(*key).release());
        keys
    }
}
