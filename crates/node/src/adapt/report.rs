//! Reports on tiers and stripes for `entrepot status` and `entrepot explain`.

use super::Adapt;
use super::record::read_from;
use super::stripes::shown;
use crate::control::answers::{Heat, HotSegment, Note, SegmentHeat, Stripes, Tiering, TieringCounts};
use engine::file::File;
use policy::FileId;
use policy::layout::Layout;
use policy::stripe::advice::Mode;
use policy::tier::{Location, Tier};
use policy::volume::ownership::Mechanism;

/// Maximum of hot segments in a status.
const HOT_MAX: usize = 5;
/// Limit of segments of one file whose temperature is reported.
const SEGMENTS_MAX: usize = 32;
/// Maximum of stripe decisions in a status.
const DECISIONS_MAX: usize = 16;

impl Adapt {
    /// Counts of tiering, without the hot segments; `None` while the devices are being measured.
    pub fn report(&self) -> Option<TieringCounts> {
        let machine = self.driver.machine();
        let tiers = machine.tiers()?;
        let (stats, working_set, pending) = (tiers.stats(), tiers.working_set(), tiers.pending());
        let fast_share = if stats.accesses == 0 { 0.0 } else { stats.fast_accesses as f64 / stats.accesses as f64 };
        Some(TieringCounts {
            paused: self.tiers.is_paused(),
            accesses: stats.accesses,
            fast_share,
            working_set: working_set.0.max(working_set.1),
            fast_segments: tiers.fast_locations(),
            room_segments: tiers.free_locations(),
            segment_bytes: self.settings.segment_bytes,
            promoted: stats.promoted,
            demoted: stats.demoted,
            failed: stats.failed,
            waiting: pending.0,
            moving: pending.1,
            copies: self.mover.copies(),
            copied: stats.copied,
            copying: tiers.copies().1,
            threshold: tiers.threshold(),
            hot: Vec::new(),
        })
    }

    /// Tiers, for `entrepot status`, with files by number; `None` without moves between tiers.
    pub(crate) fn status_of_tiers(&self) -> Option<Tiering> {
        if !self.has_tiers() {
            return None;
        }
        let mut counts = self.report();
        if let (Some(counts), Some(tiers)) = (&mut counts, self.driver.machine().tiers()) {
            let hot = tiers.hottest(HOT_MAX).into_iter().map(|t| HotSegment {
                file: FileId(t.location.file).to_string(),
                segment: t.location.segment,
                reads: t.reads,
                writes: t.writes,
                tier: t.tier.to_string(),
            });
            counts.hot.extend(hot);
        }
        Some(Tiering { policy: self.settings.tiering.policy.name().to_owned(), measuring: counts.is_none(), counts })
    }

    /// Stripes, for `entrepot status`; `None` without sensors.
    pub(crate) fn status_of_stripes(&self) -> Option<Stripes> {
        let now = self.driver.now();
        let asked = self.striper(|striper| (striper.load(now), striper.len(), striper.placement(None)));
        let ((load, writes), known, placement) = asked?;
        let mode = match self.settings.stripes.as_ref()?.mode {
            Mode::Fixed(_) => "fixed",
            Mode::Model => "model",
            Mode::Fuzzy => "fuzzy",
            Mode::ModelFuzzy => "model+fuzzy",
        };
        let devices = &self.settings.devices;
        let decided = self.history.of(Mechanism::Stripes);
        let latest = decided.iter().skip(decided.len().saturating_sub(DECISIONS_MAX));
        Some(Stripes {
            mode: mode.into(),
            requests_per_s: load.rate,
            request_bytes: load.bytes,
            writes_share: writes,
            files: known,
            files_with_forks: self.recorder.forks.count(),
            new_files: placement.map(|shape| shown(&shape)),
            device: devices.each.to_string(),
            device_measured: devices.are_measured,
            targets: devices.count,
            decisions: latest.map(|(at_ms, text)| Note { at_ms: *at_ms, text: text.clone() }).collect(),
        })
    }

    /// For `entrepot explain`: the load of a file, and the temperature of its segments.
    pub(crate) fn sentences(&self, file: &File) -> Vec<String> {
        let Some(layout) = file.layout() else { return Vec::new() };
        let mut told = self.of_load(layout.file, layout.mirrors.len());
        if self.has_tiers() {
            told.extend(self.of_temperature(&layout));
        }
        told
    }

    fn of_load(&self, id: FileId, mirrors: usize) -> Vec<String> {
        let now = self.driver.now();
        let Some(view) = self.striper(|striper| striper.view(now, id)).flatten() else { return Vec::new() };
        let mut told = Vec::new();
        if view.load.rate > 0.0 {
            let mut line = format!(
                "Recent load: {:.1} requests per second of {:.0} KiB, {:.0} % of them writes",
                view.load.rate,
                view.load.bytes / 1024.0,
                view.writes * 100.0
            );
            if view.response_s.is_finite() {
                line += &format!("; as it lies, {:.1} ms are expected for one", view.response_s * 1e3);
            }
            told.push(line + ".");
        }
        if let Some(pattern) = view.pattern {
            told.push(format!("Its last requests look like this: {pattern}."));
        }
        if self.recorder.forks.has(id) {
            let forks = mirrors - self.recorder.forks.keep(id, mirrors);
            told.push(format!(
                "{forks} of its {mirrors} mirrors are forks: each read takes the one that answers first."
            ));
        }
        if let Some((at, what, why)) = view.last {
            told.push(format!("{:.0} s ago it {what}: {why}.", now.since(at).as_secs_f64()));
        }
        told
    }

    fn of_temperature(&self, layout: &Layout) -> Vec<String> {
        let all: Vec<_> = self.recorder.segments(layout).collect();
        let machine = self.driver.machine();
        let Some(tiers) = machine.tiers() else {
            return vec!["Tiering measures the devices; temperatures are counted from then on.".into()];
        };
        if all.is_empty() {
            return vec![
                "Tiering leaves it where it is: its segment has no end (it grew before `[layout] segment` was set)."
                    .into(),
            ];
        }
        let mut told = vec!["Temperature of its segments (accesses within the window):".to_owned()];
        for (index, (segment, tier)) in all.iter().enumerate().take(SEGMENTS_MAX) {
            let t = tiers.look_at(Location { file: layout.file.0, segment: index as u64 });
            let moving = if t.moving { format!(", on its way to the {} tier", tier.other()) } else { String::new() };
            let copied = if self.mover.has_copy(layout.file, segment) { ", its slow copy kept" } else { "" };
            told.push(format!(
                "  segment {index}: {} reads, {} writes, on the {tier} tier{copied}{moving}",
                t.reads, t.writes
            ));
        }
        drop(machine);
        if all.len() > SEGMENTS_MAX {
            told.push(format!("  and {} more segments", all.len() - SEGMENTS_MAX));
        }
        told.extend(self.history.of_file(Mechanism::Tiers, layout.file));
        told
    }

    /// Accesses within the window to the segments of a file's mirror that is read; null without tiers.
    pub(crate) fn heat(&self, file: &File, segments_max: usize) -> Option<Heat> {
        let layout = file.layout()?;
        let all: Vec<_> = self.recorder.segments(&layout).take(segments_max).collect();
        let machine = self.driver.machine();
        let (tiers, (mirror, _)) = (machine.tiers()?, read_from(&layout)?);
        let one = |(index, (_, tier)): (u64, &(_, Tier))| {
            let t = tiers.look_at(Location { file: layout.file.0, segment: index });
            SegmentHeat { reads: t.reads, writes: t.writes, tier: tier.to_string(), moving: t.moving }
        };
        Some(Heat { mirror, segments: (0..).zip(&all).map(one).collect() })
    }
}
