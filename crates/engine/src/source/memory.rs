//! Sources in memory with injected failures, for tests.

use super::{Entry, EntryKind, Identity, Opener, Result, Source, SourceError, Started, Upload, Version};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pseudo-random bytes, different for each seed.
pub fn data(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// One file at a source, with its behaviour.
#[derive(Default)]
pub struct Remote {
    state: Mutex<RemoteState>,
    bell: Condvar,
}

#[derive(Default)]
struct RemoteState {
    bytes: Vec<u8>,
    generation: u64,
    no_ranges: bool,
    untold: bool,
    fails: Option<SourceError>,
    fail_after: Option<usize>,
    gate: Option<usize>,
    reads: Vec<(u64, usize)>,
}

impl Remote {
    /// Replaces the bytes and changes the version.
    pub fn put(&self, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        state.bytes = bytes;
        state.generation += 1;
    }

    /// Changes a byte and keeps the version.
    pub fn rot(&self, offset: usize) {
        self.state.lock().bytes[offset] ^= 1;
    }

    /// Makes every later read fail with `error`.
    pub fn fail(&self, error: Option<SourceError>) {
        self.state.lock().fails = error;
    }

    /// Makes every read after the next `reads` ones fail with a passing error.
    pub fn fail_after(&self, reads: usize) {
        self.state.lock().fail_after = Some(reads);
    }

    /// Makes the source serve no ranges.
    pub fn without_ranges(&self) {
        self.state.lock().no_ranges = true;
    }

    /// Removes tag and time from the version, as with servers that generate pages on request.
    pub fn without_versions(&self) {
        self.state.lock().untold = true;
    }

    /// Lets `after` more reads through, then blocks until [`Remote::open_gate`].
    pub fn close_gate(&self, after: usize) {
        self.state.lock().gate = Some(after);
    }

    /// Lets all reads through again.
    pub fn open_gate(&self) {
        self.state.lock().gate = None;
        self.bell.notify_all();
    }

    /// Offsets and lengths of all reads so far, in order.
    pub fn reads(&self) -> Vec<(u64, usize)> {
        self.state.lock().reads.clone()
    }

    fn version(&self) -> Version {
        let state = self.state.lock();
        let etag = (!state.untold).then(|| format!("\"{}\"", state.generation));
        Version { size: state.bytes.len() as u64, etag, modified_ns: None }
    }
}

impl Source for Arc<Remote> {
    fn stat(&self) -> Result<Version> {
        if let Some(error) = &self.state.lock().fails {
            return Err(error.clone());
        }
        Ok(self.version())
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        let mut state = self.state.lock();
        state.reads.push((offset, buf.len()));
        self.bell.wait_while(&mut state, |s| s.gate == Some(0));
        if let Some(left) = &mut state.gate {
            *left -= 1;
        }
        if let Some(left) = &mut state.fail_after {
            if *left == 0 {
                return Err(SourceError::Passing("told to fail".into()));
            }
            *left -= 1;
        }
        if let Some(error) = &state.fails {
            return Err(error.clone());
        }
        if state.no_ranges {
            return Err(SourceError::Permanent("no ranges".into()));
        }
        let now = format!("\"{}\"", state.generation);
        if version.etag.as_ref().is_some_and(|tag| *tag != now) || version.size != state.bytes.len() as u64 {
            return Err(SourceError::Changed("another version".into()));
        }
        buf.copy_from_slice(&state.bytes[offset as usize..offset as usize + buf.len()]);
        arrived.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        if *version != self.stat()? {
            return Err(SourceError::Changed("another version".into()));
        }
        let bytes = {
            let mut state = self.state.lock();
            let len = state.bytes.len();
            state.reads.push((0, len));
            state.bytes.clone()
        };
        for block in bytes.chunks(100_003) {
            if !each(block) {
                break;
            }
        }
        Ok(())
    }

    fn has_ranges(&self) -> Result<bool> {
        Ok(!self.state.lock().no_ranges)
    }
}

/// Sources by URI, as `mem://name`.
#[derive(Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, Arc<Remote>>>>,
    links: Mutex<BTreeMap<String, String>>,
    on_append: Arc<Mutex<Option<Hook>>>,
    garbles: AtomicBool,
}

/// A callback before every block of an upload.
pub type Hook = Box<dyn Fn() + Send>;

impl Memory {
    /// Sets the callback that runs before every block of an upload.
    pub fn on_append(&self, hook: Hook) {
        *self.on_append.lock() = Some(hook);
    }

    /// Flips one bit of every later upload at the destination, unnoticed.
    pub fn garble_uploads(&self, garble: bool) {
        self.garbles.store(garble, Ordering::Relaxed);
    }

    /// Adds a source with this URI and these bytes.
    pub fn add(&self, uri: &str, bytes: &[u8]) -> Arc<Remote> {
        let remote = Arc::new(Remote::default());
        remote.put(bytes.to_vec());
        self.files.lock().insert(uri.to_string(), remote.clone());
        remote
    }

    /// Adds a symbolic link below a directory.
    pub fn add_link(&self, uri: &str, to: &str) {
        self.links.lock().insert(uri.to_string(), to.to_string());
    }

    /// The bytes stored at a URI.
    pub fn bytes(&self, uri: &str) -> Option<Vec<u8>> {
        self.files.lock().get(uri).map(|r| r.state.lock().bytes.clone())
    }

    /// URIs of all sources.
    pub fn uris(&self) -> Vec<String> {
        self.files.lock().keys().cloned().collect()
    }
}

struct MemoryUpload {
    files: Arc<Mutex<BTreeMap<String, Arc<Remote>>>>,
    uri: String,
    at: String,
    bytes: Vec<u8>,
    on_append: Arc<Mutex<Option<Hook>>>,
    garbles: bool,
}

impl Upload for MemoryUpload {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if let Some(hook) = &*self.on_append.lock() {
            hook();
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn complete(&mut self, expect_size: u64) -> Result<()> {
        if let Some(byte) = self.bytes.last_mut().filter(|_| self.garbles) {
            *byte ^= 1;
        }
        if self.bytes.len() as u64 != expect_size {
            return Err(SourceError::Passing("another size arrived".into()));
        }
        self.files.lock().entry(self.at.clone()).or_default().put(std::mem::take(&mut self.bytes));
        Ok(())
    }

    fn finish(mut self: Box<Self>, expect_size: u64) -> Result<Version> {
        if !self.files.lock().contains_key(&self.at) {
            self.complete(expect_size)?;
        }
        let mut files = self.files.lock();
        let remote = files.remove(&self.at).expect("it was completed");
        files.insert(self.uri.clone(), remote.clone());
        Ok(remote.version())
    }

    fn abort(self: Box<Self>) -> Option<String> {
        self.files.lock().remove(&self.at);
        None
    }
}

impl Opener for Memory {
    fn open(&self, uri: &str, _who: &Identity) -> Result<Arc<dyn Source>> {
        let files = self.files.lock();
        let remote = files.get(uri).ok_or_else(|| SourceError::Permanent(format!("{uri} is not there")))?;
        Ok(Arc::new(remote.clone()))
    }

    fn create(&self, uri: &str, _who: &Identity) -> Result<Started> {
        if let Some(remote) = self.files.lock().get(uri) {
            remote.stat()?;
        }
        let (files, on_append) = (self.files.clone(), self.on_append.clone());
        let garbles = self.garbles.load(Ordering::Relaxed);
        let (uri, at) = (uri.to_string(), format!("{uri}.part"));
        let upload = MemoryUpload { files, uri, at: at.clone(), bytes: Vec::new(), on_append, garbles };
        Ok(Started { upload: Box::new(upload), at })
    }

    fn list(&self, uri: &str, _who: &Identity) -> Result<Vec<Entry>> {
        let prefix = format!("{}/", uri.trim_end_matches('/'));
        let mut entries = BTreeMap::new();
        let parents = |path: &str, entries: &mut BTreeMap<String, EntryKind>| {
            let ends = path.match_indices('/').map(|(at, _)| at);
            ends.for_each(|at| drop(entries.insert(path[..at].to_string(), EntryKind::Directory)));
        };
        for (name, remote) in self.files.lock().iter() {
            if let Some(path) = name.strip_prefix(&prefix) {
                parents(path, &mut entries);
                entries.insert(path.to_string(), EntryKind::File(remote.state.lock().bytes.len() as u64));
            }
        }
        for (name, to) in self.links.lock().iter() {
            if let Some(path) = name.strip_prefix(&prefix) {
                entries.insert(path.to_string(), EntryKind::Symlink(to.clone()));
            }
        }
        Ok(entries.into_iter().map(|(path, kind)| Entry { path, kind }).collect())
    }
}
