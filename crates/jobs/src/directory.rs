//! Directories in the volume that a script for DataWarp finds by its variables. They are created when the job gets its
//! number; the job's own one is removed when its results have been sent.
//!
//! ```text
//! MOUNT/.datawarp/job-7/striped        the job's, mode 0700, its owner's
//! MOUNT/.datawarp/persistent/NAME      made by #BB create_persistent, used by users that its owner admits
//! ```
//! All calls are relative to descriptors of directories that only the daemon's user can change, so a link cannot
//! redirect them.

use crate::directives::datawarp::{self, PERSISTENT, PRIVATE, STRIPED};
use crate::error::{Error, Result};
use crate::request::{Caller, Complaint, DataWarp, JobDirectory, Plan};
use crate::volume::Volume;
use rustix::fs::{Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Parent of all directories of jobs, at the top of the volume.
const TOP: &str = ".datawarp";
/// Directory of the persistent directories.
const KEPT: &str = "persistent";

/// Number of nodes of the job, which decides about node-local directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The job runs on one node.
    One,
    /// Another scheduler chooses the number.
    Any,
}

/// The variables of a job's own directory, each with the last part of its path.
pub fn variables_of(own: &JobDirectory) -> impl Iterator<Item = (&'static str, &'static str)> {
    let striped = own.striped.then_some((STRIPED, "striped"));
    striped.into_iter().chain(own.private.then_some((PRIVATE, "private")))
}

/// Variables that name the created directories for a script.
pub fn variables(datawarp: &DataWarp) -> Vec<(String, String)> {
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let own = datawarp.own.iter().flat_map(|own| {
        let path = own.path.clone().unwrap_or_default();
        variables_of(own).map(move |(name, last)| (name.to_string(), shown(&path.join(last))))
    });
    let kept =
        datawarp.persistent.iter().filter_map(|one| Some((format!("{PERSISTENT}{}", one.name), one.path.as_deref()?)));
    own.chain(kept.map(|(name, path)| (name, shown(path)))).collect()
}

/// Creates the directories that a plan requests and puts their paths into its commands. `job` is the volume's name of
/// the job.
///
/// # Errors
/// All lines that cannot be satisfied, or the error of the volume; then the job's own directory is not there.
pub fn give(volume: &dyn Volume, owner: Caller, job: &str, nodes: Nodes, plan: &mut Plan) -> Result<()> {
    if plan.datawarp.is_empty() {
        return Ok(());
    }
    let mount = volume.mount_point().ok_or_else(|| Error::World("the volume is not mounted".into()))?;
    let complaints = wrong(volume, nodes, &plan.datawarp);
    if !complaints.is_empty() {
        return Err(Error::Script(complaints));
    }
    let failed =
        |path: &Path, e: Errno| Error::World(format!("{} cannot be made: {e}; nothing was queued", path.display()));
    let at = mount.join(TOP);
    let top = make_ours(rustix::fs::CWD, &at).map_err(|e| failed(&at, e))?;
    persistent(&top, &at, owner, plan)?;
    if let Some(own) = &mut plan.datawarp.own {
        let name = job.replace(' ', "-");
        let path = at.join(&name);
        let made = make(&top, &name, owner)
            .and_then(|dir| variables_of(own).try_for_each(|(_, last)| make(&dir, last, owner).map(drop)));
        own.path = Some(path.clone());
        if let Err(error) = made {
            remove(&plan.datawarp);
            return Err(failed(&path, error));
        }
    }
    put_paths(plan);
    Ok(())
}

/// Requests that cannot be satisfied: more space than is free, and a separate directory for each of several nodes.
fn wrong(volume: &dyn Volume, nodes: Nodes, datawarp: &DataWarp) -> Vec<Complaint> {
    let own = datawarp.own.iter().map(|own| (own.line, own.capacity_bytes));
    let made = datawarp.persistent.iter().filter_map(|one| Some((one.line, one.create_bytes?)));
    let free = volume.free_bytes().unwrap_or(u64::MAX);
    let shown = policy::units::show_bytes;
    let too_much = own.chain(made).filter(|(_, asked)| *asked > free).map(|(line, asked)| Complaint {
        line,
        cause: format!("it asks for {}, and {} are free in the volume", shown(asked), shown(free)),
        mend: "ask for less, or submit again when there is room".into(),
    });
    let private = datawarp.own.iter().filter(|own| own.private && nodes == Nodes::Any).map(|own| Complaint {
        line: own.line,
        cause:
            "access_mode=private gives each node a directory of its own, which only the built-in runner supports: it \
             has one"
                .into(),
        mend: "write access_mode=striped, and a name of its own for each node: $DW_JOB_STRIPED/$(hostname)".into(),
    });
    too_much.chain(private).collect()
}

fn persistent(top: &OwnedFd, at: &Path, owner: Caller, plan: &mut Plan) -> Result<()> {
    if plan.datawarp.persistent.is_empty() {
        return Ok(());
    }
    let at = at.join(KEPT);
    let kept =
        make_ours(top, Path::new(KEPT)).map_err(|e| Error::World(format!("{} cannot be made: {e}", at.display())))?;
    let mut complaints = Vec::new();
    for one in &mut plan.datawarp.persistent {
        let path = at.join(&one.name);
        let had = match one.create_bytes {
            Some(_) => make(&kept, &one.name, owner),
            None => open(&kept, Path::new(&one.name)),
        };
        if let Err(error) = had {
            let cause = match (error, one.create_bytes) {
                (Errno::NOENT, None) => format!("there is no directory {}", path.display()),
                (Errno::EXIST, _) => format!("{} is another user's", path.display()),
                _ => format!("{}: {error}", path.display()),
            };
            let mend = match one.create_bytes {
                Some(_) => "choose another name".to_string(),
                None => format!("write #BB create_persistent name={} capacity=SIZE first", one.name),
            };
            complaints.push(Complaint { line: one.line, cause, mend });
        }
        one.path = Some(path);
    }
    if complaints.is_empty() { Ok(()) } else { Err(Error::Script(complaints)) }
}

/// Replaces variables at the beginning of words of a plan's commands by paths.
fn put_paths(plan: &mut Plan) {
    let known = variables(&plan.datawarp);
    let words = plan.parts.iter_mut().flat_map(|part| &mut part.commands).flat_map(|command| &mut command.argv);
    for word in words {
        let path = datawarp::variable(word).and_then(|(name, rest)| {
            known.iter().find(|(known, _)| known == name).map(|(_, path)| format!("{path}{rest}"))
        });
        if let Some(path) = path {
            *word = path;
        }
    }
}

/// Removes a job's own directory with all in it; failure is logged.
pub fn remove(datawarp: &DataWarp) {
    if let Err(error) = try_to_remove(datawarp) {
        tracing::warn!("the directory of a job that is over cannot be removed: {error}");
    }
}

/// Removes the directory if it can be reached: the volume may not be mounted yet. A missing one is no error.
pub fn try_to_remove(datawarp: &DataWarp) -> std::io::Result<()> {
    let path = datawarp.own.as_ref().and_then(|own| own.path.as_deref());
    let Some((at, name)) = path.and_then(|path| path.parent().zip(path.file_name())) else { return Ok(()) };
    let top = open(rustix::fs::CWD, at)?;
    is_ours(&top)?;
    match std::fs::remove_dir_all(Path::new(&object::host::descriptor_path(&top)).join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Note for the owner about a directory of the job that is kept.
pub fn kept(datawarp: &DataWarp) -> Option<String> {
    let path = datawarp.own.as_ref()?.path.as_ref()?;
    Some(format!("its directory {} is kept: remove it when you need it no longer", path.display()))
}

fn open(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// Opens or creates a directory that only the daemon's user changes and all may traverse.
fn make_ours(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    match rustix::fs::mkdirat(&at, path, Mode::from_raw_mode(0o711)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let dir = open(at, path)?;
    is_ours(&dir)?;
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o711))?;
    Ok(dir)
}

fn is_ours(dir: &OwnedFd) -> Result<(), Errno> {
    let is_ours = rustix::fs::fstat(dir)?.st_uid == rustix::process::geteuid().as_raw();
    if is_ours { Ok(()) } else { Err(Errno::PERM) }
}

/// Opens or creates a directory of that user.
fn make(at: &OwnedFd, name: &str, owner: Caller) -> Result<OwnedFd, Errno> {
    let made = rustix::fs::mkdirat(at, name, Mode::RWXU);
    if let Err(error) = made
        && error != Errno::EXIST
    {
        return Err(error);
    }
    let dir = open(at, Path::new(name))?;
    if made.is_ok() && rustix::process::geteuid().is_root() {
        rustix::fs::fchown(&dir, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
    }
    let is_theirs = made.is_ok() || rustix::fs::fstat(&dir)?.st_uid == owner.uid;
    if is_theirs { Ok(dir) } else { Err(Errno::EXIST) }
}
