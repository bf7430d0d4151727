//! The sources of one file: opening, comparison, probing.

use super::progress::Meter;
use super::{Result, StageError, Stop};
use crate::source::{Identity, Opener, Place, SOURCES_MAX, Source, SourceError, check_uri};
use object::workers::apart;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// Retries at one source after a passing failure.
const RETRIES: u32 = 4;

/// No retry starts later than this after the first try: a source where each try runs into its deadline is tried twice,
/// not five times. Slightly more than the deadline of a source.
const TRY_AGAIN_WITHIN: Duration = Duration::from_secs(45);
/// Interval of checks of the stop flag while a request waits for a source.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(50);

/// Backoff before the first retry; doubles each time. Tests have no network that recovers.
const RETRY_FIRST: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 200 });

/// The sources that can be used.
pub(super) struct Sources {
    pub list: Vec<(Place, Arc<dyn Source>)>,
    /// Whether each source provided bytes.
    used: Vec<AtomicBool>,
    stop: Stop,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Sources {
    /// Opens the sources and probes their versions and ranges. The first one that answers determines the size.
    pub fn open(opener: &dyn Opener, uris: &[String], who: &Identity, stop: &Stop) -> Result<Sources> {
        if uris.is_empty() || uris.len() > SOURCES_MAX {
            return Err(StageError::path("", format!("name one to {SOURCES_MAX} sources")));
        }
        uris.iter().try_for_each(|uri| check_uri(uri))?;
        let mut sources = Sources { list: Vec::new(), used: Vec::new(), stop: stop.clone(), notes: Vec::new() };
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
                "{} returns no version of the file: it is read with one request, and cannot be continued",
                place.uri
            ));
        }
        self.list.push(found);
        self.used.push(AtomicBool::new(false));
    }

    /// Whether ranges of a source, fetched one by one, are of one version. A source without tag and time may be
    /// replaced between two requests.
    pub fn by_ranges(&self, at: usize) -> bool {
        self.list.get(at).is_some_and(|(place, source)| place.ranges && source.notices_replacement(&place.version))
    }

    /// Whether any source is fetched by ranges.
    pub fn any_by_ranges(&self) -> bool {
        (0..self.list.len()).any(|at| self.by_ranges(at))
    }

    /// Reads all bytes of the first source, in order.
    pub fn read_all(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let (place, source) = &self.list[0];
        self.used[0].store(true, Ordering::Relaxed);
        source.read_all(&place.version, each).map_err(|e| StageError::of_source(&place.uri, e))
    }

    /// Reads `len` bytes from the first source with ranges that can provide them. The meter shows the bytes that arrive;
    /// those of a read that failed are subtracted.
    pub fn read_at(&self, offset: u64, len: usize, meter: Option<&Meter<'_>>) -> Result<Vec<u8>> {
        let mut shown = 0;
        let mut show = |arrived: u64| {
            if let Some(meter) = meter {
                meter.arrived(shown, arrived);
                shown = arrived;
            }
        };
        let mut last = None;
        // If no source detects a replacement, the caller compares the bytes with those that it expects.
        let any = self.any_by_ranges();
        let good = |at: usize| if any { self.by_ranges(at) } else { self.list[at].0.ranges };
        for (at, (place, source)) in self.list.iter().enumerate().filter(|(at, _)| good(*at)) {
            let version = &place.version;
            let tried = retried(&self.stop, &place.uri, || {
                let (version, arrived) = (version.clone(), Arc::new(AtomicU64::new(0)));
                let counted = arrived.clone();
                let read = move |source: &dyn Source| {
                    let mut bytes = vec![0; len];
                    source.fetch_at(&version, offset, &mut bytes, &counted).map(|()| bytes)
                };
                let read = unless_stopped(&self.stop, source, read, || show(arrived.load(Ordering::Relaxed)));
                show(if read.is_ok() { len as u64 } else { 0 });
                read
            });
            match tried {
                Ok(bytes) => {
                    self.used[at].store(true, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(StageError::Stopped) => return Err(StageError::Stopped),
                Err(e) => drop(last.get_or_insert(e)),
            }
        }
        Err(last.unwrap_or_else(|| StageError::path("", "no source serves ranges")))
    }

    /// Checks that the sources of the fetched bytes are unchanged.
    pub fn check_unchanged(&self) -> Result<()> {
        let used = self.list.iter().zip(&self.used).filter(|(_, used)| used.load(Ordering::Relaxed));
        for ((place, source), _) in used {
            let stat = || unless_stopped(&self.stop, source, |source| source.stat(), || ());
            let now = retried(&self.stop, &place.uri, stat)?;
            if now != place.version {
                let text = "it was replaced while it was fetched; stage it in again".to_string();
                return Err(StageError::of_source(&place.uri, SourceError::Changed(text)));
            }
        }
        Ok(())
    }
}

fn look(opener: &dyn Opener, uri: &str, who: &Identity, stop: &Stop) -> Result<(Place, Arc<dyn Source>)> {
    let source = retried(stop, uri, || opener.open(uri, who))?;
    let stat = || unless_stopped(stop, &source, |source| source.stat(), || ());
    let version = retried(stop, uri, stat)?;
    let probe = || unless_stopped(stop, &source, |source| source.has_ranges(), || ());
    let ranges = retried(stop, uri, probe)?;
    Ok((Place { uri: uri.to_string(), version, ranges }, source))
}

/// Runs a request to a source on a thread of its own, and waits for the answer or the stop flag. So a source without an
/// answer delays no stop. The thread ends at the source's own deadline. Calls `watch` repeatedly until the answer.
fn unless_stopped<T: Send + 'static>(
    stop: &Stop,
    source: &Arc<dyn Source>,
    ask: impl FnOnce(&dyn Source) -> Result<T, SourceError> + Send + 'static,
    mut watch: impl FnMut(),
) -> Result<T, SourceError> {
    let source = source.clone();
    let answered = apart("source", move || ask(&*source));
    let answered = answered.map_err(|e| SourceError::Passing(format!("no thread can be started to read it: {e}")))?;
    loop {
        match answered.recv_timeout(STOP_LOOK_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if stop.is_set() => return Err(SourceError::Passing("stopped".into())),
            Err(RecvTimeoutError::Timeout) => watch(),
            Err(RecvTimeoutError::Disconnected) => return Err(SourceError::Passing("its reader ended".into())),
        }
    }
}

/// Retries passing failures of a source with exponential backoff.
pub(super) fn retried<T>(stop: &Stop, uri: &str, mut work: impl FnMut() -> Result<T, SourceError>) -> Result<T> {
    let (mut wait, began) = (RETRY_FIRST, Instant::now());
    for left in (0..=RETRIES).rev() {
        if stop.is_set() {
            return Err(StageError::Stopped);
        }
        match work() {
            Err(_) if stop.is_set() => return Err(StageError::Stopped),
            Err(SourceError::Passing(_)) if left > 0 && began.elapsed() + wait < TRY_AGAIN_WITHIN => {
                std::thread::sleep(wait);
            }
            other => return other.map_err(|e| StageError::of_source(uri, e)),
        }
        wait *= 2;
    }
    unreachable!("the last try returns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Version;
    use crate::stage::Progress;
    use parking_lot::{Condvar, Mutex};

    /// A source that sends half of a range, and the rest after the test has received that.
    struct Halting(Arc<(Mutex<bool>, Condvar)>);

    impl Source for Halting {
        fn stat(&self) -> Result<Version, SourceError> {
            Ok(Version { size: 100, etag: Some("1".into()), modified_ns: None })
        }

        fn fetch_at(&self, _: &Version, _: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<(), SourceError> {
            arrived.fetch_add(buf.len() as u64 / 2, Ordering::Relaxed);
            let (seen, bell) = &*self.0;
            let waited = bell.wait_while_for(&mut seen.lock(), |seen| !*seen, Duration::from_secs(60));
            assert!(!waited.timed_out(), "half of it was never shown");
            arrived.fetch_add(buf.len() as u64 / 2, Ordering::Relaxed);
            Ok(())
        }

        fn has_ranges(&self) -> Result<bool, SourceError> {
            Ok(true)
        }
    }

    /// [S-422]
    #[test]
    fn bytes_are_shown_as_they_arrive() {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let source: Arc<dyn Source> = Arc::new(Halting(gate.clone()));
        let place = Place { uri: "x://h/a".into(), version: source.stat().expect("version"), ranges: true };
        let sources = Sources {
            list: vec![(place, source)],
            used: vec![AtomicBool::new(false)],
            stop: Stop::default(),
            notes: Vec::new(),
        };
        let report = |progress: &Progress| {
            if progress.done_bytes == 50 {
                *gate.0.lock() = true;
                gate.1.notify_all();
            }
        };
        let meter = Meter::new(&report, "a", 100, 0);
        let bytes = sources.read_at(0, 100, Some(&meter)).expect("read");
        assert_eq!((bytes.len(), meter.fetched_bytes()), (100, 0), "shown, and not written yet");
        meter.add_arrived(100);
        assert_eq!(meter.fetched_bytes(), 100);
    }
}
