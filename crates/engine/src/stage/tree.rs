//! Staging in of many files: directories with their links, records, and manifests.

use super::error::SHOWN_MAX;
use super::manifest::{self, Line, ManifestIn};
use super::place::names;
use super::{BadLine, Chosen, Progress, Result, StageError, StageIn, Staged, Transfer};
use crate::source::{Entry, EntryKind, SourceError, encoded};
use parking_lot::Mutex;
use rustix::fs::FileType;
use std::collections::BTreeSet;

/// Maximum size of a manifest at a source: a million lines are rarely more.
const TEXT_BYTES_MAX: usize = 64 << 20;

impl Transfer<'_> {
    /// Stages a directory in, with its symbolic links if the source supports them. Creates the directory if it is
    /// missing; its parent must exist.
    pub fn stage_in_tree(&self, what: &StageIn, chosen: &Chosen) -> Result<Staged> {
        if let Some(lines) = self.record(what, chosen)? {
            return self.stage_in_lines(lines, what.replace, what.keep);
        }
        let entries = self.entries(what, chosen)?;
        let root = names(&what.path)?.join("/");
        let mut staged = Staged::default();
        if !root.is_empty() {
            self.make_directory(&root, &mut staged)?;
        }
        let below = |path: &str| if root.is_empty() { path.to_string() } else { format!("{root}/{path}") };
        for entry in entries.iter().filter(|e| e.kind == EntryKind::Directory) {
            self.make_directory(&below(&entry.path), &mut staged)?;
        }
        let whole = TreeProgress::new(&entries);
        let files = files_of(what, &entries)?.into_iter().map(|(file, _)| file).collect();
        let report = |progress: &Progress| (self.report)(&whole.of(progress));
        let within = Transfer { report: &report, ..self.clone() };
        staged.add(within.stage_in_all(files, &|file| whole.add(file.bytes), None)?);
        // Links are made last, so that nothing of this tree is ever written through one.
        for entry in &entries {
            if let EntryKind::Symlink(to) = &entry.kind {
                self.make_link(&below(&entry.path), to, &mut staged)?;
            }
        }
        Ok(staged)
    }

    /// The selected files of a record; `None` if the source is no record.
    pub(super) fn record(&self, what: &StageIn, chosen: &Chosen) -> Result<Option<Vec<Line>>> {
        let uri = one_source(what)?;
        let Some(mut files) = self.opener.record(uri, self.who).map_err(|e| StageError::of_source(uri, e))? else {
            return Ok(None);
        };
        let of = files.len();
        files.retain(|file| chosen.takes(&file.path));
        some_chosen(uri, files.len(), of)?;
        let lines = manifest::deposited(files, &what.path);
        let why = |why| StageError::of_source(uri, SourceError::Permanent(format!("{why}; nothing was changed")));
        lines.map(Some).map_err(why)
    }

    /// The selected entries of a directory, with their parent directories.
    pub(super) fn entries(&self, what: &StageIn, chosen: &Chosen) -> Result<Vec<Entry>> {
        let uri = one_source(what)?;
        let mut entries = self.opener.list(uri, self.who).map_err(|e| StageError::of_source(uri, e))?;
        entries.iter().try_for_each(|entry| check_entry(uri, entry))?;
        if chosen.is_all() {
            return Ok(entries);
        }
        let is_file = |entry: &Entry| entry.kind != EntryKind::Directory;
        let of = entries.iter().filter(|entry| is_file(entry)).count();
        let mut above = BTreeSet::new();
        entries.retain(|entry| !is_file(entry) || chosen.takes(&entry.path));
        for entry in entries.iter().filter(|entry| is_file(entry)) {
            above.extend(entry.path.match_indices('/').map(|(at, _)| entry.path[..at].to_string()));
        }
        entries.retain(|entry| is_file(entry) || above.contains(&entry.path));
        some_chosen(uri, entries.iter().filter(|entry| is_file(entry)).count(), of)?;
        Ok(entries)
    }

    /// The selected lines of a manifest.
    pub(super) fn lines(&self, what: &ManifestIn, chosen: &Chosen) -> Result<Vec<Line>> {
        let mut lines = match &what.text {
            Some(text) => manifest::parse(what, text)?,
            None => manifest::parse(what, &self.text_of(&what.name)?)?,
        };
        let (root, of) = (names(&what.path)?.join("/"), lines.len());
        let below = |path: &str| path.strip_prefix(&root).unwrap_or(path).trim_start_matches('/').to_string();
        lines.retain(|line| chosen.takes(&below(&line.path)));
        if !chosen.is_all() {
            some_chosen(&what.name, lines.len(), of)?;
        }
        Ok(lines)
    }

    /// Stages in the files of a manifest; existing files are refused, replaced or kept as in [`StageIn`]. A bad line
    /// fails the whole manifest before any change. Missing directories are created. A file that is missing at its
    /// source, or has another checksum, does not stop the others; the error at the end lists all such files.
    pub fn stage_in_manifest(&self, what: &ManifestIn, chosen: &Chosen) -> Result<Staged> {
        let lines = self.lines(what, chosen)?;
        self.stage_in_lines(lines, what.replace, what.keep)
    }

    fn stage_in_lines(&self, lines: Vec<Line>, replace: bool, keep: bool) -> Result<Staged> {
        let mut bad = Vec::new();
        for line in &lines {
            if let Err(e) = self.opener.open(&line.uri, self.who) {
                bad.push(BadLine { line: line.number, why: format!("{}: {e}", line.uri) });
            }
            if let Ok(place) = self.place(&line.path, None)
                && let Some(there) = place.stat()?
                && (!(replace || keep) || FileType::from_raw_mode(there.st_mode) == FileType::Directory)
            {
                bad.push(BadLine { line: line.number, why: format!("{} is there already", line.path) });
            }
        }
        if !bad.is_empty() {
            return Err(StageError::Manifest(bad));
        }
        let (mut staged, mut files) = (Staged::default(), Vec::new());
        for line in lines {
            for (at, _) in line.path.match_indices('/') {
                self.make_directory(&line.path[..at], &mut staged)?;
            }
            files.push(line.into_file(replace, keep));
        }
        let (missing, of) = (Missing::default(), files.len());
        staged.add(self.stage_in_all(files, &|_| (), Some(&missing))?);
        missing.ended(of)?;
        Ok(staged)
    }

    /// Reads a text from a source.
    fn text_of(&self, uri: &str) -> Result<String> {
        crate::source::check_uri(uri)?;
        let permanent = |why: String| SourceError::Permanent(why);
        let read = || {
            let source = self.opener.open(uri, self.who)?;
            let version = source.stat()?;
            let mut bytes = Vec::new();
            let mut take = |more: &[u8]| {
                bytes.extend_from_slice(more);
                bytes.len() <= TEXT_BYTES_MAX
            };
            if version.size <= TEXT_BYTES_MAX as u64 {
                source.read_all(&version, &mut take)?;
            }
            if version.size > TEXT_BYTES_MAX as u64 || bytes.len() > TEXT_BYTES_MAX {
                return Err(permanent(format!("it is larger than {} MiB, and no manifest", TEXT_BYTES_MAX >> 20)));
            }
            String::from_utf8(bytes).map_err(|_| permanent("it is no text in UTF-8, and no manifest".into()))
        };
        read().map_err(|e| StageError::of_source(uri, e))
    }

    fn make_directory(&self, path: &str, staged: &mut Staged) -> Result<()> {
        // An existing directory needs no write permission; only a missing one does.
        let there = names(path)?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
        if self.open_at(&there, flags).is_ok() {
            return Ok(());
        }
        let place = self.place(path, None)?;
        staged.directories += u64::from(place.make_directory(self.who)?);
        Ok(())
    }

    fn make_link(&self, path: &str, to: &str, staged: &mut Staged) -> Result<()> {
        let place = self.place(path, None)?;
        match place.stat()?.map(|s| FileType::from_raw_mode(s.st_mode)) {
            None => {
                place.make_symlink(to, self.who)?;
                staged.symlinks += 1;
                Ok(())
            }
            Some(FileType::Symlink) => Ok(()), // an interrupted staging runs again
            Some(_) => Err(StageError::path(path, "it is there already and is no symbolic link")),
        }
    }
}

fn one_source(what: &StageIn) -> Result<&str> {
    let [uri] = what.uris.as_slice() else {
        return Err(StageError::path(&what.path, "a directory has one source"));
    };
    crate::source::check_uri(uri)?;
    Ok(uri)
}

/// Requests for the files among the entries of a directory, with their sizes.
pub(super) fn files_of(what: &StageIn, entries: &[Entry]) -> Result<Vec<(StageIn, Option<u64>)>> {
    let (uri, root) = (one_source(what)?, names(&what.path)?.join("/"));
    let file = |entry: &Entry| {
        let EntryKind::File(size) = entry.kind else { return None };
        let uris = vec![format!("{}/{}", uri.trim_end_matches('/'), encoded(&entry.path))];
        let path = if root.is_empty() { entry.path.clone() } else { format!("{root}/{}", entry.path) };
        let (replace, keep) = (what.replace, what.keep);
        Some((StageIn { uris, path, replace, keep, checksums: Vec::new() }, Some(size)))
    };
    Ok(entries.iter().filter_map(file).collect())
}

/// Fails if the patterns select none of the files, probably by mistake.
pub(super) fn some_chosen(uri: &str, chosen: usize, of: usize) -> Result<()> {
    if chosen > 0 || of == 0 {
        return Ok(());
    }
    let why = format!("--include and --exclude leave none of its {of} files; nothing was changed");
    Err(StageError::of_source(uri, SourceError::Permanent(why)))
}

/// Files of a manifest that failed.
#[derive(Default)]
pub(super) struct Missing {
    /// Number of failures, and the first of them with their errors.
    all: Mutex<(usize, Vec<String>)>,
}

impl Missing {
    /// Records an error that does not stop the other files; false for any other error.
    pub fn takes(&self, path: &str, error: &StageError) -> bool {
        let gone = matches!(error, StageError::Source { error: SourceError::Permanent(_), .. });
        if !gone && !matches!(error, StageError::Checksum { .. }) {
            return false;
        }
        let mut all = self.all.lock();
        all.0 += 1;
        if all.1.len() < SHOWN_MAX {
            all.1.push(format!("{path}: {error}"));
        }
        true
    }

    fn ended(self, of: usize) -> Result<()> {
        let (failed, first) = self.all.into_inner();
        if failed == 0 { Ok(()) } else { Err(StageError::Files { failed, of, first }) }
    }
}

/// Progress of a whole tree from the progress of its files.
struct TreeProgress {
    total_bytes: u64,
    done_bytes: std::sync::atomic::AtomicU64,
}

impl TreeProgress {
    fn new(entries: &[Entry]) -> TreeProgress {
        let size = |e: &Entry| if let EntryKind::File(size) = e.kind { size } else { 0 };
        // Sizes come from the server and may be arbitrary.
        let total_bytes = entries.iter().map(size).fold(0, u64::saturating_add);
        TreeProgress { total_bytes, done_bytes: Default::default() }
    }

    fn add(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    }

    fn of(&self, file: &Progress) -> Progress {
        let done_bytes = self.done_bytes.load(std::sync::atomic::Ordering::Relaxed) + file.done_bytes;
        let left_bytes = self.total_bytes.saturating_sub(done_bytes) as f64;
        let left_s = (file.rate_bytes_s > 0.0).then(|| left_bytes / file.rate_bytes_s);
        Progress { done_bytes, total_bytes: self.total_bytes, left_s, ..file.clone() }
    }
}

/// Checks an entry of a server's listing, which is hostile input: its path must stay below the directory.
fn check_entry(uri: &str, entry: &Entry) -> Result<()> {
    let clean = names(&entry.path).is_ok_and(|n| n.join("/") == entry.path);
    let link = !matches!(&entry.kind, EntryKind::Symlink(to) if to.is_empty() || to.contains('\0'));
    if clean && link {
        return Ok(());
    }
    let why = format!("its listing has a name that cannot be used: {:?}; nothing was changed", entry.path);
    Err(StageError::of_source(uri, SourceError::Permanent(why)))
}
