//! The files in `NAMESPACE/nodes`.
//!
//! ```text
//!   nodes/join     locked while a node opens the volume: `volume::joining`
//!   nodes/new.ID   a future lease; its text describes the node
//!   nodes/N        number N was taken: a symlink to that file. Made once, and it stays
//!   nodes/N.B      the lease of node N after B renewals
//!   nodes/N.over   node N is over
//!   nodes/locks    each node has the byte of its number locked: `locks`
//!   nodes/past.ID  many nodes that are over, whose two names lie in nodes/past: `past`
//! ```

use super::links::Contact;
use super::past::Folded;
use crate::{Error, Result};
use engine::volume::{NODE_FORMAT, nodes_directory};
use object::volume_id::unique;
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::Node;
use policy::cluster::lease::{Config, Seen};
use rustix::fd::OwnedFd;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;

pub(super) const OVER: &str = "over";
/// Directory of the names of folded nodes, and prefix of the files with their numbers.
pub(super) const PAST: &str = "past";
/// Size limit of the text of a lease.
const TEXT_BYTES_MAX: u64 = 16 << 10;

/// Text of a lease: description of its node.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Info {
    /// Format of the node, which other nodes read from the text before they join.
    #[serde(default)]
    pub format: u32,
    /// Name of the host that holds the lease.
    pub host: String,
    /// Process number of its daemon.
    pub pid: u32,
    /// Mount point of the volume.
    pub mount_point: String,
    /// Join time, in milliseconds since 1970.
    pub since_ms: u64,
    /// Epoch: the upper half of the numbers of its objects.
    pub epoch: u32,
    /// Duration of its lease, in milliseconds.
    pub lease_ms: u64,
    /// Whether the node is to be shut down, so that it does not lead.
    #[serde(default)]
    pub drains: bool,
    /// Random name in its state directory. The lock of that directory makes it unique among live nodes.
    pub own: String,
    /// Addresses and key for connections of other nodes; empty for a node that ended before format 6.
    #[serde(default)]
    pub contact: Contact,
}

impl Info {
    /// Describes this process.
    pub fn of_this(mount_point: &Path, own: String, epoch: u32, contact: Contact) -> Info {
        Info {
            format: NODE_FORMAT,
            host: object::host::name(),
            pid: std::process::id(),
            mount_point: mount_point.display().to_string(),
            since_ms: object::now_ms(),
            epoch,
            lease_ms: Config::default().lease.0 / 1_000_000,
            drains: false,
            own,
            contact,
        }
    }
}

/// Operations on the lease files.
pub(super) struct Leases {
    pub(super) directory: OwnedFd,
    known: Mutex<BTreeMap<Node, Info>>,
    pub(super) folded: Mutex<Folded>,
}

pub(super) struct Listing {
    /// Last number that was taken.
    pub last: Option<Node>,
    pub leases: Vec<Seen>,
    pub over: Vec<Node>,
}

fn lease(node: Node, beat: u64) -> String {
    format!("{}.{beat}", node.0)
}

impl Leases {
    pub fn open(namespace: &Path) -> Result<Leases> {
        Ok(Leases { directory: nodes_directory(namespace)?, known: Mutex::default(), folded: Mutex::default() })
    }

    /// Takes the number after the last, and its lease, whose durations depend on the number of other nodes.
    pub fn claim(&self, info: &Info) -> Result<(Node, Config)> {
        loop {
            let listing = self.list()?;
            self.end_earlier(&listing, info)?;
            let config = Config::default().beside(listing.leases.len());
            let info = Info { lease_ms: config.lease.0 / 1_000_000, ..info.clone() };
            let text = serde_json::to_vec(&info).map_err(|error| Error::State(error.to_string()))?;
            let new = format!("new.{}", unique()?);
            self.create(&new, &text)?;
            let mut node = Node(listing.last.map_or(1, |last| last.0 + 1));
            while !self.take(node, &new)? {
                node.0 += 1;
            }
            // The rename fails if another node waited too long for this number and ended it.
            if self.rename(&new, &lease(node, 0))? {
                self.known.lock().insert(node, info);
                return Ok((node, config));
            }
        }
    }

    /// Creates a file with this text, durable on return.
    pub(super) fn create(&self, name: &str, text: &[u8]) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = std::fs::File::from(fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file.write_all(text).and_then(|()| file.sync_all());
        written.map_err(|error| Error::State(format!("nodes/{name}: {error}")))
    }

    /// Takes a number for a future lease. Returns false if it is taken.
    pub(super) fn take(&self, node: Node, new: &str) -> Result<bool> {
        match fs::symlinkat(new, &self.directory, node.0.to_string()) {
            // Another node took the number, and it was folded after the listing.
            Ok(()) if self.is_folded(node)? => {
                fs::unlinkat(&self.directory, node.0.to_string(), AtFlags::empty())?;
                Ok(false)
            }
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Ends the leases of an earlier daemon with this state directory: it is dead, since this one has the directory's
    /// lock.
    fn end_earlier(&self, listing: &Listing, info: &Info) -> Result<()> {
        for seen in &listing.leases {
            if self.info(seen.node).is_some_and(|there| there.own == info.own) {
                self.expel(seen.node, Some(seen.beat))?;
            }
        }
        Ok(())
    }

    /// Renames a lease to its next beat. Returns false if it has another name.
    pub fn renew(&self, node: Node, beat: u64) -> Result<bool, Errno> {
        self.rename(&lease(node, beat), &lease(node, beat + 1))
    }

    /// Ends exactly this lease, or without a beat the future one. Returns false if it has another name.
    pub fn expel(&self, node: Node, beat: Option<u64>) -> Result<bool, Errno> {
        let from = match beat {
            Some(beat) => lease(node, beat),
            None => match fs::readlinkat(&self.directory, node.0.to_string(), Vec::new()) {
                Ok(new) => new.into_string().map_err(|_| Errno::BADMSG)?,
                Err(Errno::NOENT) if self.is_folded(node)? => return Ok(true),
                Err(errno) => return Err(errno),
            },
        };
        self.rename(&from, &format!("{}.{OVER}", node.0))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<bool, Errno> {
        match fs::renameat(&self.directory, from, &self.directory, to) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub fn list(&self) -> Result<Listing, Errno> {
        let mut listing = Listing { last: None, leases: Vec::new(), over: Vec::new() };
        let (mut beats, mut files): (Vec<(Node, u64)>, _) = (Vec::new(), BTreeSet::new());
        for entry in fs::Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (node, beat) = name.split_once('.').unwrap_or((&name, ""));
            if node == PAST {
                files.insert(name);
                continue;
            }
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
        // A lease whose text is unreadable now was just renamed, and the next listing has it.
        listing.leases = beats.into_iter().filter_map(read).collect();
        let past = self.look_at_past(files, &listing.over);
        listing.last = listing.last.max(past.last());
        // A node whose names a fold has not moved yet is in both.
        let over: BTreeSet<Node> = listing.over.iter().copied().chain(past.nodes()).collect();
        self.known.lock().retain(|node, _| !over.contains(node));
        listing.over = over.into_iter().collect();
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
        serde_json::from_str(&self.text(name, TEXT_BYTES_MAX)?).ok()
    }

    pub(super) fn text(&self, name: &str, bytes_max: u64) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let mut text = String::new();
        std::fs::File::from(file).take(bytes_max).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Texts of nodes that are over. A node whose lease never began has none.
    pub fn of_over(&self) -> Result<Vec<(Node, Info)>, Errno> {
        let over = self.list()?.over;
        let read = |node: Node| Some((node, self.info_of_over(node)?));
        Ok(over.into_iter().filter_map(read).collect())
    }

    /// Whether a node that is over had that epoch.
    pub fn is_of_over(&self, epoch: u32) -> bool {
        self.of_over().is_ok_and(|over| over.iter().any(|(_, info)| info.epoch == epoch))
    }

    /// Text of a node that is over.
    pub fn info_of_over(&self, node: Node) -> Option<Info> {
        let name = format!("{}.{OVER}", node.0);
        self.text_of(&name).or_else(|| self.text_of(&format!("{PAST}/{name}")))
    }

    /// Text of the live node of which this holds, from the cache. The last number of a node counts.
    pub fn find(&self, holds: impl Fn(&Info) -> bool) -> Option<Info> {
        self.known.lock().values().rev().find(|info| holds(info)).cloned()
    }

    /// Text of a live node, from the cache.
    pub fn info(&self, node: Node) -> Option<Info> {
        self.known.lock().get(&node).cloned()
    }
}
