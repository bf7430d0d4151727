//! Dry run of a staging: its files, their sizes, and which are in place. A stage-in queries its source and fetches
//! nothing.

use super::manifest::Line;
use super::shared::work_off_here;
use super::tree::files_of;
use super::{Chosen, ManifestIn, Result, StageError, StageIn, Transfer};
use crate::source::check_uri;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Maximum number of listed files; the totals include all.
const ROWS_MAX: usize = 10_000;

/// Concurrent size queries to a source.
const QUESTIONS: usize = 8;

/// Request of a dry run of a stage-in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Wanted {
    /// One file from a source.
    File(StageIn),
    /// A directory or a repository's record.
    Tree(StageIn),
    /// The files of a manifest.
    Manifest(ManifestIn),
}

/// Result of a dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Number of files.
    pub files: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Files in place already: with the source's size, or for a stage-out sent before in this version.
    pub there_files: u64,
    /// Bytes in place already.
    pub there_bytes: u64,
    /// Free bytes in the volume; `None` for a stage-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Further notes for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Files in the order of their paths, at most ten thousand.
    pub list: Vec<Row>,
}

/// A file of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Path in the volume.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// State of the destination.
    pub there: There,
}

/// State of the destination of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum There {
    /// No file there.
    Nothing,
    /// A file of the same size.
    SameSize,
    /// This version, from an earlier stage-out.
    Sent,
    /// Something else there.
    Other,
}

impl Looked {
    /// Adds another result to this one.
    pub fn add(&mut self, other: Looked) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.there_files += other.there_files;
        self.there_bytes = self.there_bytes.saturating_add(other.there_bytes);
        self.notes.extend(other.notes);
        let room = ROWS_MAX.saturating_sub(self.list.len());
        self.list.extend(other.list.into_iter().take(room));
    }

    /// Sums all rows and lists the first by path.
    pub(super) fn of(mut list: Vec<Row>, is_there: impl Fn(There) -> bool) -> Looked {
        list.sort_by(|a, b| a.path.cmp(&b.path));
        let mut looked = Looked::default();
        for row in &list {
            looked.files += 1;
            looked.bytes = looked.bytes.saturating_add(row.bytes);
            if is_there(row.there) {
                looked.there_files += 1;
                looked.there_bytes = looked.there_bytes.saturating_add(row.bytes);
            }
        }
        list.truncate(ROWS_MAX);
        looked.list = list;
        looked
    }
}

fn files_in(lines: Vec<Line>) -> Vec<(StageIn, Option<u64>)> {
    let file = |line: Line| {
        let bytes = line.bytes;
        (line.into_file(false, false), bytes)
    };
    lines.into_iter().map(file).collect()
}

impl Transfer<'_> {
    /// Dry run of a stage-in.
    pub fn look(&self, wanted: &Wanted, chosen: &Chosen) -> Result<Looked> {
        let files = match wanted {
            Wanted::File(what) => vec![(what.clone(), None)],
            Wanted::Tree(what) => match self.record(what, chosen)? {
                Some(lines) => files_in(lines),
                None => files_of(what, &self.entries(what, chosen)?)?,
            },
            Wanted::Manifest(what) => files_in(self.lines(what, chosen)?),
        };
        let rows = self.rows(files, |(what, size)| self.row(&what, size))?;
        let free_bytes = Some(self.volume.targets().space().free_bytes);
        Ok(Looked { free_bytes, ..Looked::of(rows, |there| there == There::SameSize) })
    }

    /// Examines several files at once, and returns their rows.
    pub(super) fn rows<T: Send>(&self, files: Vec<T>, row: impl Fn(T) -> Result<Row> + Sync) -> Result<Vec<Row>> {
        let rows = Mutex::new(Vec::new());
        let examine = |file| {
            self.check_stop()?;
            let row = row(file)?;
            rows.lock().push(row);
            Ok(())
        };
        work_off_here(files, QUESTIONS, examine)?;
        Ok(rows.into_inner())
    }

    /// Bytes that staging in `what` would write: those of files that are not in place. With `tree` the source is a
    /// directory or a record.
    pub fn bytes_to_bring(&self, what: &StageIn, tree: bool) -> Result<u64> {
        let wanted = if tree { Wanted::Tree(what.clone()) } else { Wanted::File(what.clone()) };
        let looked = self.look(&wanted, &Chosen::default())?;
        Ok(looked.bytes - looked.there_bytes)
    }

    /// Whether a file of that size is in place.
    pub fn is_in_place(&self, what: &StageIn, size: u64) -> bool {
        self.row(what, Some(size)).is_ok_and(|row| row.there == There::SameSize)
    }

    /// State of a file's destination. The first source that answers determines an unknown size.
    fn row(&self, what: &StageIn, size: Option<u64>) -> Result<Row> {
        let [first, others @ ..] = what.uris.as_slice() else {
            return Err(StageError::path(&what.path, "no source is named"));
        };
        what.uris.iter().try_for_each(|uri| check_uri(uri))?;
        let stat = |uri: &String| {
            let version = self.opener.open(uri, self.who).and_then(|source| source.stat());
            version.map(|version| version.size).map_err(|e| StageError::of_source(uri, e))
        };
        let ask = || others.iter().fold(stat(first), |asked, uri| asked.or_else(|failed| stat(uri).or(Err(failed))));
        let bytes = size.map_or_else(ask, Ok)?;
        let name = super::incoming::last_name(first);
        // A missing parent directory means that the file is missing too.
        let place = self.place(&what.path, name.as_deref()).ok();
        let stat = place.as_ref().and_then(|place| place.stat().ok().flatten());
        let there = match stat {
            None => There::Nothing,
            Some(stat) if u64::try_from(stat.st_size) == Ok(bytes) => There::SameSize,
            Some(_) => There::Other,
        };
        Ok(Row { path: place.map_or_else(|| what.path.clone(), |place| place.shown), bytes, there })
    }
}
