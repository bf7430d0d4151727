//! `top.get`: counters of users and files on this node, for callers with permission.

use super::in_time::in_time;
use crate::control::{Caller, FILES_MAX, FileCounts, Top};
use crate::daemon::resolve::inside_of;
use crate::daemon::{Core, now_ns};
use engine::file::File;
use engine::stats::UserCounts;
use object::host::{self, descriptor_path};
use policy::layout::Layout;
use rustix::fs::{AtFlags, statat};
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Maximum of open files checked for a caller with limited permission, the busiest first.
const LOOKED_AT_MAX: usize = 10_000;
/// Approximate size of all paths in an answer. Further files are returned without a path.
const PATH_BYTES_MAX: usize = 1 << 20;

/// Whether a request awaits the namespace.
static LISTING: AtomicBool = AtomicBool::new(false);

/// Operators see all rows. Other users see their own row, and their own files in reachable directories. Files are left
/// out if the namespace does not answer within the deadline.
pub fn get(core: &Arc<Core>, caller: &Caller) -> Top {
    let everybody = caller.is_operator();
    let (stats, known) = (core.volume.stats().snapshot(), core.volume.stats().users().counts());
    let open: Vec<_> = core.files.files().into_iter().filter(|file| file.is_open()).collect();
    let open_files = open.len();
    let (there, caller, deadline) = (core.clone(), *caller, core.volume.config().health.deadline);
    let files = in_time(deadline, &LISTING, move || files(&there, &caller, open));
    let looked_at_max = if everybody { FILES_MAX } else { LOOKED_AT_MAX };
    Top {
        at_ms: now_ns() / 1_000_000,
        uptime_ns: stats.uptime_ns,
        volume: core.volume.config().name.clone(),
        host: host::name(),
        nodes: core.nodes.as_ref().map_or(1, |nodes| nodes.count()) as u64,
        everybody,
        all: together(&known),
        users: known.into_iter().filter(|user| everybody || user.uid == Some(caller.uid)).collect(),
        all_files: open_files <= looked_at_max && files.as_ref().is_some_and(|files| files.len() < FILES_MAX),
        open_files: open_files as u64,
        files: files.unwrap_or_default(),
        tiers: core.volume.config().tiers.iter().map(ToString::to_string).collect(),
        targets: stats.targets,
    }
}

fn together(users: &[UserCounts]) -> UserCounts {
    users.iter().fold(UserCounts::default(), |all, user| UserCounts {
        ops: all.ops + user.ops,
        read_bytes: all.read_bytes + user.read_bytes,
        written_bytes: all.written_bytes + user.written_bytes,
        total_ns: all.total_ns + user.total_ns,
        ..all
    })
}

fn files(core: &Core, caller: &Caller, open: Vec<Arc<File>>) -> Vec<FileCounts> {
    let everybody = caller.is_operator();
    // Requests of others do not reset the operator's interval.
    let lately = |file: &File| if everybody { file.usage().look() } else { file.usage().lately() };
    let mut ranked: Vec<_> = open.into_iter().map(|file| (lately(&file), file)).collect();
    ranked.sort_by_cached_key(|(lately, file)| {
        let used = file.usage().now();
        Reverse((*lately, used.read_bytes + used.written_bytes))
    });
    let busiest = ranked.into_iter().map(|(_, file)| file);
    let tree = std::fs::read_link(descriptor_path(core.volume.tree())).unwrap_or_default();
    if everybody {
        return with_paths(busiest.take(FILES_MAX).filter_map(|file| counts(core, &tree, &file)));
    }
    let own = busiest
        .take(LOOKED_AT_MAX)
        .filter(|file| file.stub().owner().is_some_and(|(uid, _)| uid == caller.uid))
        .take(FILES_MAX);
    let own: Vec<_> = own.filter_map(|file| counts(core, &tree, &file)).collect();
    let directories = own.iter().filter_map(|file| file.path.as_deref().map(inside_of)).collect();
    let reached = core.reachable(caller, directories);
    with_paths(
        own.into_iter().filter(|file| file.path.as_deref().is_none_or(|path| reached.contains(&inside_of(path)))),
    )
}

fn with_paths(files: impl Iterator<Item = FileCounts>) -> Vec<FileCounts> {
    let mut left = PATH_BYTES_MAX;
    let within = |mut file: FileCounts| {
        let bytes = file.path.as_ref().map_or(0, String::len);
        file.path = file.path.filter(|_| bytes <= left);
        left = left.saturating_sub(bytes);
        file
    };
    files.map(within).collect()
}

fn counts(core: &Core, tree: &Path, file: &File) -> Option<FileCounts> {
    let (stub, used) = (file.stub(), file.usage().now());
    let inode = stub.inode()?;
    // The kernel also has a name for a removed file, and an outdated one for a file that another node renamed.
    let is_there = |path: &PathBuf| {
        let there = statat(core.volume.tree(), path, AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == inode)
    };
    let path = stub.path().and_then(|path| Some(path.strip_prefix(tree).ok()?.to_path_buf())).filter(is_there);
    Some(FileCounts {
        path: path.and_then(|path| path.into_os_string().into_string().ok()),
        inode: inode.1,
        uid: stub.owner()?.0,
        size: file.size(),
        layout: lies(file.layout().as_deref()),
        handles: file.handles() as u64,
        ops: used.reads + used.writes,
        read_bytes: used.read_bytes,
        written_bytes: used.written_bytes,
        total_ns: used.total_ns,
    })
}

/// Place of the bytes, in a few words: the stub, or the largest number of targets in parallel and the number of
/// mirrors.
fn lies(layout: Option<&Layout>) -> String {
    let Some(layout) = layout else { return "stub".into() };
    let widest = layout.mirrors.iter().flat_map(|mirror| &mirror.segments).map(|segment| segment.objects.len()).max();
    let targets = match widest.unwrap_or(0) {
        1 => "1 target".to_owned(),
        count => format!("{count} targets"),
    };
    match layout.mirrors.len() {
        0 | 1 => targets,
        mirrors => format!("{mirrors} mirrors on {targets}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_an_answer_are_bounded_and_the_files_stay() {
        let long = FileCounts { path: Some("x".repeat(4000)), ..FileCounts::default() };
        let short = FileCounts { path: Some("y".into()), ..FileCounts::default() };
        let files = with_paths(std::iter::once(short.clone()).chain(std::iter::repeat_n(long, 1000)));
        let named = files.iter().filter_map(|file| file.path.as_ref()).map(String::len).sum::<usize>();
        assert_eq!((files.len(), &files[0]), (1001, &short));
        assert!(named > PATH_BYTES_MAX - 4000 && named <= PATH_BYTES_MAX, "{named}");
    }
}
