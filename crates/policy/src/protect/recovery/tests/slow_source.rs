//! Readers of several files at a source that is slower than their total demand.

use super::*;
use std::collections::BTreeMap;

/// Number of rows of a lost object.
const ROWS: u64 = 8;
/// Time of a row alone at the source.
const ROW_MS: f64 = 1000.0 / 6.0;
/// Computing time of a reader after each block; every fourth block is one of the lost object.
const COMPUTE_MS: f64 = 200.0;

/// One reader of some rows of one file, in order.
struct Reader {
    file: u64,
    block: u64,
    end_block: u64,
    /// Time of its next request; `None` while it waits for a row, and at its end.
    ready_ms: Option<f64>,
    /// Time of its last request.
    asked_ms: f64,
    end_ms: f64,
}

impl Reader {
    /// `begin_ms` delays the start of the reader: without different delays the readers could not be distinguished.
    fn new(file: u64, rows: Range<u64>, begin_ms: u64) -> Reader {
        let (block, end_block) = (4 * rows.start, 4 * rows.end);
        Reader { file, block, end_block, ready_ms: Some(begin_ms as f64), asked_ms: 0.0, end_ms: 0.0 }
    }

    /// Passes the rank its block, so that it computes.
    fn has_read(&mut self, now_ms: f64) {
        self.block += 1;
        self.end_ms = now_ms + COMPUTE_MS;
        self.ready_ms = (self.block < self.end_block).then_some(self.end_ms);
    }
}

/// Runs the readers at a source that shares its rate equally among fetches. Returns the end of the last reader, and the
/// longest wait.
fn run(config: Config, rows_lost: u64, mut readers: Vec<Reader>) -> (f64, f64) {
    let key = |k: u64| Key { file: FileId(k), lost: ObjectId(100 + k) };
    let time = |ms: f64| Time((ms * 1e6) as u64);
    let mut machine = Recovery::new(config);
    // Remaining work of each row under way.
    let mut rows: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    let (mut now, mut longest) = (0.0, 0.0f64);
    while readers.iter().any(|r| r.block < r.end_block) {
        let next_reader = readers.iter().filter_map(|r| r.ready_ms).fold(f64::INFINITY, f64::min);
        let row_takes = rows.len() as f64 * ROW_MS;
        let first = rows.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(at, left)| (*at, now + left * row_takes));
        let event = match first {
            Some(((file, row), at)) if at < next_reader => {
                rows.values_mut().for_each(|left| *left -= (at - now) / row_takes);
                rows.remove(&(file, row));
                now = at;
                Some(Event::Patched { key: key(file), row })
            }
            _ => {
                rows.values_mut().for_each(|left| *left -= (next_reader - now) / row_takes);
                now = next_reader;
                let n = readers.iter().position(|r| r.ready_ms == Some(now)).expect("somebody is ready");
                let row = readers[n].block / 4;
                let reader = &mut readers[n];
                if reader.block % 4 == 1 && !machine.is_patched(key(reader.file), row) {
                    (reader.ready_ms, reader.asked_ms) = (None, now);
                    Some(Event::ReadBlocked { key: key(reader.file), waiter: n as u64, rows: row..row + 1 })
                } else {
                    reader.has_read(now);
                    None
                }
            }
        };
        let mut events: Vec<Event> = event.into_iter().collect();
        while let Some(event) = events.pop() {
            for action in after(&mut machine, time(now), event) {
                match action {
                    Action::ChooseSpare(key) => {
                        let new_object = ObjectId(200 + key.file.0);
                        events.push(Event::SpareReady { key, new_object, rows: rows_lost, sources: 1 });
                    }
                    Action::Publish { key, .. } => events.push(Event::Published(key)),
                    Action::Fetch { key, row, .. } => drop(rows.insert((key.file.0, row), 1.0)),
                    Action::Wake { waiter, outcome } => {
                        assert_eq!(outcome, Outcome::Ok);
                        let reader = &mut readers[waiter as usize];
                        longest = longest.max(now - reader.asked_ms);
                        reader.has_read(now);
                    }
                    Action::Discard { .. } | Action::Finish { .. } | Action::Forgotten { .. } => {}
                }
            }
        }
    }
    (readers.iter().fold(0.0, |last, r| r.end_ms.max(last)), longest)
}

/// The source delivers 48 rows in 8 s; a reader without losses needs 6.4 s.
#[test]
fn the_last_reader_ends_soon_after_the_sources_last_row() {
    let live = Config { rows_per_key_max: 4, ..Config::default() };
    let readers = || (0..6).map(|file| Reader::new(file, 0..ROWS, file)).collect();
    let (end, longest) = run(live.clone(), ROWS, readers());
    let (end_unpaced, longest_unpaced) = run(Config { row_within: Time::from_secs(1000), ..live }, ROWS, readers());
    let said = format!("{end:.0} ms, longest wait {longest:.0}; without a pace {end_unpaced:.0}, {longest_unpaced:.0}");
    assert!(end < 9500.0 && longest < 1500.0, "{said}");
    assert!(end_unpaced > end && longest_unpaced > longest, "{said}");
}

/// Two ranks read the last quarter of one file, which takes 6.4 s without losses. In the order of the object they would
/// wait for three quarters that they do not read.
#[test]
fn what_lies_ahead_of_readers_comes_before_the_rest() {
    let readers = vec![Reader::new(0, 6 * ROWS..7 * ROWS, 0), Reader::new(0, 7 * ROWS..8 * ROWS, 1)];
    let (end, longest) = run(Config::default(), 8 * ROWS, readers);
    assert!(end < 7500.0 && longest < 1000.0, "{end:.0} ms, longest wait {longest:.0}");
}
