//! Verification of a file's bytes by its checksums, with its source for stripes that no mirror has right.

use crate::file::File;
use crate::mover::Proof;
use crate::recovery::Repair;
use crate::recovery::case::RecordedSource;
use crate::source::{Record, SourceError};
use crate::stage::sums::Sums;
use crate::stats::Metric;
use crate::{Error, Result};
use std::sync::Arc;

/// Tries of all sources. A guess: a later scrub tries again.
const TRIES: usize = 2;

pub(super) struct Right<'a> {
    sums: Sums,
    /// Name of the checksums in the stub of a closed file; `None`: those of the source.
    made_under: Option<String>,
    /// Size of the file that the checksums cover.
    size: u64,
    sources: Vec<RecordedSource>,
    repair: &'a Repair,
}

/// Whether checksums, those of the source or those that a closed file's stub names, belong to the content of a file.
/// Nothing writes the file.
pub(super) fn are_current(file: &File, made_under: Option<&str>, size: u64) -> bool {
    let are_valid = match made_under {
        None => file.is_recoverable(),
        Some(made_under) => file.stub().sums().ok().flatten().is_some_and(|(id, _)| id == made_under),
    };
    are_valid && file.size() == size
}

impl<'a> Right<'a> {
    pub fn new(
        (sums, made_under): (Sums, Option<String>),
        size: u64,
        file: &Arc<File>,
        repair: &'a Repair,
    ) -> Result<Right<'a>> {
        let record = file.source()?.and_then(|text| Record::parse(&text).ok()).filter(|record| !record.modified);
        let sources = record.iter().flat_map(RecordedSource::all).collect();
        Ok(Right { sums, made_under, size, sources, repair })
    }

    fn fetch(&self, source: &RecordedSource, offset: u64, len: u64) -> Result<Vec<u8>, SourceError> {
        let remote = source.open(&*self.repair.driver.opener)?;
        let mut bytes = vec![0; len as usize];
        if source.has_ranges(&*remote)? {
            remote.read_at(&source.place.version, offset, &mut bytes)?;
            self.repair.driver.stats.add(Metric::RecoveryBytes, len);
            return Ok(bytes);
        }
        // The source delivers its bytes only in order: earlier bytes are dropped.
        let (mut at, mut filled) = (0, 0);
        remote.read_all(&source.place.version, &mut |some| {
            let skip = offset.saturating_sub(at).min(some.len() as u64) as usize;
            let take = (some.len() - skip).min(bytes.len() - filled);
            bytes[filled..filled + take].copy_from_slice(&some[skip..skip + take]);
            at += some.len() as u64;
            filled += take;
            filled < bytes.len()
        })?;
        self.repair.driver.stats.add(Metric::RecoveryBytes, at);
        bytes.truncate(filled);
        Ok(bytes)
    }
}

impl Proof for Right<'_> {
    fn stripe_bytes(&self) -> u64 {
        self.sums.stripe_bytes()
    }

    fn is_current(&self, file: &File) -> bool {
        are_current(file, self.made_under.as_deref(), self.size)
    }

    fn is_right(&self, number: u64, stripe: &[u8]) -> Result<bool> {
        self.sums.matches(number, stripe)
    }

    fn bring(&self, number: u64, len: u64) -> Result<Vec<u8>> {
        let mut why = "neither a mirror nor a source has the right bytes".to_string();
        for source in std::iter::repeat_n(&self.sources, TRIES).flatten() {
            match self.fetch(source, number * self.sums.stripe_bytes(), len) {
                Ok(bytes) if self.sums.matches(number, &bytes)? => return Ok(bytes),
                Ok(_) => why = format!("{} gives other bytes than were staged in", source.place.uri),
                Err(error) => why = format!("{}: {error}", source.place.uri),
            }
        }
        Err(Error::Unrecoverable(why))
    }
}
