//! `layout.explain`: reasons for the layout of a file, in plain words.

use super::layout::name_of;
use crate::daemon::Core;
use engine::file::File;
use engine::mover::words;
use engine::source::Record;
use object::target::State;
use policy::TargetId;
use policy::layout::{Layout, MirrorState, OPEN_END, Reason, Segment};
use policy::units::show_bytes;
use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

/// Reason of a change, in words.
pub fn reason(core: &Core, reason: Reason) -> String {
    words(core.volume.targets(), reason)
}

/// The record of the file's sources, if it has one.
pub fn source(file: &File) -> Option<Record> {
    Record::parse(&file.source().ok().flatten()?).ok()
}

/// Sentences about the layout, its reasons, and the effect of a failed target. A source is named only if it is in
/// `readable`, the record for a user that may read the file.
pub fn sentences(core: &Core, file: &File, readable: Option<&Record>) -> Vec<String> {
    let Some(layout) = file.layout() else {
        let limit = core.volume.config().layout.inline_max;
        let size = file.size();
        return vec![
            format!(
                "Its {size} bytes lie in its stub in the namespace, because it never outgrew {limit} bytes (inline_max)."
            ),
            "It has no objects on targets, so no target's failure can touch it.".into(),
        ];
    };
    let mut told = Vec::new();
    for (number, mirror) in layout.mirrors.iter().enumerate() {
        let state = match mirror.state {
            MirrorState::InSync => "in sync",
            MirrorState::Stale => "stale: it missed a write and is not read until it is resynced",
        };
        told.push(format!("Mirror {number} of {} is {state}.", layout.mirrors.len()));
        told.extend(mirror.segments.iter().map(|s| format!("  {}", segment(core, s))));
    }
    told.extend(turns(&layout));
    told.extend(targets(core, &layout));
    told.extend(core.adapt.sentences(file));
    told.push(safety(&layout, source(file).as_ref(), readable));
    if layout.history.iter().len() > 0 {
        told.push("History of its layout:".into());
    }
    told.extend(changes(layout.history.iter().map(|(at, why)| (moment(at.0), reason(core, *why)))));
    told
}

/// A line for each change; equal ones in a row share a line.
fn changes(history: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut lines: Vec<(String, String, String, u32)> = Vec::new();
    for (at, why) in history {
        match lines.last_mut().filter(|(.., before, _)| *before == why) {
            Some((_, last, _, times)) => (*last, *times) = (at, *times + 1),
            None => lines.push((at.clone(), at, why, 1)),
        }
    }
    let line = |(first, last, why, times): (String, String, String, u32)| match times {
        1 => format!("  {first}  {why}"),
        _ => format!("  {first}  {why} ({times} times, last at {last})"),
    };
    lines.into_iter().map(line).collect()
}

fn segment(core: &Core, s: &Segment) -> String {
    let names: Vec<_> = s.objects.iter().map(|o| name_of(core, o.target)).collect();
    let end = if s.end == OPEN_END { "its end".into() } else { show_bytes(s.end) };
    let how = match s.objects.len() {
        1 => "whole, on".to_string(),
        n => format!("in stripes of {} over {n} objects, on", show_bytes(s.stripe_size)),
    };
    format!("from {} to {end}: {how} {}", show_bytes(s.start), names.join(", "))
}

/// Explains the merge of the file, if it is merged.
fn turns(layout: &Layout) -> Option<String> {
    let merged = layout.objects().find_map(|(_, object)| object.merged)?;
    let (unit, others) = (show_bytes(merged.unit_bytes), merged.of - 1);
    let files = if others == 1 { "other file" } else { "other files" };
    Some(format!(
        "It is merged with {others} {files}: they lie in turns of {unit} in the same objects, so that reading them together is reading \
         one after the other. `entrepot layout split` gives it objects of its own again."
    ))
}

/// Sentences about targets of the file that are not ok, with the consequences.
fn targets(core: &Core, layout: &Layout) -> Vec<String> {
    let all: BTreeSet<_> = layout.objects().map(|(_, o)| o.target).collect();
    let say = |id: TargetId| {
        let name = name_of(core, id);
        match core.volume.targets().get(id).map_or(State::Failed, |t| t.state()) {
            State::Ok => None,
            State::Suspect => Some(format!("Target {name} is suspect: other mirrors are read first.")),
            State::ReadOnly => {
                Some(format!("Target {name} can only be read: writes to its part fail, appended bytes go elsewhere."))
            }
            State::Draining => Some(format!("Target {name} is being emptied: its part will move.")),
            State::Failed => Some(format!("Target {name} is failed: its part is not read from there.")),
        }
    };
    all.into_iter().filter_map(say).collect()
}

/// Sentence about the protection of the file.
fn safety(layout: &Layout, record: Option<&Record>, readable: Option<&Record>) -> String {
    let in_sync = layout.mirrors.iter().filter(|m| m.state == MirrorState::InSync).count();
    let has_source = record.is_some_and(|r| !r.modified && !r.sources.is_empty());
    let uri = readable.and_then(|r| r.sources.first()).map(|place| place.uri.as_str());
    let source = has_source.then(|| uri.unwrap_or("its source"));
    match (in_sync, source) {
        (2.., Some(uri)) => format!("If a target fails, the other mirror is read; if all copies are lost, {uri}."),
        (2.., None) => "If a target fails, the other mirror is read.".into(),
        (_, Some(uri)) => {
            format!("If a target fails, its stripes are fetched again from {uri}, those asked for first.")
        }
        (_, None) if record.is_some_and(|r| r.modified) => {
            "It was written to since it was staged in, so its source cannot bring lost bytes back; a mirror would."
                .into()
        }
        (_, None) => {
            "If a target fails, its part of the file cannot be read: there is neither a second mirror nor a source."
                .into()
        }
    }
}

/// Seconds since 1970 as a date in UTC.
fn moment(ns: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(ns)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::source::{Place, Version};
    use policy::FileId;
    use policy::layout::History;

    #[test]
    fn only_users_that_may_read_a_file_get_the_name_of_its_source() {
        let place = Place { uri: "http://h/a".into(), version: Version::default(), ranges: true };
        let record = Record {
            format: 1,
            sources: vec![place],
            stripe_bytes: 0,
            modified: false,
            uid: 0,
            gid: 0,
            credentials_file: None,
        };
        let layout = Layout { file: FileId(1), generation: 0, mirrors: Vec::new(), history: History::default() };
        assert!(safety(&layout, Some(&record), Some(&record)).contains("again from http://h/a,"));
        assert!(safety(&layout, Some(&record), None).contains("again from its source,"));
        assert!(safety(&layout, None, None).contains("neither a second mirror nor a source"));
    }

    #[test]
    fn equal_changes_in_a_row_share_a_line() {
        let history = [("1", "grew"), ("2", "grew"), ("3", "grew"), ("4", "moved"), ("5", "grew")];
        let lines = changes(history.map(|(at, why)| (at.to_owned(), why.to_owned())).into_iter());
        assert_eq!(lines, ["  1  grew (3 times, last at 3)", "  4  moved", "  5  grew"]);
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(951_782_399 * 1_000_000_000), "2000-02-28T23:59:59Z");
        assert_eq!(moment(951_868_799 * 1_000_000_000), "2000-02-29T23:59:59Z");
        assert_eq!(moment(1_704_067_199 * 1_000_000_000), "2023-12-31T23:59:59Z");
    }
}
