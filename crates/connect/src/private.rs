//! Mounts in a private namespace: made by threads that enter a mount namespace of their own, and reached through open
//! directories.
//!
//! ```text
//!   the host's namespace          /mnt/scratch    our FUSE mount, the only one that is seen
//!   the private one, below it     DIR/0 DIR/1 ..  one mount per connection, on a tmpfs at DIR
//! ```
//! The private namespace is a slave of the host's: mounts and unmounts of the host propagate to it, so it keeps no
//! mount of the host busy. Where the host shares no mounts, as in many containers, the namespace holds permanent
//! copies of them. Copies of our own mount points are detached at once, since their processes would wait for the end
//! of the copy. When this process ends in any way, a shell that waits on a pipe unmounts the rest.

use crate::client::Client;
use crate::mounts::Mounts;
use crate::recipe::Recipe;
use node::mount::mountpoint::of_kind;
use object::workers::apart;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit of a mount command.
const MOUNT_PATIENCE: Duration = Duration::from_secs(30);
/// Interval of checks whether the mount command has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Limit of the bytes that are read of a mount command's error output.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// Prefix of the types of our own file systems.
const OURS: &str = "fuse.entrepot";

/// The private mount namespace.
pub struct Private {
    recipe: Recipe,
    dir: PathBuf,
    /// The namespace, which lives as long as this or a mount command.
    namespace: Arc<OwnedFd>,
    /// Shell that cleans up when its standard input ends with this process.
    cleaner: Child,
    connections: u16,
}

impl Private {
    /// Makes the namespace, with a directory for each connection. Needs root.
    pub fn new(recipe: Recipe, connections: u16) -> io::Result<Private> {
        let dir = place()?;
        let (at, servers) = (dir.clone(), recipe.servers.clone());
        // SAFETY: only the namespace and, with it, root and working directory are unshared, which nothing here depends on.
        let unshare = || unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
        let prepared = apart_in(unshare, move || prepare(&at, connections, &servers)).flatten();
        let (namespace, cleaner) = prepared.inspect_err(|_| drop(fs::remove_dir(&dir)))?;
        Ok(Private { recipe, dir, namespace: Arc::new(namespace), cleaner, connections })
    }

    /// Runs `act` on a thread in the namespace and waits.
    fn inside<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let namespace = self.namespace.clone();
        let enter = move || {
            // SAFETY: only root and working directory are unshared, which nothing here depends on.
            unsafe { unshare_unsafe(UnshareFlags::FS)? };
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        };
        apart_in(enter, act)
    }

    fn at(&self, number: u16) -> PathBuf {
        self.dir.join(number.to_string())
    }
}

/// Creates a directory for this process only.
fn place() -> io::Result<PathBuf> {
    let below = if Path::new("/run").is_dir() { PathBuf::from("/run") } else { std::env::temp_dir() };
    for number in 0.. {
        let dir = below.join(format!("entrepot-connect-{}-{number}", std::process::id()));
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Ok(()) => return Ok(dir),
            Err(error) => return Err(error),
        }
    }
    unreachable!("numbers do not end")
}

/// Runs `act` on a thread of its own that has entered a namespace, and waits.
fn apart_in<T: Send + 'static>(
    enter: impl FnOnce() -> rustix::io::Result<()> + Send + 'static,
    act: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let acted = apart("mounts", move || enter().map(|()| act()))?;
    Ok(acted.recv().map_err(|_| io::ErrorKind::BrokenPipe)??)
}

/// Prepares the namespace of this thread. Returns it with its cleaner.
fn prepare(dir: &Path, connections: u16, servers: &[String]) -> io::Result<(OwnedFd, Child)> {
    let namespace = open("/proc/thread-self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let_go(servers);
    mount("tmpfs", dir, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0700,size=1m"))?;
    mount_change(dir, MountPropagationFlags::PRIVATE)?;
    for number in 0..connections {
        fs::create_dir(dir.join(number.to_string()))?;
    }
    let script = "trap '' INT TERM HUP; cat >/dev/null; n=0; while [ $n -lt $2 ]; do umount -l \"$1/$n\"; n=$((n+1)); done; umount -l \"$1\"; rmdir \"$1\"";
    let mut cleaner = Command::new("sh");
    cleaner.args(["-c", script, "entrepot-connect"]).arg(dir).arg(connections.to_string());
    cleaner.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    Ok((namespace, cleaner.spawn()?))
}

impl Mounts for Private {
    fn mount(&self, number: u16) -> io::Result<OwnedFd> {
        let (recipe, at) = (self.recipe.clone(), self.at(number));
        self.inside(move || {
            run(recipe.command(number, &at))?;
            let root = open(&at, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            root.map_err(io::Error::from).inspect_err(|_| take_out(&at, recipe.may_force()))
        })?
    }

    fn take_out(&self, number: u16) {
        let (at, force) = (self.at(number), self.recipe.may_force());
        if let Err(error) = self.inside(move || take_out(&at, force)) {
            tracing::error!(%error, number, "a connection cannot be unmounted");
        }
    }

    fn client(&self, number: u16) -> io::Result<Arc<dyn Client>> {
        self.recipe.client(number)
    }

    fn source(&self, number: u16) -> String {
        self.recipe.server(number).to_owned()
    }
}

/// Detaches this namespace's copies of our mount points, except those above a server (a directory).
fn let_go(servers: &[String]) {
    let mut inner_first = of_kind(OURS);
    inner_first.reverse();
    for at in inner_first {
        if !servers.iter().any(|server| Path::new(server).starts_with(&at))
            && let Err(error) = unmount(&at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        {
            tracing::debug!(%error, at = %at.display(), "a copy of a mount point stays in the private namespace");
        }
    }
}

/// Runs a mount command until it ends or its time limit passes.
fn run(mut command: Command) -> io::Result<()> {
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    let until = Instant::now() + MOUNT_PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= until {
            drop(child.kill());
            drop(child.wait());
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{program} did not end within {MOUNT_PATIENCE:?}"),
            ));
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(());
    }
    let mut errors = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(COMPLAINT_BYTES_MAX).read_to_end(&mut errors));
    }
    let errors = String::from_utf8_lossy(&errors);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it reports no cause");
    Err(io::Error::other(format!("{program}: {status}: {}", last.trim())))
}

/// Unmounts by force, so that operations that hang return, and then detaches. A path that is not mounted is no error.
fn take_out(at: &Path, force: bool) {
    if force {
        let _ = unmount(at, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW);
    }
    let _ = unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
}

impl Drop for Private {
    fn drop(&mut self) {
        for number in 0..self.connections {
            self.take_out(number);
        }
        drop(self.cleaner.stdin.take()); // the shell unmounts the rest and removes the directory
        if let Err(error) = self.cleaner.wait() {
            tracing::warn!(%error, dir = %self.dir.display(), "the cleanup process of the connections did not end");
        }
    }
}
