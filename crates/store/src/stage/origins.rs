//! The sources of one file to be staged in: opened, compared, probed.

use super::{StageError, Stop};
use crate::origin::{Identity, Opener, Origin, OriginError, Place, SOURCES_MAX, check_uri};
use std::sync::Arc;
use std::time::Duration;

/// So often a passing failure is tried again at one source.
const RETRIES: u32 = 4;

/// Wait before the first retry; doubles each time. Tests have no network to recover.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });

/// The sources that can be used.
pub(super) struct Origins {
    pub list: Vec<(Place, Arc<dyn Origin>)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Origins {
    /// Opens the sources, looks what is there and whether ranges are served. The first that answers decides the size.
    pub fn open(opener: &dyn Opener, uris: &[String], who: &Identity, stop: &Stop) -> Result<Origins, StageError> {
        if uris.is_empty() || uris.len() > SOURCES_MAX {
            return Err(StageError::path("", format!("name one to {SOURCES_MAX} sources")));
        }
        uris.iter().try_for_each(|uri| check_uri(uri))?;
        let mut origins = Origins { list: Vec::new(), notes: Vec::new() };
        let mut failed = None;
        for uri in uris {
            match look(opener, uri, who, stop) {
                Ok(found) => origins.take(found),
                Err(StageError::Stopped) => return Err(StageError::Stopped),
                Err(e) => {
                    origins.notes.push(format!("not used as a source: {e}"));
                    failed.get_or_insert(e);
                }
            }
        }
        match failed {
            Some(e) if origins.list.is_empty() => Err(e),
            _ => Ok(origins),
        }
    }

    fn take(&mut self, found: (Place, Arc<dyn Origin>)) {
        let place = &found.0;
        if self.list.first().is_some_and(|(first, _)| first.version.size != place.version.size) {
            self.notes.push(format!("{} has another size than the first source and is not used", place.uri));
            return;
        }
        if !place.ranges {
            self.notes
                .push(format!("{} serves no ranges: it is read from its start, and cannot be continued", place.uri));
        }
        self.list.push(found);
    }

    /// Fills `buf` from the first source with ranges that can.
    pub fn read_at(&self, offset: u64, buf: &mut [u8], stop: &Stop) -> Result<(), StageError> {
        let mut last = None;
        for (place, origin) in self.list.iter().filter(|(place, _)| place.ranges) {
            match retried(stop, || origin.read_at(&place.version, offset, buf)) {
                Ok(()) => return Ok(()),
                Err(None) => return Err(StageError::Stopped),
                Err(Some(e)) => {
                    last.get_or_insert(StageError::origin(&place.uri, e));
                }
            }
        }
        Err(last.unwrap_or_else(|| StageError::path("", "no source serves ranges")))
    }

    /// Looks whether the first source is still what it was.
    pub fn check_unchanged(&self, stop: &Stop) -> Result<(), StageError> {
        let (place, origin) = &self.list[0];
        let now = retried(stop, || origin.stat()).map_err(|e| stopped_or(&place.uri, e))?;
        if now == place.version {
            return Ok(());
        }
        let text = "it was replaced while it was fetched; stage it in again".to_string();
        Err(StageError::origin(&place.uri, OriginError::Changed(text)))
    }
}

fn look(opener: &dyn Opener, uri: &str, who: &Identity, stop: &Stop) -> Result<(Place, Arc<dyn Origin>), StageError> {
    let origin = retried(stop, || opener.open(uri, who)).map_err(|e| stopped_or(uri, e))?;
    let version = retried(stop, || origin.stat()).map_err(|e| stopped_or(uri, e))?;
    let ranges = retried(stop, || origin.has_ranges()).map_err(|e| stopped_or(uri, e))?;
    Ok((Place { uri: uri.to_string(), version, ranges }, origin))
}

fn stopped_or(uri: &str, e: Option<OriginError>) -> StageError {
    e.map_or(StageError::Stopped, |e| StageError::origin(uri, e))
}

/// Tries again what failed in passing, later each time. `Err(None)` when told to stop.
pub(super) fn retried<T>(
    stop: &Stop,
    mut work: impl FnMut() -> Result<T, OriginError>,
) -> Result<T, Option<OriginError>> {
    let mut wait = RETRY_FIRST;
    for left in (0..=RETRIES).rev() {
        if stop.is_set() {
            return Err(None);
        }
        match work() {
            Err(OriginError::Passing(_)) if left > 0 => std::thread::sleep(wait),
            other => return other.map_err(Some),
        }
        wait *= 2;
    }
    unreachable!("the last try returns")
}
