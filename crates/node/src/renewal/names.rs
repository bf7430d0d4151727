//! Facts about a volume's state in its namespace: targets and numbers in the layouts of files.

use crate::Result;
use meta::descent::{Descent, Met};
use meta::stub::Stub;
use meta::stub::real::FdStub;
use object::workers::side_by_side;
use parking_lot::Mutex;
use policy::layout::{Layout, Mirror, MirrorState};
use policy::{ObjectId, TargetId};
use rustix::fd::OwnedFd;
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Stubs that are read at the same time: each takes four calls of a file system that may be far away. A guess.
const READERS: usize = 16;
/// Names that wait for a reader, for each of them: each may keep a directory open.
const WAITING: usize = 4;
/// Maximum of unreadable entries that are named; the rest is counted.
const NAMED_MAX: usize = 20;

/// The files of which a target has objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct On {
    /// Number of files.
    pub files: u64,
    /// Files that have neither another mirror in sync nor a source.
    pub alone: u64,
    /// Path of one such file, below the mount point.
    pub example: String,
}

/// Result of a walk through the tree.
#[derive(Debug, Default)]
pub struct Names {
    /// Number of regular files.
    pub files: u64,
    /// Files with a layout.
    pub laid_out: u64,
    /// Files on each target.
    pub on: BTreeMap<TargetId, On>,
    /// The largest epoch among the numbers of files and objects.
    pub epoch: u32,
    /// Unreadable entries with their causes; a limited number of them.
    pub unread: Vec<String>,
    /// Number of unreadable entries.
    pub unread_count: u64,
}

impl Names {
    /// Reads all stubs: those in the tree, of files being staged in, and of files that were in use. For targets that
    /// are `here`, it does not check for other mirrors and sources.
    pub fn read(namespace: &Path, shared: bool, here: &BTreeSet<TargetId>) -> Result<Names> {
        let names = Mutex::new(Names::default());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(namespace, flags, Mode::empty())?;
        for (part, is_tree) in [("tree", true), ("staging", false), ("open", false)] {
            let below = match openat(&root, part, flags, Mode::empty()) {
                Err(Errno::NOENT) if !is_tree => continue,
                opened => opened?,
            };
            read_together(Descent::new(&below)?, &|met| {
                let met = match met {
                    Ok(met) => met,
                    Err(errno) => return names.lock().is_unread(format!("a directory below {part}: {errno}")),
                };
                let name = String::from_utf8_lossy(met.name.to_bytes()).into_owned();
                // Beside stubs, the directory has names of unfinished work.
                if !is_tree && name.contains('.') {
                    return;
                }
                match FdStub::met(&met, namespace, shared) {
                    Ok(None) => {}
                    Ok(Some(stub)) => read_stub(&names, &stub, is_tree, namespace, here),
                    Err(errno) => names.lock().is_unread(format!("{part}/.../{name}: {errno}")),
                }
            });
        }
        let mut names = names.into_inner();
        names.look_at_side(&root)?;
        names.unread.sort_unstable();
        Ok(names)
    }

    /// Side files outlive their stubs; their names are numbers of files.
    fn look_at_side(&mut self, root: &OwnedFd) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let side = match openat(root, "side", flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        for entry in Dir::read_from(&side)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let file = name.get(..16).and_then(|digits| digits.parse::<ObjectId>().ok());
            self.epoch = self.epoch.max(file.map_or(0, ObjectId::epoch));
        }
        Ok(())
    }

    fn is_unread(&mut self, what: String) {
        self.unread_count += 1;
        if self.unread.len() < NAMED_MAX {
            self.unread.push(what);
        }
    }
}

fn read_stub(names: &Mutex<Names>, stub: &FdStub, is_tree: bool, namespace: &Path, here: &BTreeSet<TargetId>) {
    let layout = stub.layout();
    names.lock().files += u64::from(is_tree);
    match layout {
        Ok(None) => {}
        Ok(Some(layout)) => {
            names.lock().laid_out += u64::from(is_tree);
            note(names, &layout, here, || (path_of(stub, namespace), matches!(stub.source(), Ok(None))));
        }
        Err(error) => {
            let what = format!("{}: {error}", path_of(stub, namespace));
            names.lock().is_unread(what);
        }
    }
}

/// `about` returns the path of a file and whether it has no source.
fn note(names: &Mutex<Names>, layout: &Layout, here: &BTreeSet<TargetId>, about: impl FnOnce() -> (String, bool)) {
    let mut epoch = (layout.file.0 >> 32) as u32;
    let mut on: BTreeMap<TargetId, BTreeSet<usize>> = BTreeMap::new();
    for (at, object) in layout.objects() {
        epoch = epoch.max(object.id.epoch());
        on.entry(object.target).or_default().insert(at.mirror);
    }
    let away: Vec<_> = on.iter().filter(|(target, _)| !here.contains(*target)).collect();
    let about = (!away.is_empty()).then(about);
    let is_whole = |(mirror, m): (usize, &Mirror)| {
        m.state == MirrorState::InSync && !away.iter().any(|(_, mirrors)| mirrors.contains(&mirror))
    };
    let has_other = layout.mirrors.iter().enumerate().any(is_whole);
    let mut names = names.lock();
    names.epoch = names.epoch.max(epoch);
    for target in on.keys() {
        let entry = names.on.entry(*target).or_default();
        entry.files += 1;
        let Some((path, has_no_source)) = about.as_ref().filter(|_| !here.contains(target)) else { continue };
        entry.alone += u64::from(*has_no_source && !has_other);
        // The smallest path is kept, so that the result does not depend on the order of the threads.
        if entry.example.is_empty() || *path < entry.example {
            entry.example.clone_from(path);
        }
    }
}

/// Walks on one thread, and passes the entries that are no directories, and the errors, to `read` on several.
fn read_together(descent: Descent, read: &(dyn Fn(rustix::io::Result<Met>) + Sync)) {
    let (walked, met) = sync_channel(READERS * WAITING);
    let (met, walk) = (Mutex::new(met), Mutex::new(Some((descent, walked))));
    side_by_side(1 + READERS, |number| {
        let walk = walk.lock().take_if(|_| number == 0);
        if let Some((descent, walked)) = walk {
            for met in descent.filter(|met| !matches!(met, Ok(Met { inode: Some(_), .. }))) {
                walked.send(met).expect("there are readers until the walk ends");
            }
            return;
        }
        loop {
            let next = met.lock().recv();
            match next {
                Ok(met) => read(met),
                Err(_) => return,
            }
        }
    });
}

/// Path below the mount point, if the file is in the tree.
fn path_of(stub: &FdStub, namespace: &Path) -> String {
    let path = stub.path().unwrap_or_default();
    let real = namespace.canonicalize().unwrap_or_else(|_| namespace.to_owned());
    let below = path.strip_prefix(real.join("tree")).or(path.strip_prefix(real)).unwrap_or(&path);
    String::from_utf8_lossy(below.as_os_str().as_bytes()).into_owned()
}
