//! Marks of checksums on a stub: `user.entrepot.sums.ID`, valid or being made. They are removed before each change of the
//! file.

use super::names::{AGREE, texts};
use super::real::FdStub;
use crate::Result;
use policy::FileId;
use rustix::fs::{self, XattrFlags};

/// Value of the mark of unfinished checksums.
const MAKING: &str = "making";
/// Prefix of the names of the marks.
const PREFIX: &str = "user.entrepot.sums.";

/// Marks of checksums.
pub trait Sums {
    /// Whether the file has a mark for checksums, finished or not.
    fn has_sums(&self) -> Result<bool>;
    /// Returns the valid checksums of the content: the name they were made under, and their text. `None` if there are
    /// none.
    fn sums(&self) -> Result<Option<(String, String)>>;
    /// Marks that checksums are being made, under a unique name.
    fn begin_sums(&self, id: &str) -> Result<()>;
    /// Makes the checksums of that name valid, unless the file was changed since. Returns whether they are.
    fn end_sums(&self, id: &str, text: &str) -> Result<bool>;
    /// Invalidates all checksums. Returns whether there was a mark for any. Durable after [`super::Stub::sync`].
    fn void_sums(&self, file: Option<FileId>) -> Result<bool>;
}

impl Sums for FdStub {
    fn has_sums(&self) -> Result<bool> {
        Ok(!self.unless_removed(self.all_sums(), Vec::new())?.is_empty())
    }

    fn sums(&self) -> Result<Option<(String, String)>> {
        for id in self.all_sums()? {
            let value = self.attribute(&format!("{PREFIX}{id}"))?.and_then(|value| String::from_utf8(value).ok());
            if let Some(text) = value.filter(|text| text != MAKING) {
                return Ok(Some((id, text)));
            }
        }
        Ok(None)
    }

    fn begin_sums(&self, id: &str) -> Result<()> {
        self.create(&format!("{PREFIX}{id}"), MAKING.as_bytes()).map(drop)
    }

    /// Replaces the mark in one step, so that a mark removed by another node does not return.
    fn end_sums(&self, id: &str, text: &str) -> Result<bool> {
        self.put(&format!("{PREFIX}{id}"), text.as_bytes(), XattrFlags::REPLACE)
    }

    fn void_sums(&self, file: Option<FileId>) -> Result<bool> {
        self.unless_removed(self.take_sums(file), false)
    }
}

impl FdStub {
    fn all_sums(&self) -> Result<Vec<String>> {
        Ok(texts(&self.names(AGREE)?).filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    fn take_sums(&self, file: Option<FileId>) -> Result<bool> {
        let all = self.all_sums()?;
        for id in &all {
            self.take(&format!("{PREFIX}{id}"))?;
            if let Some(file) = file {
                let _ = fs::unlink(self.side().join(format!("{file}.{id}.closing"))); // what a crash left
            }
        }
        Ok(!all.is_empty())
    }
}
