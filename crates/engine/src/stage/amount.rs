//! Size of a staging, taken from the source; nothing is fetched.

use super::{Result, StageError, StageIn, Transfer};
use crate::source::{EntryKind, check_uri};

impl Transfer<'_> {
    /// Bytes that staging in `what` would write. Files that are in place with the source's size count as staged. With
    /// `tree` the source is a directory.
    pub fn bytes_to_bring(&self, what: &StageIn, tree: bool) -> Result<u64> {
        what.uris.iter().try_for_each(|uri| check_uri(uri))?;
        let first = what.uris.first().ok_or_else(|| StageError::path(&what.path, "no source is named"))?;
        if tree {
            if let Some(files) = self.opener.record(first, self.who).map_err(|e| StageError::of_source(first, e))? {
                let path = |name: &str| format!("{}/{name}", what.path);
                let missing = files.iter().filter(|file| !self.has_size(&path(&file.path), None, file.size));
                return Ok(missing.map(|file| file.size).fold(0, u64::saturating_add));
            }
            let entries = self.opener.list(first, self.who).map_err(|e| StageError::of_source(first, e))?;
            let missing = entries.iter().map(|entry| match entry.kind {
                EntryKind::File(size) if !self.has_size(&format!("{}/{}", what.path, entry.path), None, size) => size,
                _ => 0,
            });
            return Ok(missing.sum());
        }
        let mut failed = None;
        for uri in &what.uris {
            match self.opener.open(uri, self.who).and_then(|source| source.stat()) {
                Ok(version) => {
                    let name = uri.trim_end_matches('/').rsplit('/').next();
                    return Ok(if self.has_size(&what.path, name, version.size) { 0 } else { version.size });
                }
                Err(e) => drop(failed.get_or_insert(StageError::of_source(uri, e))),
            }
        }
        Err(failed.unwrap_or_else(|| StageError::path(&what.path, "no source is named")))
    }

    /// Whether everything that `what` stages in is in place, by size.
    pub fn is_in_place(&self, what: &StageIn, size: u64) -> bool {
        let name = what.uris.first().and_then(|uri| uri.trim_end_matches('/').rsplit('/').next());
        self.has_size(&what.path, name, size)
    }

    fn has_size(&self, path: &str, name: Option<&str>, size: u64) -> bool {
        let found = self.place(path, name).and_then(|place| place.stat());
        found.is_ok_and(|stat| stat.is_some_and(|stat| u64::try_from(stat.st_size) == Ok(size)))
    }
}
