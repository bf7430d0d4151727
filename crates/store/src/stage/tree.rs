//! Many files in: directories with their links, and manifests.

use super::place::{Place, names};
use super::{BadLine, Progress, Report, StageError, StageIn, Staged, Stager, Stop, manifest};
use crate::source::{Entry, EntryKind, Identity, SourceError};
use rustix::fs::FileType;

impl Stager {
    /// A directory in, with its symbolic links where the source knows them. The directory itself is made if it is not
    /// there; its parent must be.
    pub fn stage_in_tree(
        &self,
        what: &StageIn,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        let [uri] = what.uris.as_slice() else {
            return Err(StageError::path(&what.path, "a directory has one source"));
        };
        crate::source::check_uri(uri)?;
        let entries = self.opener.list(uri, who).map_err(|e| StageError::of_source(uri, e))?;
        entries.iter().try_for_each(|entry| check_entry(uri, entry))?;
        let root = names(&what.path)?.join("/");
        let mut staged = Staged::default();
        if !root.is_empty() {
            self.make_directory(&root, who, &mut staged)?;
        }
        let below = |path: &str| if root.is_empty() { path.to_string() } else { format!("{root}/{path}") };
        for entry in entries.iter().filter(|e| e.kind == EntryKind::Directory) {
            self.make_directory(&below(&entry.path), who, &mut staged)?;
        }
        let whole = Whole::new(&entries);
        let files = entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File(_)));
        let files = files.map(|entry| StageIn {
            uris: vec![format!("{}/{}", uri.trim_end_matches('/'), encoded(&entry.path))],
            path: below(&entry.path),
            replace: what.replace,
            keep: what.keep,
            checksums: Vec::new(),
        });
        let report = |progress: &Progress| report(&whole.of(progress));
        staged.add(self.stage_in_all(files.collect(), who, &report, stop, &|file| whole.add(file.bytes))?);
        // Links last, so that nothing of this tree is ever written through one.
        for entry in &entries {
            if let EntryKind::Symlink(to) = &entry.kind {
                self.make_link(&below(&entry.path), to, who, &mut staged)?;
            }
        }
        Ok(staged)
    }

    /// Many files in: lines `URI PATH`; what is there already is refused, replaced or kept as [`StageIn`] has it. Nothing is changed if a line is bad. Directories that are not there are made.
    pub fn stage_in_manifest(
        &self,
        text: &str,
        replace: bool,
        keep: bool,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        let lines = manifest::parse(text)?;
        let mut bad = Vec::new();
        for line in &lines {
            if let Err(e) = self.opener.open(&line.uri, who) {
                bad.push(BadLine { line: line.number, why: format!("{}: {e}", line.uri) });
            }
            if let Ok(place) = Place::find(self.volume.tree(), &line.path, None, who)
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
                self.make_directory(&line.path[..at], who, &mut staged)?;
            }
            files.push(StageIn { uris: vec![line.uri], path: line.path, replace, keep, ..StageIn::default() });
        }
        staged.add(self.stage_in_all(files, who, report, stop, &|_| ())?);
        Ok(staged)
    }

    fn make_directory(&self, path: &str, who: &Identity, staged: &mut Staged) -> Result<(), StageError> {
        // It may be there and not be ours to make: only one that is missing needs the right to write.
        let there = names(path)?;
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
        if super::place::open_at(self.volume.tree(), &there, flags, who).is_ok() {
            return Ok(());
        }
        let place = Place::find(self.volume.tree(), path, None, who)?;
        staged.directories += u64::from(place.make_directory(who)?);
        Ok(())
    }

    fn make_link(&self, path: &str, to: &str, who: &Identity, staged: &mut Staged) -> Result<(), StageError> {
        let place = Place::find(self.volume.tree(), path, None, who)?;
        match place.stat()?.map(|s| FileType::from_raw_mode(s.st_mode)) {
            None => {
                place.make_symlink(to, who)?;
                staged.symlinks += 1;
                Ok(())
            }
            Some(FileType::Symlink) => Ok(()), // a staging that was interrupted and is run again
            Some(_) => Err(StageError::path(path, "it is there already and is no symbolic link")),
        }
    }
}

/// Progress of a whole tree from the progress of its files.
struct Whole {
    total_bytes: u64,
    done_bytes: std::sync::atomic::AtomicU64,
}

impl Whole {
    fn new(entries: &[Entry]) -> Whole {
        let size = |e: &Entry| if let EntryKind::File(size) = e.kind { size } else { 0 };
        // Sizes as the server says them, which may be anything.
        let total_bytes = entries.iter().map(size).fold(0, u64::saturating_add);
        Whole { total_bytes, done_bytes: Default::default() }
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

/// A server's listing is hostile input: its paths must stay below the directory.
fn check_entry(uri: &str, entry: &Entry) -> Result<(), StageError> {
    let clean = names(&entry.path).is_ok_and(|n| n.join("/") == entry.path);
    let link = !matches!(&entry.kind, EntryKind::Symlink(to) if to.is_empty() || to.contains('\0'));
    if clean && link {
        return Ok(());
    }
    let why = format!("its listing has a name that cannot be taken: {:?}; nothing was changed", entry.path);
    Err(StageError::of_source(uri, SourceError::Permanent(why)))
}

/// A path as it stands in a URI.
pub(super) fn encoded(path: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"/-._~+@,=:".contains(&b);
    path.bytes().map(|b| if keep(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

/// A name as it stands in a URI, without its percent signs where they make sense.
pub(super) fn decoded(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()).filter(|_| first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| name.to_string())
}
