//! What an earlier daemon left when it was killed: marks in `open/` and moves that were half done.

use super::walk::open_file;
use crate::Result;
use crate::file::{File, FileTable};
use crate::mover::Mover;
use crate::volume::Volume;
use policy::layout::Layout;
use rustix::fs::{Dir, fstat};
use std::ffi::CString;
use std::sync::Arc;

/// Settles everything that can be settled now. What cannot (its target is away) keeps its mark and is tried at the next
/// start; it is said in the log.
pub(super) fn settle(volume: &Volume, files: &Arc<FileTable>, mover: &Mover) -> Result<()> {
    let marks = marks(volume)?;
    let open = |name: &CString| open_file(files, volume.open_links(), name);
    let layout_of = |entry: &crate::state::JournalEntry| -> Result<Option<Layout>> {
        let name = entry.file.to_string();
        let Some(mark) = marks.iter().find(|m| m.to_bytes() == name.as_bytes()) else { return Ok(None) };
        Ok(open(mark)?.and_then(|file| file.layout()).map(|layout| (*layout).clone()))
    };
    let recovered = mover.recover_journal(layout_of)?;
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
