//! The files in `NAMESPACE/nodes`.
//!
//! ```text
//!   nodes/join     locked by whoever opens the volume: `volume::joining`
//!   nodes/new.ID   a lease to be; its text says whose it is
//!   nodes/N        number N was taken: a symlink to that file. Made once, and it stays
//!   nodes/N.B      the lease of node N after B renewals
//!   nodes/N.over   node N is over
//! ```

use crate::volume::{nodes_directory, random};
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::Node;
use policy::cluster::lease::Seen;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

const OVER: &str = "over";
/// The text of a lease is no longer.
const TEXT_BYTES_MAX: u64 = 16 << 10;

/// What a node says of itself.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Info {
    /// Its host's name.
    pub host: String,
    /// Its daemon.
    pub pid: u32,
    /// Where it shows the volume.
    pub mount_point: String,
    /// When it joined, in milliseconds since 1970.
    pub since_ms: u64,
    /// The upper half of the numbers of its objects.
    pub epoch: u32,
    /// How long its lease lasts, in milliseconds.
    pub lease_ms: u64,
    /// It is to be shut down: it does not lead.
    #[serde(default)]
    pub drains: bool,
    /// Its state directory, by the random name in it: who has that locked is the only one alive that says so.
    pub own: String,
}

impl Info {
    /// Of this process.
    pub fn of_this(mount_point: &Path, own: String, epoch: u32) -> Info {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Info {
            host: host.trim().to_owned(),
            pid: std::process::id(),
            mount_point: mount_point.display().to_string(),
            since_ms: since.as_millis() as u64,
            epoch,
            lease_ms: super::keeper::config().lease.0 / 1_000_000,
            drains: false,
            own,
        }
    }
}

/// What is done to the files.
pub(super) struct Leases {
    directory: OwnedFd,
    known: Mutex<BTreeMap<Node, Info>>,
}

/// A listing.
pub(super) struct Listing {
    /// The last number that was taken.
    pub last: Option<Node>,
    pub leases: Vec<Seen>,
    pub over: Vec<Node>,
}

fn lease(node: Node, beat: u64) -> String {
    format!("{}.{beat}", node.0)
}

impl Leases {
    pub fn open(namespace: &Path) -> Result<Leases> {
        Ok(Leases { directory: nodes_directory(namespace)?, known: Mutex::default() })
    }

    /// Takes the number after the last, and its lease.
    pub fn claim(&self, info: &Info) -> Result<Node> {
        let text = serde_json::to_vec(info).map_err(|error| Error::State(error.to_string()))?;
        loop {
            let listing = self.list()?;
            self.end_earlier(&listing, info)?;
            let new = format!("new.{}", random()?);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = fs::openat(&self.directory, &new, flags, Mode::RUSR | Mode::WUSR)?;
            let mut file = std::fs::File::from(file);
            file.write_all(&text).and_then(|()| file.sync_all()).map_err(|error| Error::State(error.to_string()))?;
            let mut node = Node(listing.last.map_or(1, |last| last.0 + 1));
            while !self.take(node, &new)? {
                node.0 += 1;
            }
            // Who waited for this number for too long has ended it.
            if self.rename(&new, &lease(node, 0))? {
                self.known.lock().insert(node, info.clone());
                return Ok(node);
            }
        }
    }

    /// Takes a number for a lease to be; no if it is taken.
    fn take(&self, node: Node, new: &str) -> Result<bool> {
        match fs::symlinkat(new, &self.directory, node.0.to_string()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Ends what an earlier daemon with this state directory left: it is dead, since this one has the directory's lock.
    fn end_earlier(&self, listing: &Listing, info: &Info) -> Result<()> {
        for seen in &listing.leases {
            if self.info(seen.node).is_some_and(|there| there.own == info.own) {
                self.expel(seen.node, Some(seen.beat))?;
            }
        }
        Ok(())
    }

    /// Renames a lease to its next beat; no if it has another name.
    pub fn renew(&self, node: Node, beat: u64) -> Result<bool, Errno> {
        self.rename(&lease(node, beat), &lease(node, beat + 1))
    }

    /// Ends exactly this lease, or without a beat the one that is to be; no if it has another name.
    pub fn expel(&self, node: Node, beat: Option<u64>) -> Result<bool, Errno> {
        let from = match beat {
            Some(beat) => lease(node, beat),
            None => fs::readlinkat(&self.directory, node.0.to_string(), Vec::new())?
                .into_string()
                .map_err(|_| Errno::BADMSG)?,
        };
        self.rename(&from, &format!("{}.{OVER}", node.0))
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool, Errno> {
        match fs::renameat(&self.directory, from, &self.directory, to) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub fn list(&self) -> Result<Listing, Errno> {
        let mut listing = Listing { last: None, leases: Vec::new(), over: Vec::new() };
        let mut beats: Vec<(Node, u64)> = Vec::new();
        for entry in fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (node, beat) = name.split_once('.').unwrap_or((&name, ""));
            let Ok(node) = node.parse().map(Node) else { continue };
            listing.last = listing.last.max(Some(node));
            match (beat, beat.parse()) {
                (OVER, _) => listing.over.push(node),
                (_, Ok(beat)) => beats.push((node, beat)),
                _ => {}
            }
        }
        let read = |(node, beat)| {
            let info = self.read(node, beat)?;
            Some(Seen { node, beat, lease: Time::from_millis(info.lease_ms), drains: info.drains })
        };
        // One whose text cannot be read now was renamed meanwhile, and is seen the next time.
        listing.leases = beats.into_iter().filter_map(read).collect();
        self.known.lock().retain(|node, _| !listing.over.contains(node));
        Ok(listing)
    }

    fn read(&self, node: Node, beat: u64) -> Option<Info> {
        if let Some(known) = self.info(node) {
            return Some(known);
        }
        let info = self.text_of(&lease(node, beat))?;
        self.known.lock().insert(node, info.clone());
        Some(info)
    }

    fn text_of(&self, name: &str) -> Option<Info> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let mut text = String::new();
        std::fs::File::from(file).take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// What nodes that are over said of themselves; one that was never born said nothing.
    pub fn of_over(&self) -> Result<Vec<(Node, Info)>, Errno> {
        let over = self.list()?.over;
        let read = |node: Node| Some((node, self.text_of(&format!("{}.{OVER}", node.0))?));
        Ok(over.into_iter().filter_map(read).collect())
    }

    /// What a node said of itself.
    pub fn info(&self, node: Node) -> Option<Info> {
        self.known.lock().get(&node).cloned()
    }
}
