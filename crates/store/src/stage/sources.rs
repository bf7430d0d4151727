//! The sources of one file to be staged in: opened, compared, probed.

use super::{StageError, Stop};
use crate::source::{Identity, Opener, Place, SOURCES_MAX, Source, SourceError, Version, check_uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// So often a passing failure is tried again at one source.
const RETRIES: u32 = 4;

/// No try begins later than so long after the first: a source that lets every try run into its deadline is tried twice,
/// not five times. Somewhat more than the deadline of a source.
const TRY_AGAIN_WITHIN: Duration = Duration::from_secs(45);
/// A request that waits for a source looks so often whether it is to stop.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(50);

/// Wait before the first retry; doubles each time. Tests have no network to recover.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });

/// The sources that can be used.
pub(super) struct Sources {
    pub list: Vec<(Place, Arc<dyn Source>)>,
    /// Which of them gave bytes.
    used: Vec<AtomicBool>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Sources {
    /// Opens the sources, looks what is there and whether ranges are served. The first that answers decides the size.
    pub fn open(opener: &dyn Opener, uris: &[String], who: &Identity, stop: &Stop) -> Result<Sources, StageError> {
        if uris.is_empty() || uris.len() > SOURCES_MAX {
            return Err(StageError::path("", format!("name one to {SOURCES_MAX} sources")));
        }
        uris.iter().try_for_each(|uri| check_uri(uri))?;
        let mut sources = Sources { list: Vec::new(), used: Vec::new(), notes: Vec::new() };
        let mut failed = None;
        for uri in uris {
            match look(opener, uri, who, stop) {
                Ok(found) => sources.take(found),
                Err(StageError::Stopped) => return Err(StageError::Stopped),
                Err(e) => {
                    sources.notes.push(format!("not used as a source: {e}"));
                    failed.get_or_insert(e);
                }
            }
        }
        match failed {
            Some(e) if sources.list.is_empty() => Err(e),
            _ => Ok(sources),
        }
    }

    fn take(&mut self, found: (Place, Arc<dyn Source>)) {
        let place = &found.0;
        if self.list.first().is_some_and(|(first, _)| first.version.size != place.version.size) {
            self.notes.push(format!("{} has another size than the first source and is not used", place.uri));
            return;
        }
        if !place.ranges {
            self.notes
                .push(format!("{} serves no ranges: it is read from its start, and cannot be continued", place.uri));
        } else if !found.1.notices_replacement(&place.version) {
            self.notes.push(format!(
                "{} does not tell its versions apart: it is read with one request, and cannot be continued",
                place.uri
            ));
        }
        self.list.push(found);
        self.used.push(AtomicBool::new(false));
    }

    /// Whether ranges of a source, fetched one after the other, are of one version. A source that tells neither tag nor
    /// time may have been replaced in between.
    pub fn by_ranges(&self, at: usize) -> bool {
        self.list.get(at).is_some_and(|(place, source)| place.ranges && source.notices_replacement(&place.version))
    }

    /// Whether any source is fetched by ranges.
    pub fn any_by_ranges(&self) -> bool {
        (0..self.list.len()).any(|at| self.by_ranges(at))
    }

    /// Bytes of the first source, all of them in order.
    pub fn read_all(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), StageError> {
        let (place, source) = &self.list[0];
        self.used[0].store(true, Ordering::Relaxed);
        source.read_all(&place.version, each).map_err(|e| StageError::of_source(&place.uri, e))
    }

    /// So many bytes from the first source with ranges that can give them.
    pub fn read_at(&self, offset: u64, len: usize, stop: &Stop) -> Result<Vec<u8>, StageError> {
        let mut last = None;
        // Where none is good for it, whoever asks compares the bytes with those that they must be.
        let any = self.any_by_ranges();
        let good = |at: usize| if any { self.by_ranges(at) } else { self.list[at].0.ranges };
        for (at, (place, source)) in self.list.iter().enumerate().filter(|(at, _)| good(*at)) {
            let version = &place.version;
            let read = move |source: &dyn Source, version: &Version| {
                let mut bytes = vec![0; len];
                source.read_at(version, offset, &mut bytes).map(|()| bytes)
            };
            let tried = retried(stop, || {
                let version = version.clone();
                unless_stopped(stop, source, move |source| read(source, &version))
            });
            match tried {
                Ok(bytes) => {
                    self.used[at].store(true, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(None) => return Err(StageError::Stopped),
                Err(Some(e)) => {
                    last.get_or_insert(StageError::of_source(&place.uri, e));
                }
            }
        }
        Err(last.unwrap_or_else(|| StageError::path("", "no source serves ranges")))
    }

    /// Looks whether the sources that gave bytes are still what they were.
    pub fn check_unchanged(&self, stop: &Stop) -> Result<(), StageError> {
        let used = self.list.iter().zip(&self.used).filter(|(_, used)| used.load(Ordering::Relaxed));
        for ((place, source), _) in used {
            let now = retried(stop, || unless_stopped(stop, source, |source| source.stat()))
                .map_err(|e| stopped_or(&place.uri, e))?;
            if now != place.version {
                let text = "it was replaced while it was fetched; stage it in again".to_string();
                return Err(StageError::of_source(&place.uri, SourceError::Changed(text)));
            }
        }
        Ok(())
    }
}

fn look(opener: &dyn Opener, uri: &str, who: &Identity, stop: &Stop) -> Result<(Place, Arc<dyn Source>), StageError> {
    let source = retried(stop, || opener.open(uri, who)).map_err(|e| stopped_or(uri, e))?;
    let stat = || unless_stopped(stop, &source, |source| source.stat());
    let version = retried(stop, stat).map_err(|e| stopped_or(uri, e))?;
    let probe = || unless_stopped(stop, &source, |source| source.has_ranges());
    let ranges = retried(stop, probe).map_err(|e| stopped_or(uri, e))?;
    Ok((Place { uri: uri.to_string(), version, ranges }, source))
}

fn stopped_or(uri: &str, e: Option<SourceError>) -> StageError {
    e.map_or(StageError::Stopped, |e| StageError::of_source(uri, e))
}

/// Asks a source on a thread of its own and waits for the answer, unless told to stop: one that does not answer holds
/// up nobody who has gone. The thread ends with the source's own deadline.
fn unless_stopped<T: Send + 'static>(
    stop: &Stop,
    source: &Arc<dyn Source>,
    ask: impl FnOnce(&dyn Source) -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    let (answer, answered) = channel();
    let source = source.clone();
    let asked = std::thread::Builder::new().name("source".into()).spawn(move || {
        let _ = answer.send(ask(&*source));
    });
    asked.map_err(|e| SourceError::Passing(format!("no thread to ask it: {e}")))?;
    loop {
        match answered.recv_timeout(STOP_LOOK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if stop.is_set() => return Err(SourceError::Passing("stopped".into())),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(SourceError::Passing("its reader ended".into())),
        }
    }
}

/// Tries again what failed in passing, later each time. `Err(None)` when told to stop.
pub(super) fn retried<T>(
    stop: &Stop,
    mut work: impl FnMut() -> Result<T, SourceError>,
) -> Result<T, Option<SourceError>> {
    let (mut wait, began) = (RETRY_FIRST, Instant::now());
    for left in (0..=RETRIES).rev() {
        if stop.is_set() {
            return Err(None);
        }
        match work() {
            Err(_) if stop.is_set() => return Err(None),
            Err(SourceError::Passing(_)) if left > 0 && began.elapsed() + wait < TRY_AGAIN_WITHIN => {
                std::thread::sleep(wait);
            }
            other => return other.map_err(Some),
        }
        wait *= 2;
    }
    unreachable!("the last try returns")
}
