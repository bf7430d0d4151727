//! What `entrepot status` and `entrepot explain` say about tiering.

use super::Tiering;
use super::thread::location;
use crate::file::File;
use policy::FileId;
use policy::tier::machine::{Action, Logged, Stats};
use policy::tier::{Move, Tier};
use serde_json::{Value, json};
use std::time::Duration;

/// Hot segments that a status names.
const HOT_MAX: usize = 5;
/// Segments whose temperature is told of one file.
const SEGMENTS_MAX: usize = 32;

/// A move or a copy that ended.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// What was to be done.
    pub of: Action,
    /// Whether it was.
    pub done: bool,
    /// When, since the start.
    pub at: Duration,
}

/// How tiering is.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was done so far.
    pub stats: Stats,
    /// Segments on the fast tier.
    pub fast_segments: usize,
    /// Segments that it has room for besides.
    pub room_segments: u64,
    /// Segments in the working set: read, written.
    pub working_set: (usize, usize),
    /// Moves that wait and that are under way.
    pub pending: (usize, usize),
    /// Slow copies that are kept below segments on the fast tier.
    pub copies: usize,
    /// Slow copies that are being made.
    pub copying: usize,
}

impl Tiering {
    /// How it is; `None` while the devices are being measured.
    pub fn report(&self) -> Option<Report> {
        let inner = self.inner.lock();
        let machine = inner.machine.as_ref()?;
        Some(Report {
            stats: machine.stats(),
            fast_segments: machine.fast_locations(),
            room_segments: machine.free_locations(),
            working_set: machine.working_set(),
            pending: machine.pending(),
            copies: self.mover.copies(),
            copying: machine.copies().1,
        })
    }

    /// For `entrepot status`.
    pub(crate) fn status(&self) -> Value {
        let Some(report) = self.report() else {
            return json!({"policy": self.wish.tiering.policy.word(), "measuring": true});
        };
        let (hot, threshold, paused) = {
            let inner = self.inner.lock();
            let machine = inner.machine.as_ref();
            (machine.map(|m| m.hottest(HOT_MAX)).unwrap_or_default(), machine.and_then(|m| m.threshold()), inner.paused)
        };
        let hot: Vec<Value> = hot
            .iter()
            .map(|t| {
                let id = FileId(t.location.file);
                let path = self.files.pool().path_of(id).map(|path| path.display().to_string());
                json!({
                    "file": path.unwrap_or_else(|| id.to_string()),
                    "segment": t.location.segment,
                    "reads": t.reads,
                    "writes": t.writes,
                    "tier": t.tier.to_string(),
                })
            })
            .collect();
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        json!({
            "policy": self.wish.tiering.policy.word(),
            "measuring": false,
            "paused": paused,
            "accesses": report.stats.accesses,
            "fast_share": share(report.stats.fast_accesses, report.stats.accesses),
            "working_set": report.working_set.0.max(report.working_set.1),
            "fast_segments": report.fast_segments,
            "room_segments": report.room_segments,
            "segment_bytes": self.wish.segment_bytes,
            "promoted": report.stats.promoted,
            "demoted": report.stats.demoted,
            "failed": report.stats.failed,
            "waiting": report.pending.0,
            "moving": report.pending.1,
            "copies": report.copies,
            "copied": report.stats.copied,
            "copying": report.copying,
            "threshold": threshold,
            "hot": hot,
        })
    }

    /// For `entrepot explain`: the temperature of a file's segments, and why those were moved that were lately.
    pub(crate) fn sentences(&self, file: &File) -> Vec<String> {
        let Some(layout) = file.layout() else { return Vec::new() };
        let inner = self.inner.lock();
        let Some(machine) = &inner.machine else {
            return vec!["Tiering measures the devices; temperatures are counted from then on.".into()];
        };
        let all: Vec<_> = self.ear.segments(&layout).collect();
        if all.is_empty() {
            return vec![
                "Tiering leaves it where it is: its segment has no end (it grew before `[layout] segment` was set)."
                    .into(),
            ];
        }
        let mut told = vec!["Temperature of its segments (accesses within the window):".to_owned()];
        let segments = super::ear::read_from(&layout).map_or(&[][..], |(_, segments)| segments);
        for (location, tier, _) in all.iter().take(SEGMENTS_MAX) {
            let t = machine.look_at(*location);
            let moving = if t.moving { format!(", on its way to the {} tier", tier.other()) } else { String::new() };
            told.push(format!(
                "  segment {}: {} reads, {} writes, on the {tier} tier{}{moving}",
                location.segment,
                t.reads,
                t.writes,
                segments
                    .get(location.segment as usize)
                    .filter(|segment| self.mover.has_copy(layout.file, segment))
                    .map_or("", |_| ", its slow copy kept"),
            ));
        }
        if all.len() > SEGMENTS_MAX {
            told.push(format!("  and {} more segments", all.len() - SEGMENTS_MAX));
        }
        let of_file = |recent: &&Recent| location(&recent.of).file == layout.file.0;
        for recent in inner.recent.iter().filter(of_file) {
            let ago = inner.began.elapsed().saturating_sub(recent.at).as_secs();
            let segment = location(&recent.of).segment;
            told.push(match (recent.of, recent.done) {
                (Action::Move(Move { to, reason, .. }), done) => {
                    let what = if done { "moved" } else { "not moved, though wanted," };
                    format!("  {ago} s ago segment {segment} was {what} to the {to} tier: {reason}.")
                }
                (Action::Copy(_), true) => {
                    format!("  {ago} s ago segment {segment} got a slow copy while the devices were idle.")
                }
                (Action::Copy(_), false) => {
                    format!("  {ago} s ago a slow copy of segment {segment} was given up: it was in use, or there was no room.")
                }
            });
        }
        told
    }

    /// What the machine was told and said, without what depends on when somebody looked: for a comparison of drivers.
    pub fn log(&self) -> Vec<Logged> {
        self.inner.lock().machine.as_ref().map_or_else(Vec::new, |machine| machine.log().to_vec())
    }

    /// Where the machine has a segment.
    pub fn tier(&self, location: policy::tier::Location) -> Tier {
        self.inner.lock().machine.as_ref().map_or(Tier::Slow, |machine| machine.tier(location))
    }
}
