//! A file of a checkpoint that somebody writes: who has it open here and on other nodes, and what is missing of it.

use crate::file::{Access, ByteRanges, File, Resume};
use parking_lot::Mutex;
use policy::burst::credit::Credit;
use policy::cluster::Node;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// An open file that belongs to a checkpoint.
pub struct OpenCheckpoint {
    /// Whose, by name.
    pub app: String,
    /// Of which version, as the application names it.
    pub label: String,
    /// Its path.
    pub path: String,
    /// The file.
    pub file: Arc<File>,
    /// Handles that may write, and all.
    pub writers: AtomicUsize,
    pub handles: AtomicUsize,
    /// The request that writes it; 0 while nobody writes.
    pub request: AtomicU64,
    /// Bytes whose latest write failed: without them the version is not complete.
    pub missing: ByteRanges,
    /// Whether it was cut to nothing since it was opened.
    pub emptied: AtomicBool,
    /// What other nodes do with it, by their names: where this node decides.
    pub elsewhere: Mutex<BTreeMap<String, Elsewhere>>,
    /// What this node may write of it: where another decides.
    pub credit: Mutex<Credit>,
    /// Whether it goes straight to the capacity tier, as the node that decides says.
    pub direct: AtomicBool,
    /// When it was opened first: no two of a path are of the same time.
    pub since_ns: u64,
    /// Whether it was opened on this node.
    pub is_of_here: AtomicBool,
    /// The number of its latest state, and of the latest that the node that decides has heard.
    pub stands: AtomicU64,
    pub heard: AtomicU64,
}

/// What a node does with a file of a checkpoint.
#[derive(Debug)]
pub struct Elsewhere {
    /// Its number when it said so.
    pub node: Node,
    /// The number of what it said.
    pub number: (u64, u64),
    /// Whether it may write it.
    pub writes: bool,
    /// Bytes whose latest write failed there.
    pub missing: Vec<Range<u64>>,
}

impl OpenCheckpoint {
    /// Of a file that nobody has open yet.
    pub fn new((app, label): (String, String), path: String, file: Arc<File>) -> OpenCheckpoint {
        OpenCheckpoint {
            app,
            label,
            path,
            file,
            writers: AtomicUsize::new(0),
            handles: AtomicUsize::new(0),
            request: AtomicU64::new(0),
            missing: ByteRanges::default(),
            emptied: AtomicBool::new(false),
            elsewhere: Mutex::default(),
            credit: Mutex::default(),
            direct: AtomicBool::new(false),
            since_ns: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
            is_of_here: AtomicBool::new(false),
            stands: AtomicU64::new(0),
            heard: AtomicU64::new(0),
        }
    }

    /// Whether anybody may write it.
    pub fn is_written(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0 || self.elsewhere.lock().values().any(|of| of.writes)
    }

    /// Whether nobody here has it open, and nobody elsewhere does anything with it.
    pub fn is_unused(&self) -> bool {
        let no_handles = [&self.handles, &self.writers].iter().all(|n| n.load(Ordering::Acquire) == 0);
        no_handles && self.elsewhere.lock().is_empty()
    }

    /// Something about it is to be told to the node that decides.
    pub fn changes(&self) {
        self.stands.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the node that decides has heard how it stands.
    pub fn is_known(&self) -> bool {
        self.heard.load(Ordering::Acquire) == self.stands.load(Ordering::Acquire)
    }

    /// That request writes it no more. Another may do so already.
    pub fn leave(&self, request: u64) {
        // What stands there otherwise is the other one.
        let _ = self.request.compare_exchange(request, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether every write of it went well in the end.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.elsewhere.lock().values().all(|of| of.missing.is_empty())
    }

    /// Takes the place of who wrote the same file before.
    pub fn follow(&self, before: &OpenCheckpoint) {
        if !self.emptied.load(Ordering::Acquire) {
            before.missing.ranges().into_iter().for_each(|range| self.missing.add(range.start, range.end));
        }
    }

    /// The same `resume`, which sees what fails.
    pub fn watched(self: Arc<Self>, access: Access, resume: Resume) -> Resume {
        Box::new(move |verdict| {
            if verdict.is_err() {
                self.missing.add(access.offset, access.offset + access.len);
            }
            resume(verdict);
        })
    }
}
