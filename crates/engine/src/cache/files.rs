//! Numbers of files within the cache: the level needs small, dense ones, and a file's own number is fixed for life.

use policy::FileId;
use policy::cache::{FILE_MAX, INDEX_MAX};
use std::collections::HashMap;

/// Files with resident blocks, running fetches, or streams.
#[derive(Default)]
pub(super) struct Files {
    numbers: HashMap<FileId, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    id: FileId,
    /// Number of blocks, fetches and streams.
    held: u64,
    /// Block after the last one that was ever fetched.
    end: u64,
}

impl Files {
    /// Registers a stream of a file; returns the number of the file.
    pub fn enter(&mut self, id: FileId) -> u32 {
        let number = match self.numbers.get(&id) {
            Some(&number) => number,
            None => {
                let number = self.free.pop().unwrap_or(self.entries.len() as u32);
                assert!(number <= FILE_MAX, "more files are open than the cache can number");
                let entry = Entry { id, held: 0, end: 0 };
                match self.entries.get_mut(number as usize) {
                    Some(old) => *old = entry,
                    None => self.entries.push(entry),
                }
                self.numbers.insert(id, number);
                number
            }
        };
        self.entries[number as usize].held += 1;
        number
    }

    /// Number of a registered file.
    pub fn number(&self, id: FileId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// Number of a file that may have resident blocks, and the block after its last.
    pub fn find(&self, id: FileId) -> Option<(u32, u64)> {
        let number = *self.numbers.get(&id)?;
        Some((number, self.entries[number as usize].end))
    }

    /// Adds uses of the file; its blocks end before `end`.
    pub fn hold(&mut self, number: u32, count: u64, end: u64) {
        let entry = &mut self.entries[number as usize];
        entry.held += count;
        entry.end = entry.end.max(end.min(INDEX_MAX + 1));
    }

    /// Removes uses of the file; with the last one, also its number.
    pub fn release(&mut self, number: u32, count: u64) {
        let entry = &mut self.entries[number as usize];
        entry.held -= count;
        if entry.held == 0 {
            self.numbers.remove(&entry.id);
            self.free.push(number);
        }
    }

    /// Removes a stream of a file.
    pub fn leave(&mut self, id: FileId) {
        if let Some(&number) = self.numbers.get(&id) {
            self.release(number, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_only_when_nothing_is_left_of_its_file() {
        let mut files = Files::default();
        let (a, b) = (files.enter(FileId(10)), files.enter(FileId(20)));
        assert_ne!(a, b);
        files.hold(a, 3, 7);
        files.leave(FileId(10));
        assert_eq!(files.find(FileId(10)), Some((a, 7)), "its blocks keep it");
        assert_eq!(files.enter(FileId(10)), a);
        files.leave(FileId(10));
        files.release(a, 3);
        assert_eq!(files.find(FileId(10)), None);
        assert_eq!(files.enter(FileId(30)), a);
        assert_eq!(files.find(FileId(30)), Some((a, 0)), "and nothing of the old one with it");
    }
}
