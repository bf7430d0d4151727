//! Data of the dashboard: the volume at a glance, and the layout of one file.
//!
//! All lists are bounded. Without names, the data has nothing about files, users and jobs.

mod glance;
mod rates;

pub use glance::{Glance, ShownFile};
pub(super) use rates::History;

use super::Core;
use super::requests::{explain, layout, status, target};
use super::resolve::Purpose;
use crate::control::answers::{Layout, Row, Status};
use crate::control::{Caller, Result};
use engine::events::Event;
use engine::file::Cluster;
use engine::mover::Phase;
use engine::stats::Op;
use glance::{Drain, Move, ShownBurst, ShownVersion};
use object::target::State;
use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

/// Maximum of events, and of running moves.
const EVENTS_MAX: usize = 60;
const MOVES_MAX: usize = 50;
/// Maximum of applications of the burst buffer, and of their versions.
const APPLICATIONS_MAX: usize = 50;
const VERSIONS_MAX: usize = 50;
/// Maximum of segments and objects drawn for one file.
const SEGMENTS_MAX: usize = 200;
const OBJECTS_MAX: usize = 1000;
/// Maximum of sentences about a file: a file of many segments has one for each.
const SENTENCES_MAX: usize = 300;

impl Core {
    /// The volume at a glance. Requests data from the state store and the leader, so it may take as long as they do.
    pub fn at_a_glance(self: &Arc<Self>, with_names: bool) -> Result<Glance> {
        let mut status = status::status(self, &Caller::daemon())?;
        let problems = self.problems(&status);
        let burst = status.burst.take().flatten().map(|mut burst| {
            burst.applications.truncate(if with_names { APPLICATIONS_MAX } else { 0 });
            let versions =
                |buffer: &Arc<_>| versions(crate::adapt::burst::Burst::rows_of_all(buffer, &Caller::daemon()));
            ShownBurst { burst, versions_shown: self.adapt.burst().filter(|_| with_names).map(versions) }
        });
        let mut facts = status.facts;
        if !with_names {
            facts.stripes.iter_mut().for_each(|stripes| stripes.decisions.clear());
            facts.tiering.iter_mut().flat_map(|tiering| &mut tiering.counts).for_each(|counts| counts.hot.clear());
        }
        Ok(Glance {
            facts,
            with_names,
            host: object::host::name(),
            now_ms: super::now_ns() / 1_000_000,
            problems,
            tiers: target::tiers(self),
            targets: status.targets.into_iter().map(Into::into).collect(),
            nodes: status.nodes.into_iter().flat_map(|nodes| nodes.nodes).map(Into::into).collect(),
            mover: status.mover.counts,
            rates: self.rates(),
            moves: self.moves(with_names),
            drains: self.drains(),
            events: self.newest_events(with_names),
            burst,
            mount_point: with_names.then_some(status.mount_point),
        })
    }

    /// Problems that need an operator.
    fn problems(&self, status: &Status) -> Vec<String> {
        let mut problems = Vec::new();
        if status.state_away.is_some() {
            problems.push("the state store does not answer".into());
        }
        if self.nodes.as_ref().is_some_and(|nodes| !nodes.has_lease()) {
            problems.push("this node has no lease".into());
        }
        if let Some(files) = status.away.as_ref().map(|away| away.files) {
            problems.push(format!("{files} files cannot be read now: `entrepot find --state away` lists them"));
        }
        problems.extend(self.targets_in_trouble());
        let targets = self.volume.targets().all();
        let read_only = targets.iter().filter(|target| target.state() == State::ReadOnly);
        problems.extend(read_only.map(|target| format!("target {} can only be read", target.name())));
        problems
    }

    fn rates(&self) -> Vec<rates::Rate> {
        let stats = self.volume.stats();
        let copied = stats.bytes(Op::Copy);
        let (read, written) = (stats.bytes(Op::Read) + copied, stats.bytes(Op::Write) + copied);
        self.rates.sample(self.started.elapsed(), rates::Counts { read, written, staged: self.under_way.moved_bytes() })
    }

    fn moves(&self, with_names: bool) -> Vec<Move> {
        let all = self.mover.progress().list();
        let running = all.iter().filter(|entry| entry.phase == Phase::Copying).take(MOVES_MAX);
        let one = |entry: &engine::mover::ProgressEntry| {
            let (done_bytes, total_bytes) = (entry.done_bytes, entry.total_bytes);
            let left = total_bytes.saturating_sub(done_bytes);
            let left_s =
                (done_bytes > 0).then(|| (entry.lasted.as_secs_f64() * left as f64 / done_bytes as f64) as u64);
            let path = || entry.file.parse().map_or_else(|_| entry.file.clone(), |id| self.pool.name_of(id));
            let (path, why) = (with_names.then(path), with_names.then(|| entry.why.clone()));
            Move { number: entry.id, what: entry.verb, by: entry.by, done_bytes, total_bytes, left_s, path, why }
        };
        running.map(one).collect()
    }

    fn drains(&self) -> Vec<Drain> {
        let drains = self.background.drains().into_iter();
        drains.map(|(id, progress)| Drain { target: layout::name_of(self, id), progress }).collect()
    }

    fn newest_events(&self, with_names: bool) -> Vec<Event> {
        let newest = self.pool.events.newest(EVENTS_MAX, |event| with_names || event.for_all);
        newest.iter().map(|event| Event::clone(event)).collect()
    }

    /// Layout of the file at that path, with reasons. The path is absolute or relative to the mount point.
    pub fn how_it_lies(&self, path: &str) -> Result<ShownFile> {
        let below = Path::new(path).strip_prefix(&self.mount_point).unwrap_or(Path::new(path));
        let below = below.to_str().unwrap_or(path).trim_start_matches('/');
        let (file, stat) = self.file_of(&Caller::daemon(), below, Purpose::See)?;
        let mut layout = layout::describe(self, below, &file);
        cut(&mut layout);
        let mut sentences = explain::sentences(self, &file, explain::source(&file).as_ref());
        sentences.truncate(SENTENCES_MAX);
        Ok(ShownFile { layout, sentences, heat: self.adapt.heat(&file, SEGMENTS_MAX), uid: stat.st_uid })
    }
}

/// Rows of versions: first those that wait or are being written, then the newest.
fn versions(mut rows: Vec<Row>) -> Vec<ShownVersion> {
    rows.sort_by_key(|row| (row.state == "complete", Reverse(row.number)));
    let one = |row: Row| {
        let Row { app, label, state, bytes, files, place, at_ms, .. } = row;
        ShownVersion { app, label, state, bytes, files: files.len(), place, at_ms }
    };
    rows.into_iter().take(VERSIONS_MAX).map(one).collect()
}

/// Limits the segments and objects in total, and records the full length of each list.
fn cut(file: &mut Layout) {
    let (mut segments_left, mut objects_left) = (SEGMENTS_MAX, OBJECTS_MAX);
    for mirror in &mut file.mirrors {
        mirror.segments_count = Some(mirror.segments.len());
        mirror.segments.truncate(segments_left);
        segments_left -= mirror.segments.len();
        for segment in &mut mirror.segments {
            segment.objects_count = Some(segment.objects.len());
            segment.objects.truncate(objects_left);
            objects_left -= segment.objects.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::answers::{Mirror, Object, Segment};

    #[test]
    fn a_file_of_many_pieces_is_cut_and_says_so() {
        let segment = Segment { objects: vec![Object::default(); 512], ..Segment::default() };
        let mirror = Mirror { segments: vec![segment; 300], ..Mirror::default() };
        let mut file = Layout { mirrors: vec![mirror.clone(), mirror], ..Layout::default() };
        cut(&mut file);
        let [first, second] = &file.mirrors[..] else { panic!("two mirrors") };
        assert_eq!([first.segments.len(), second.segments.len()], [SEGMENTS_MAX, 0]);
        assert_eq!([first.segments_count, second.segments_count], [Some(300); 2]);
        assert_eq!(first.segments[1].objects.len(), OBJECTS_MAX - 512);
        assert_eq!((first.segments[2].objects.len(), first.segments[2].objects_count), (0, Some(512)));
    }
}
