//! `trace.record`: sends the reads and writes that the mount answers, without names and users, within limits.

use crate::control::answers::{RecordEnd, TraceLines, TraceRecord};
use crate::control::{Caller, Problem, RecordTrace, Responder};
use crate::daemon::Core;
use engine::stats::{Recorded, Recording};
use std::collections::HashMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// First line of a recording. `entrepot-lab` recognises the format by it.
const HEADING: &str = "time_ns,client,file,op,offset,length,duration_ns\n";
/// Interval of looks at the queue. In this time it takes a million operations a second.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Operations in one line of progress, about 60 bytes each.
const PART: usize = 1000;
/// Limits of any recording, so that a forgotten one ends. Guesses.
const SECONDS_MAX: u64 = 24 * 3600;
const BYTES_MAX: u64 = 16 << 30;

pub fn record(
    core: &Core,
    caller: &Caller,
    limits: RecordTrace,
    out: &mut Responder<'_>,
) -> Result<TraceRecord, Problem> {
    caller.must_be_operator("record what the volume serves")?;
    if !(1..=SECONDS_MAX).contains(&limits.seconds) || !(1..=BYTES_MAX).contains(&limits.bytes_max) {
        return Err(Problem::wrong("a recording takes from 1 second to a day, and at most 16 GiB")
            .so("nothing was recorded")
            .try_this("give other limits with --for and --size-max"));
    }
    let stats = core.volume.stats();
    let recording = stats.recorder().start().ok_or_else(|| {
        Problem::busy("another recording runs").so("nothing was recorded").try_this("wait for its end, or stop it")
    })?;
    Ok(send(&recording, limits, out))
}

/// Sends batches of lines until a limit is reached or the client hangs up.
fn send(recording: &Recording<'_>, limits: RecordTrace, out: &mut Responder<'_>) -> TraceRecord {
    let (began, mut sheet, mut batch) = (Instant::now(), Sheet::default(), Vec::new());
    let until = Duration::from_secs(limits.seconds);
    sheet.sum.bytes = HEADING.len() as u64;
    if !out.progress(&TraceLines { lines: HEADING.into() }) {
        sheet.sum.end = RecordEnd::Stop;
        return sheet.sum;
    }
    loop {
        let is_over = began.elapsed() >= until;
        sheet.sum.dropped += recording.take(&mut batch);
        for part in batch.chunks(PART) {
            let (lines, is_full) = sheet.lines(began, part, limits.bytes_max);
            if !out.progress(&TraceLines { lines }) {
                return sheet.ended(began, RecordEnd::Stop);
            }
            if is_full {
                return sheet.ended(began, RecordEnd::Size);
            }
        }
        if is_over || out.stop().is_set() {
            return sheet.ended(began, if is_over { RecordEnd::Time } else { RecordEnd::Stop });
        }
        std::thread::sleep(LOOK_EVERY.min(until.saturating_sub(began.elapsed())));
    }
}

/// Lines of a recording with their sums. Files and opens are numbered by first use.
#[derive(Default)]
struct Sheet {
    files: HashMap<u64, usize>,
    opens: HashMap<(u64, u64), usize>,
    read: Duration,
    written: Duration,
    sum: TraceRecord,
}

impl Sheet {
    /// Formats operations. Returns the lines that fit, and whether one did not.
    fn lines(&mut self, began: Instant, operations: &[Recorded], bytes_max: u64) -> (String, bool) {
        let mut lines = String::new();
        for Recorded { began: at, took, position, bytes, write } in operations {
            let (files, opens) = (self.files.len(), self.opens.len());
            let file = *self.files.entry(position.file).or_insert(files);
            // Numbers of opens are used again for other files.
            let open = *self.opens.entry((position.file, position.open)).or_insert(opens);
            let (op, offset) = (if *write { 'w' } else { 'r' }, position.offset);
            let (at_ns, took_ns) = (at.saturating_duration_since(began).as_nanos(), took.as_nanos());
            let before = lines.len();
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{at_ns},{open},{file},{op},{offset},{bytes},{took_ns}");
            let added = (lines.len() - before) as u64;
            if self.sum.bytes + added > bytes_max {
                lines.truncate(before);
                return (lines, true);
            }
            self.sum.bytes += added;
            let (count, sum, time) = match write {
                true => (&mut self.sum.writes, &mut self.sum.written_bytes, &mut self.written),
                false => (&mut self.sum.reads, &mut self.sum.read_bytes, &mut self.read),
            };
            (*count, *sum, *time) = (*count + 1, *sum + bytes, *time + *took);
        }
        (lines, false)
    }

    fn ended(self, began: Instant, end: RecordEnd) -> TraceRecord {
        let mean_ms = |sum: Duration, count: u64| sum.as_secs_f64() * 1e3 / count.max(1) as f64;
        let (read_mean_ms, write_mean_ms) =
            (mean_ms(self.read, self.sum.reads), mean_ms(self.written, self.sum.writes));
        TraceRecord { seconds: began.elapsed().as_secs_f64(), read_mean_ms, write_mean_ms, end, ..self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::{Position, Recorder};
    use object::stop::Stop;
    use std::sync::Arc;

    fn operation(file: u64, open: u64, offset: u64, write: bool) -> Recorded {
        let position = Position { file, open, offset };
        Recorded { began: Instant::now(), took: Duration::from_millis(2), position, bytes: 4096, write }
    }

    /// Sends what was recorded within the limits; returns the lines and the summary.
    fn sent(limits: RecordTrace, operations: &[Recorded], hangs_up: bool) -> (String, TraceRecord) {
        let (recorder, mut text) = (Recorder::default(), String::new());
        let recording = recorder.start().expect("none runs");
        operations.iter().for_each(|operation| recorder.add(*operation));
        let mut progress = |value: serde_json::Value| {
            text += value["lines"].as_str().expect("lines");
            !hangs_up
        };
        let sum = send(&recording, limits, &mut Responder::new(&mut progress, Arc::new(Stop::default())));
        (text, sum)
    }

    #[test]
    fn files_and_opens_get_numbers_and_nothing_else_is_told() {
        let operations = [operation(907, 11, 0, false), operation(907, 27, 4096, false), operation(33, 11, 0, true)];
        let (text, sum) = sent(RecordTrace { seconds: 1, bytes_max: 1 << 20 }, &operations, false);
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let shown: Vec<_> = rows.iter().map(|row| row[1..].join(",")).collect();
        assert_eq!(shown, ["0,0,r,0,4096,2000000", "1,0,r,4096,4096,2000000", "2,1,w,0,4096,2000000"]);
        assert_eq!((sum.reads, sum.writes, sum.dropped, sum.end), (2, 1, 0, RecordEnd::Time));
        assert_eq!((sum.bytes, sum.read_mean_ms), (text.len() as u64, 2.0));
        assert!(text.starts_with(HEADING));
    }

    #[test]
    fn a_recording_ends_at_its_size_in_whole_lines() {
        let operations: Vec<_> = (0..100).map(|at| operation(1, 1, at * 4096, false)).collect();
        let (text, sum) = sent(RecordTrace { seconds: 60, bytes_max: 1000 }, &operations, false);
        assert_eq!((sum.end, sum.bytes), (RecordEnd::Size, text.len() as u64));
        assert!(text.len() <= 1000 && text.ends_with('\n') && sum.reads as usize == text.lines().count() - 1);
    }

    #[test]
    fn a_client_that_hangs_up_ends_it() {
        let (_, sum) = sent(RecordTrace { seconds: 60, bytes_max: 1000 }, &[operation(1, 1, 0, false)], true);
        assert_eq!((sum.end, sum.reads), (RecordEnd::Stop, 0));
    }
}
