//! A scrub: all files are read, compared and repaired one after the other by path, so that a scrub can resume.

use super::deep::Paced;
use super::look::{Found, is_plain};
use super::{Checker, Finding, FindingKind, Outcome};
use crate::stage::Stop;
use crate::stage::place::names;
use crate::volume::Summed;
use crate::{Error, Result};
use meta::descent::Descent;
use object::target::Reach;
use policy::{ObjectId, TargetId};
use rustix::fs::{self, AtFlags, FileType, OFlags};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

/// Interval between checks which targets are present. A guess.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// Progress of a scrub.
#[derive(Debug)]
pub enum Scrubbed<'a> {
    /// Number of bytes compared in a file.
    Bytes(u64),
    /// A file is done; with its path below the mount's root.
    File(&'a str, ScrubbedFile),
}

/// Result for one file.
#[derive(Debug, Default)]
pub struct ScrubbedFile {
    /// Findings, with their outcomes.
    pub findings: Vec<Finding>,
    /// Bytes of the rebuilt objects.
    pub mended_bytes: u64,
    /// Reason why the file was not compared.
    pub left: Option<String>,
}

/// Targets and their objects at the last check.
struct LastListing {
    at: Instant,
    there: BTreeMap<TargetId, HashSet<ObjectId>>,
    elsewhere: BTreeSet<TargetId>,
}

/// Whether a finding is about wrong bytes. Only these are the scrub's work.
fn is_scrubs(kind: FindingKind) -> bool {
    match kind {
        FindingKind::ObjectMissing
        | FindingKind::ObjectShort
        | FindingKind::Damaged
        | FindingKind::Unreadable
        | FindingKind::MirrorsDiffer
        | FindingKind::SumsMissing
        | FindingKind::BadLayout => true,
        FindingKind::TargetAway
        | FindingKind::Partial
        | FindingKind::MirrorStale
        | FindingKind::NamedTwice
        | FindingKind::Orphan => false,
    }
}

impl Checker {
    /// Scrubs all files, or those behind `after`, a path that was reported before. Returns whether it reached the
    /// end. `stop` and an error of `paced` end it early, and the current file then counts as not done.
    pub fn scrub(
        &self,
        after: Option<&str>,
        paced: Paced<'_>,
        told: &mut dyn FnMut(Scrubbed<'_>),
        stop: &Stop,
    ) -> Result<bool> {
        let after = after.map(names).transpose().map_err(|e| Error::Invalid(e.to_string()))?.unwrap_or_default();
        let mut asked = self.asked();
        let mut linked = BTreeSet::new();
        let mut walk = Descent::at(self.open(&[], OFlags::RDONLY | OFlags::DIRECTORY)?, true)?;
        while let Some(entry) = walk.entry() {
            if stop.is_set() {
                return Ok(false);
            }
            // A name that cannot be shown is left out, and so is an unreadable directory.
            let Ok((name, _)) = entry else { continue };
            let names = walk.names_of(&name).filter(|names| names.iter().all(|name| is_plain(name)));
            let Some(names) = names else { continue };
            let is_done = names <= after && (names == after || !after.starts_with(&names));
            // A name that was removed, or is no file, has no bytes.
            let Ok(stat) = fs::statat(self.volume.tree(), names.join("/"), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if !is_done => {
                    let opened = self.open(&names, OFlags::RDONLY | OFlags::DIRECTORY);
                    drop(opened.map(|directory| walk.enter(&name, directory)));
                }
                FileType::RegularFile
                    if !is_done && (stat.st_nlink < 2 || linked.insert((stat.st_dev, stat.st_ino))) =>
                {
                    if asked.at.elapsed() > ASK_EVERY {
                        asked = self.asked();
                    }
                    let done = self.scrub_file(&names, &mut asked, paced, told, stop);
                    if stop.is_set() {
                        return Ok(false);
                    }
                    let failed = |error: Error| ScrubbedFile { left: Some(error.to_string()), ..Default::default() };
                    told(Scrubbed::File(&names.join("/"), done.unwrap_or_else(failed)));
                }
                _ => {}
            }
        }
        Ok(!stop.is_set())
    }

    fn asked(&self) -> LastListing {
        let mut found = Found::default();
        self.ask_targets(&mut found, false);
        LastListing { at: Instant::now(), there: found.there, elsewhere: found.elsewhere }
    }

    fn scrub_file(
        &self,
        names: &[String],
        asked: &mut LastListing,
        paced: Paced<'_>,
        told: &mut dyn FnMut(Scrubbed<'_>),
        stop: &Stop,
    ) -> Result<ScrubbedFile> {
        let told = parking_lot::Mutex::new(told);
        let compared = |bytes| (told.lock())(Scrubbed::Bytes(bytes));
        let (mut found, left) = self.look_into(names, asked, paced, &compared, stop)?;
        let mut mended_bytes = 0;
        let mut failed = false;
        for candidate in std::mem::take(&mut found.candidates) {
            let finding = &mut found.report.findings[candidate.finding];
            if stop.is_set() || !candidate.recoverable || !is_scrubs(finding.kind) {
                continue;
            }
            finding.outcome = match self.repair_one(&candidate) {
                Ok(()) => {
                    mended_bytes += candidate.bytes;
                    Outcome::Repaired
                }
                Err(error) => {
                    failed = true;
                    Outcome::Failed(error.to_string())
                }
            };
        }
        let mut findings = found.report.findings;
        findings.retain(|finding| is_scrubs(finding.kind));
        if findings.is_empty()
            && left.is_none()
            && self.volume.config().checksums.files == Summed::Closed
            && let Err(error) = self.sum_below(names, paced, stop)
        {
            tracing::debug!(file = names.join("/"), "it gets no checksums now: {error}");
        }
        if failed && !stop.is_set() {
            // A finding about data that was written or removed in between is void.
            let (again, _) = self.look_into(names, asked, paced, &|_| (), stop)?;
            let is_there = |known: &Finding| {
                again.report.findings.iter().any(|f| (&f.object, f.kind) == (&known.object, known.kind))
            };
            findings.retain(|finding| finding.outcome == Outcome::Repaired || is_there(finding));
        }
        Ok(ScrubbedFile { findings, mended_bytes, left })
    }

    /// Scans one file, its objects and its bytes. Also returns why the bytes could not be compared.
    fn look_into(
        &self,
        names: &[String],
        asked: &mut LastListing,
        paced: Paced<'_>,
        compared: &dyn Fn(u64),
        stop: &Stop,
    ) -> Result<(Found, Option<String>)> {
        let there = std::mem::take(&mut asked.there);
        let mut found = Found { there, elsewhere: asked.elsewhere.clone(), compares: true, ..Found::default() };
        let walked = self.walk(names, &mut found, stop);
        let mut left = None;
        if walked.is_ok() && !found.to_compare.is_empty() {
            left = self.compare_file(names, &mut found, paced, compared, stop).err().map(|error| match error {
                Error::Target { target, .. } if self.is_elsewhere(target) => {
                    format!("target {} is reached by other nodes only", self.volume.targets().name_of(target))
                }
                other => other.to_string(),
            });
        }
        asked.there = std::mem::take(&mut found.there);
        walked.map(|()| (found, left))
    }

    /// Computes checksums for files that were created without, or that were in use for long.
    fn sum_below(&self, names: &[String], paced: Paced<'_>, stop: &Stop) -> Result<()> {
        let file = self.files.get_or_open(self.open(names, OFlags::RDWR)?)?;
        self.sum(&file, paced, stop).map(drop)
    }

    fn is_elsewhere(&self, target: TargetId) -> bool {
        self.volume.targets().get(target).is_some_and(|target| target.reach() == Reach::Elsewhere)
    }
}
