//! Recovery after a killed daemon: marks in `open/` and half-done moves.

use super::walk::walk;
use crate::{Error, Result};
use engine::file::{File, FileTable};
use engine::mover::{Found, Mover, Recovered};
use engine::volume::Volume;
use meta::stub::InUse;
use policy::ObjectId;
use policy::cluster::Node;
use policy::layout::Layout;
use rustix::fs::{AtFlags, Dir, statat, unlinkat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Settles all leftovers that can be settled now. A file on an absent target keeps its mark and is retried at the
/// next start; the log reports it. The journal is this node's own. Marks may belong to other live nodes; `alone`
/// means that there are none. Returns the number of moves whose objects the next search for orphans removes.
pub(super) fn settle(volume: &Volume, files: &Arc<FileTable>, mover: &Mover, alone: bool) -> Result<usize> {
    let open = |name: &CString| files.open_at(volume.open_links(), &**name);
    let copies = mover.journal_copies_of_last_run()?;
    if copies > 0 {
        tracing::info!(copies, "slow copies that the last run kept are removed");
    }
    // A restored backup and the state may be from different times. Then objects stay, with or without a name.
    let returned = volume.unknown_epochs()?.is_some();
    let named = if returned { Some(Named::look(volume, files)?) } else { None };
    if let Some(named) = &named {
        let spared = mover.spare_named(named.complete.then_some(&named.objects))?;
        if spared > 0 {
            tracing::warn!("{spared} objects are noted as garbage and belong to files all the same: they stay");
        }
    }
    let to_search = settle_journal(volume, files, mover, false)?.to_search;
    let marks = marks(volume)?;
    for (_, mark) in marks.iter().filter(|_| alone) {
        let shown = mark.to_string_lossy();
        match open(mark).and_then(|file| file.map_or(Ok(()), |file| settle_one(volume, &file, mark, named.as_ref()))) {
            Ok(()) => tracing::debug!(file = %shown, "settled after a crash"),
            Err(error) => {
                tracing::warn!(file = %shown, "a file was in use at a crash and cannot be settled yet: {error}")
            }
        }
    }
    Ok(to_search)
}

/// Settles the moves of a journal. `of_another`: the journal of a node that may wake up, whose late writes to a file
/// are fenced first. If neither a mark nor a recorded place leads to a file, its objects are left to the search for
/// orphans: that misses no name that is moved during the search. If namespace and state are from different times, such
/// a move stays in the journal.
pub(super) fn settle_journal(
    volume: &Volume,
    files: &Arc<FileTable>,
    mover: &Mover,
    of_another: bool,
) -> Result<Recovered> {
    let layout_of = |file: Arc<File>| {
        if of_another {
            drop(file.exclusive()?);
        }
        // The daemon may have died before the record was durable, and an object of the earlier record is removed next.
        file.stub().sync()?;
        Ok(file.layout())
    };
    let marks = marks(volume)?;
    let returned = volume.unknown_epochs()?.is_some();
    let recovered = mover.recover_journal(|entry| {
        if let Some((_, mark)) = marks.iter().find(|(by, _)| by.is_some_and(|by| by.file == entry.file)) {
            match files.open_at(volume.open_links(), &**mark).and_then(|file| file.map_or(Ok(None), layout_of)) {
                Ok(Some(layout)) => return Ok(found(&layout)),
                Ok(None) => {}
                Err(_) => return Ok(Found::Unknown),
            }
        }
        // The file was unlinked before it was marked, or a user removed the mark.
        if let Some(file) = files.at_place(entry.file) {
            match layout_of(file) {
                Ok(Some(layout)) => return Ok(found(&layout)),
                Ok(None) => {}
                Err(error) if of_another => return Err(error),
                Err(_) => return Ok(Found::Unknown),
            }
        }
        Ok(if returned { Found::Unknown } else { Found::Unseen })
    })?;
    if recovered.moves > 0 {
        tracing::info!(moves = recovered.moves, objects = recovered.objects, "moves that were interrupted are settled");
    }
    Ok(recovered)
}

fn found(layout: &Layout) -> Found {
    Found::Layout(Box::new(layout.clone()))
}

/// The names in `open/`, parsed.
fn marks(volume: &Volume) -> Result<Vec<(Option<InUse>, CString)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(volume.open_links())? {
        let name = entry?.file_name().to_owned();
        if name.to_bytes().first() != Some(&b'.') {
            names.push((name.to_str().ok().and_then(InUse::parse), name));
        }
    }
    Ok(names)
}

/// Settles the marks of other nodes that are over; returns whether all are settled. A file without another link loses
/// its objects with its mark.
pub(super) fn settle_marks_of(is_over: &dyn Fn(Node) -> bool, volume: &Volume, files: &Arc<FileTable>) -> Result<bool> {
    let mut all = true;
    for (_, mark) in marks(volume)?.iter().filter(|(by, _)| by.and_then(|by| by.node).is_some_and(is_over)) {
        let shown = mark.to_string_lossy();
        let settled = match files.open_at(volume.open_links(), &**mark) {
            Ok(Some(file)) if links_of(volume, mark)? > 1 => file.settle_after_crash(),
            Ok(_) => Ok(true),
            Err(error) => Err(error),
        };
        match settled.and_then(|may_go| if may_go { remove_mark(volume, mark).map(|()| true) } else { Ok(false) }) {
            Ok(true) => tracing::debug!(file = %shown, "settled after its node"),
            Ok(false) => all = false,
            Err(error) => {
                all = false;
                tracing::info!(file = %shown, "a file was in use by a node that is over and cannot be settled yet: {error}");
            }
        }
    }
    Ok(all)
}

/// Objects of the files that have a name.
struct Named {
    objects: HashSet<ObjectId>,
    /// Whether all files were read.
    complete: bool,
}

impl Named {
    fn look(volume: &Volume, files: &FileTable) -> Result<Named> {
        let mut named = Named { objects: HashSet::new(), complete: true };
        for file in walk(volume, files)? {
            match file {
                Ok(file) => named.objects.extend(file.layout().iter().flat_map(|l| l.objects()).map(|(_, o)| o.id)),
                Err(_) => named.complete = false,
            }
        }
        Ok(named)
    }

    /// Whether the file shares an object with a file that has a name.
    fn has(&self, file: &File) -> bool {
        file.layout().is_some_and(|l| l.objects().any(|(_, o)| self.objects.contains(&o.id)))
    }
}

fn settle_one(volume: &Volume, file: &Arc<File>, mark: &CString, named: Option<&Named>) -> Result<()> {
    if links_of(volume, mark)? > 1 {
        return if file.settle_after_crash()? { remove_mark(volume, mark) } else { Ok(()) };
    }
    match named {
        // The file was unlinked while it was open, and its last user ended with the daemon.
        None => file.remove_objects()?,
        // The stub is a copy of a file with a name, restored without the link between the two.
        Some(named) if named.complete && named.has(file) => {}
        Some(_) => {
            return Err(Error::Busy(
                "it has no name in what was put back from a backup; `entrepot check --repair --drop-unknown` gives it up".into(),
            ));
        }
    }
    remove_mark(volume, mark)
}

fn links_of(volume: &Volume, mark: &CStr) -> Result<u64> {
    Ok(statat(volume.open_links(), mark, AtFlags::SYMLINK_NOFOLLOW)?.st_nlink)
}

fn remove_mark(volume: &Volume, mark: &CStr) -> Result<()> {
    match unlinkat(volume.open_links(), mark, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests;
