//! Entries of a listing, limited in number and bytes: a server may send an endless one.

use engine::source::{Entry, EntryKind, Result, SourceError};

/// Maximum of entries of a listing.
const ENTRIES_MAX: usize = 1_000_000;

/// Maximum size of all paths and link targets of a listing: half a KiB for each entry of the longest.
pub const TEXT_BYTES_MAX: usize = 512 << 20;

/// The entries so far.
#[derive(Default)]
pub struct Entries {
    list: Vec<Entry>,
    text_bytes: usize,
}

impl Entries {
    /// Adds an entry.
    ///
    /// # Errors
    /// The listing is too long.
    pub fn add(&mut self, path: String, kind: EntryKind) -> Result<()> {
        let target_bytes = if let EntryKind::Symlink(to) = &kind { to.len() } else { 0 };
        self.text_bytes += path.len() + target_bytes;
        if self.text_bytes > TEXT_BYTES_MAX {
            let why = format!("the paths of the directory have more than {} MiB", TEXT_BYTES_MAX >> 20);
            return Err(SourceError::Permanent(why));
        }
        self.list.push(Entry { path, kind });
        if self.list.len() > ENTRIES_MAX {
            return Err(SourceError::Permanent("the directory has more than a million entries".into()));
        }
        Ok(())
    }

    /// All entries, parents before children.
    pub fn sorted(mut self) -> Vec<Entry> {
        self.list.sort_by(|a, b| a.path.cmp(&b.path));
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_and_targets_end_a_listing() {
        let almost = || Entries { text_bytes: TEXT_BYTES_MAX - 10, ..Entries::default() };
        let mut entries = almost();
        entries.add("b".into(), EntryKind::Symlink("x".repeat(4))).expect("room");
        entries.add("a".into(), EntryKind::Directory).expect("room");
        assert!(matches!(entries.add("long".repeat(2), EntryKind::File(1)), Err(SourceError::Permanent(_))));
        assert_eq!(entries.sorted().iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let link = EntryKind::Symlink("x".repeat(10));
        assert!(matches!(almost().add("c".into(), link), Err(SourceError::Permanent(_))));
    }
}
