//! What an earlier daemon left when it was killed: marks in `open/` and moves that were half done.

use super::walk::{open_file, walk};
use crate::Result;
use crate::file::{File, FileTable};
use crate::mover::{Found, Mover};
use crate::volume::Volume;
use policy::FileId;
use policy::layout::Layout;
use rustix::fs::{Dir, fstat};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;

/// Settles everything that can be settled now. What cannot (its target is away) keeps its mark and is tried at the next
/// start; it is said in the log.
pub(super) fn settle(volume: &Volume, files: &Arc<FileTable>, mover: &Mover) -> Result<()> {
    let marks = marks(volume)?;
    let open = |name: &CString| open_file(files, volume.open_links(), name);
    let mut elsewhere = None;
    let copies = mover.journal_copies_of_last_run()?;
    if copies > 0 {
        tracing::info!(copies, "slow copies that the last run kept are removed");
    }
    let recovered = mover.recover_journal(|entry| {
        let name = entry.file.to_string();
        if let Some(mark) = marks.iter().find(|m| m.to_bytes() == name.as_bytes())
            && let Some(layout) = open(mark)?.and_then(|file| file.layout())
        {
            return Ok(Found::Layout(Box::new(Layout::clone(&layout))));
        }
        // Unlinked before it could be marked, or a user took the mark away: then it is found by its number, or is gone.
        let elsewhere = match &mut elsewhere {
            Some(layouts) => layouts,
            unknown => unknown.insert(moved_files(volume, files, mover)?),
        };
        Ok(elsewhere.find(entry.file))
    })?;
    if recovered.moves > 0 {
        tracing::info!(moves = recovered.moves, objects = recovered.objects, "moves that were interrupted are settled");
    }
    for mark in &marks {
        let shown = mark.to_string_lossy();
        match open(mark).and_then(|file| file.map_or(Ok(()), |file| settle_one(volume, &file, mark))) {
            Ok(()) => tracing::debug!(file = %shown, "settled after a crash"),
            Err(error) => {
                tracing::warn!(file = %shown, "a file was in use at a crash and cannot be settled yet: {error}")
            }
        }
    }
    Ok(())
}

/// The files of the journal, as a walk over the tree found them.
struct Walked {
    layouts: HashMap<FileId, Arc<Layout>>,
    /// Everything was looked at.
    complete: bool,
}

impl Walked {
    fn find(&self, file: FileId) -> Found {
        match self.layouts.get(&file) {
            Some(layout) => Found::Layout(Box::new(Layout::clone(layout))),
            None if self.complete => Found::Gone,
            None => Found::Unknown,
        }
    }
}

fn moved_files(volume: &Volume, files: &FileTable, mover: &Mover) -> Result<Walked> {
    tracing::info!("looking through the tree for files whose move was interrupted");
    let moved: HashSet<FileId> = mover.journal_files()?;
    let mut walked = Walked { layouts: HashMap::new(), complete: true };
    for file in walk(volume, files)? {
        match file.map(|file| file.layout()) {
            Ok(Some(layout)) if moved.contains(&layout.file) => {
                walked.layouts.insert(layout.file, layout);
            }
            Ok(_) => {}
            Err(_) => walked.complete = false,
        }
    }
    Ok(walked)
}

/// The names in `open/`.
fn marks(volume: &Volume) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(volume.open_links())? {
        let name = entry?.file_name().to_owned();
        if name.to_bytes().first() != Some(&b'.') {
            names.push(name);
        }
    }
    Ok(names)
}

fn settle_one(volume: &Volume, file: &Arc<File>, mark: &CString) -> Result<()> {
    let stat = rustix::fs::statat(volume.open_links(), mark, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_nlink > 1 {
        return file.settle_after_crash();
    }
    // Unlinked while it was open: its last user died with the daemon.
    file.remove_objects()?;
    match rustix::fs::unlinkat(volume.open_links(), mark, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Whether a descriptor is a regular file.
pub(super) fn is_regular(fd: impl rustix::fd::AsFd) -> Result<bool> {
    let mode = fstat(fd)?.st_mode;
    Ok(rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::RegularFile)
}

#[cfg(test)]
mod tests;
