//! What a stage-in would do: its files, their sizes, and which are there already. Asked of the source, and nothing is brought.

use super::manifest::Line;
use super::place::Place;
use super::shared::work_off;
use super::tree::files_of;
use super::{Chosen, ManifestIn, StageError, StageIn, Stager, Stop};
use crate::source::Identity;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Files that are shown one by one; the sums are of all.
const ROWS_MAX: usize = 10_000;

/// Sizes asked for at once.
const QUESTIONS: usize = 8;

/// What would be staged in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Wanted {
    /// A file.
    File(StageIn),
    /// A directory, or a record.
    Tree(StageIn),
    /// What a manifest names.
    Manifest(ManifestIn),
}

/// What a stage-in would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Files in all.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Files that are there already, with the size that the source has.
    pub there_files: u64,
    /// Bytes in these.
    pub there_bytes: u64,
    /// Bytes that are free in the volume.
    pub free_bytes: u64,
    /// The files by their paths, the first ten thousand.
    pub list: Vec<Row>,
}

/// A file that would be staged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Where it would be.
    pub path: String,
    /// How large it is at the source.
    pub bytes: u64,
    /// What is there already.
    pub there: There,
}

/// What has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum There {
    /// Nothing.
    Nothing,
    /// A file of the same size.
    SameSize,
    /// Something else.
    Other,
}

fn unsized_files(lines: Vec<Line>) -> Vec<(StageIn, Option<u64>)> {
    lines.into_iter().map(|line| (line.into_file(false, false), None)).collect()
}

impl Stager {
    /// What staging in would do.
    pub fn look(&self, wanted: &Wanted, chosen: &Chosen, who: &Identity, stop: &Stop) -> Result<Looked, StageError> {
        let files = match wanted {
            Wanted::File(what) => vec![(what.clone(), None)],
            Wanted::Tree(what) => match self.record(what, chosen, who)? {
                Some(lines) => unsized_files(lines),
                None => files_of(what, &self.entries(what, chosen, who)?)?,
            },
            Wanted::Manifest(what) => unsized_files(self.lines(what, chosen, who)?),
        };
        let rows = Mutex::new(Vec::new());
        let here = |(what, size): (StageIn, Option<u64>)| {
            if stop.is_set() {
                return Err(StageError::Stopped);
            }
            let row = self.row(&what, size, who)?;
            rows.lock().push(row);
            Ok(())
        };
        work_off(files, QUESTIONS, None, 1, here, |_, _, _| Ok(()))?;
        let mut list = rows.into_inner();
        list.sort_by(|a, b| a.path.cmp(&b.path));
        let mut looked = Looked { free_bytes: self.volume.targets().space().free_bytes, ..Looked::default() };
        for row in &list {
            looked.files += 1;
            looked.bytes = looked.bytes.saturating_add(row.bytes);
            if row.there == There::SameSize {
                looked.there_files += 1;
                looked.there_bytes = looked.there_bytes.saturating_add(row.bytes);
            }
        }
        list.truncate(ROWS_MAX);
        looked.list = list;
        Ok(looked)
    }

    fn row(&self, what: &StageIn, size: Option<u64>, who: &Identity) -> Result<Row, StageError> {
        let uri = what.uris.first().ok_or_else(|| StageError::path(&what.path, "no source is named"))?;
        crate::source::check_uri(uri)?;
        let stat = || self.opener.open(uri, who).and_then(|source| source.stat()).map(|version| version.size);
        let bytes = size.map_or_else(stat, Ok).map_err(|e| StageError::of_source(uri, e))?;
        let name = super::incoming::last_name(uri);
        // A directory that is not there yet has nothing in it.
        let place = Place::find(self.volume.tree(), &what.path, name.as_deref(), who).ok();
        let stat = place.as_ref().and_then(|place| place.stat().ok().flatten());
        let there = match stat {
            None => There::Nothing,
            Some(stat) if u64::try_from(stat.st_size) == Ok(bytes) => There::SameSize,
            Some(_) => There::Other,
        };
        Ok(Row { path: place.map_or_else(|| what.path.clone(), |place| place.shown), bytes, there })
    }
}
