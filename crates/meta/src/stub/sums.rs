//! Marks of checksums on a stub: `user.entrepot.sums.ID`, valid or being made. They are removed before each change of the
//! file.

use super::names::{AGREE, texts};
use super::real::{FdStub, permitted};
use crate::Result;
use policy::FileId;
use rustix::fd::AsFd;
use rustix::fs::{self, XattrFlags};
use rustix::io::Errno;

/// Value of the mark of unfinished checksums.
const MAKING: &str = "making";
/// Prefix of the names of the marks.
const PREFIX: &str = "user.entrepot.sums.";

impl FdStub {
    pub(super) fn all_sums(&self) -> Result<Vec<String>> {
        Ok(texts(&self.names(AGREE)?).filter_map(|name| name.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    pub(super) fn sums_that_count(&self) -> Result<Option<(String, String)>> {
        for id in self.all_sums()? {
            let value = self.attribute(&format!("{PREFIX}{id}"))?.and_then(|value| String::from_utf8(value).ok());
            if let Some(text) = value.filter(|text| text != MAKING) {
                return Ok(Some((id, text)));
            }
        }
        Ok(None)
    }

    pub(super) fn make_sums(&self, id: &str) -> Result<()> {
        let name = format!("{PREFIX}{id}");
        self.create(&name, MAKING.as_bytes()).map(drop)
    }

    /// Replaces the mark in one step, so that a mark removed by another node does not return.
    pub(super) fn count_sums(&self, id: &str, text: &str) -> Result<bool> {
        let (fd, name) = (self.fd(), format!("{PREFIX}{id}"));
        match permitted(fd.as_fd(), || fs::fsetxattr(&*fd, &name, text.as_bytes(), XattrFlags::REPLACE)) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn take_sums(&self, file: Option<FileId>) -> Result<bool> {
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
