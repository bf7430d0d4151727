//! A checkpoint's file that is open for writing: its handles here and on other nodes, and its missing ranges.

use engine::file::{Access, ByteRanges, File, Resume};
use parking_lot::Mutex;
use policy::burst::credit::Credit;
use policy::cluster::Node;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A file of a checkpoint, with the open handles that the buffer counts.
pub struct OpenCheckpoint {
    /// Name of the application.
    pub app: String,
    /// Label of the version, as chosen by the application.
    pub label: String,
    /// Path of the file below the mount.
    pub path: String,
    /// File that is written.
    pub file: Arc<File>,
    /// Number of handles that may write, and of all handles.
    pub writers: AtomicUsize,
    pub handles: AtomicUsize,
    /// Number of the request that writes the file; 0 while it is not written.
    pub request: AtomicU64,
    /// Bytes whose latest write failed. The version is incomplete without them.
    pub missing: ByteRanges,
    /// Reason for the latest failure.
    why_missing: Mutex<String>,
    /// Whether the file was truncated to nothing since it was opened.
    pub emptied: AtomicBool,
    /// On the deciding node: states of the file on other nodes, by node name.
    pub elsewhere: Mutex<BTreeMap<String, Elsewhere>>,
    /// On other nodes: bytes that may be written without a further request.
    pub credit: Mutex<Credit>,
    /// Number of the latest call that requests more; 0: none.
    pub asks: AtomicU64,
    /// Whether the file goes straight to the capacity tier, as the deciding node chose.
    pub direct: AtomicBool,
    /// Time of the first open; unique among the entries of a path.
    pub since_ns: u64,
    /// Whether the file was opened on this node.
    pub is_of_here: AtomicBool,
    /// Number of the file's latest state, and of the latest state that the deciding node has acknowledged.
    pub stands: AtomicU64,
    pub heard: AtomicU64,
    /// On other nodes: whether a write went on without an answer. The overwritten version may still be recorded, until
    /// the deciding node acknowledges the state.
    pub unasked: AtomicBool,
}

/// State of a checkpoint's file on another node.
#[derive(Debug)]
pub struct Elsewhere {
    /// Number of the node at its report.
    pub node: Node,
    /// Number of the report.
    pub number: (u64, u64),
    /// Whether that node may write the file.
    pub writes: bool,
    /// Bytes whose latest write failed there.
    pub missing: Vec<Range<u64>>,
}

impl OpenCheckpoint {
    /// Creates the entry of a file without open handles.
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
            why_missing: Mutex::default(),
            emptied: AtomicBool::new(false),
            elsewhere: Mutex::default(),
            credit: Mutex::default(),
            asks: AtomicU64::new(0),
            direct: AtomicBool::new(false),
            since_ns: object::since_1970().as_nanos() as u64,
            is_of_here: AtomicBool::new(false),
            stands: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            unasked: AtomicBool::new(false),
        }
    }

    /// Whether any node may write the file.
    pub fn is_written(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0 || self.elsewhere.lock().values().any(|of| of.writes)
    }

    /// Whether no node has the file open.
    pub fn is_unused(&self) -> bool {
        let no_handles = [&self.handles, &self.writers].iter().all(|n| n.load(Ordering::Acquire) == 0);
        no_handles && self.elsewhere.lock().is_empty()
    }

    /// Marks a change of state that the node that decides has to receive.
    pub fn changes(&self) {
        self.stands.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the node that decides has acknowledged the latest state.
    pub fn is_known(&self) -> bool {
        self.heard.load(Ordering::Acquire) == self.stands.load(Ordering::Acquire)
    }

    /// Detaches the file from a request that ended, unless another request already writes it.
    pub fn leave(&self, request: u64) {
        // A different number is that of the other request.
        let _ = self.request.compare_exchange(request, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether the latest write of every byte succeeded.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.elsewhere.lock().values().all(|of| of.missing.is_empty())
    }

    /// Records a failed write.
    pub fn lacks(&self, access: Access, why: &str) {
        self.missing.add(access.offset, access.offset + access.len);
        why.clone_into(&mut self.why_missing.lock());
    }

    /// Reason why the file is incomplete, with its path; `None` if it is complete.
    pub fn lack(&self) -> Option<String> {
        let why = match &*self.why_missing.lock() {
            why if self.missing.is_empty() || why.is_empty() => "on the node that wrote it".to_owned(),
            why => why.clone(),
        };
        (!self.is_whole()).then(|| format!("a write of {} failed: {why}", self.path))
    }

    /// Takes over the failures of the earlier entry of the same file.
    pub fn follow(&self, before: &OpenCheckpoint) {
        if !self.emptied.load(Ordering::Acquire) {
            before.missing.ranges().into_iter().for_each(|range| self.missing.add(range.start, range.end));
            self.why_missing.lock().clone_from(&before.why_missing.lock());
        }
    }

    /// Wraps `resume` so that a failed write is recorded.
    pub fn watched(self: Arc<Self>, access: Access, resume: Resume) -> Resume {
        Box::new(move |verdict| {
            if let Err(error) = &verdict {
                self.lacks(access, &error.to_string());
            }
            resume(verdict);
        })
    }
}
