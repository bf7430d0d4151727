//! Data of the dashboard: the volume at a glance, and the layout of one file.
//!
//! All lists are bounded. Without names, the data has nothing about files, users and jobs.

use super::Core;
use super::requests::{explain, layout, status, target};
use super::resolve::Purpose;
use crate::adapt::burst::Row;
use crate::control::{Caller, Problem};
use crate::mover::Phase;
use crate::target::State;
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

/// Maximum of events, and of moves under way.
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

/// Fields that reveal nothing of files, users and jobs.
const OF_VOLUME: [&str; 6] = ["name", "id", "version", "uptime_s", "total_bytes", "free_bytes"];
const OF_TARGET: [&str; 6] = ["name", "tier", "state", "only_on", "total_bytes", "free_bytes"];
const OF_NODE: [&str; 6] = ["node", "host", "since_ms", "is_self", "leads", "state"];
const OF_MOVER: [&str; 4] = ["running", "changes_done", "changes_failed", "bytes_copied"];

impl Core {
    /// The volume at a glance. Requests data from the state store and the leader, so it may take as long as they do.
    pub fn at_a_glance(self: &Arc<Self>, with_names: bool) -> Result<Value, Problem> {
        let mut status = json!(status::status(self, &operator())?);
        let mut shown = picked(&status, &OF_VOLUME);
        shown["with_names"] = json!(with_names);
        shown["host"] = json!(crate::host::name());
        shown["now_ms"] = json!(super::now_ns() / 1_000_000);
        shown["problems"] = json!(self.problems(&status));
        shown["tiers"] = json!(target::tiers(self));
        shown["targets"] = list(&status["targets"], &OF_TARGET);
        shown["nodes"] = list(&status["nodes"], &OF_NODE);
        shown["mover"] = picked(&status["mover"], &OF_MOVER);
        shown["moves"] = self.moves(with_names);
        shown["drains"] = self.drains();
        shown["events"] = self.newest_events(with_names);
        for part in ["repair", "cache", "quotas", "burst", "stripes", "tiering", "garbage_objects"] {
            shown[part] = status[part].take();
        }
        if with_names {
            shown["mount_point"] = json!(self.mount_point);
            if let Some(Value::Array(all)) = shown["burst"].get_mut("applications") {
                all.truncate(APPLICATIONS_MAX);
            }
            // A node without data of the buffer has no versions either.
            if let Some(burst) = self.adapt.burst().filter(|_| shown["burst"].is_object()) {
                shown["burst"]["versions_shown"] = versions(burst.rows_of_all(&operator()));
            }
        } else {
            for (part, names) in [("burst", "applications"), ("stripes", "decisions"), ("tiering", "hot")] {
                shown[part].as_object_mut().and_then(|part| part.remove(names));
            }
        }
        Ok(shown)
    }

    /// Problems that need an operator.
    fn problems(&self, status: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        if status.get("state_away").is_some() {
            problems.push("the store of the state does not answer".into());
        }
        if self.nodes.as_ref().is_some_and(|nodes| !nodes.has_lease()) {
            problems.push("this node has no lease".into());
        }
        if let Some(files) = status["away"]["files"].as_u64() {
            problems.push(format!("{files} files cannot be read now: `entrepot find --state away` lists them"));
        }
        for target in self.volume.targets().all() {
            match target.state() {
                State::Failed if target.is_given_up() => problems.push(format!("target {} is failed", target.name())),
                State::Suspect => problems.push(format!("target {} does not answer", target.name())),
                State::ReadOnly => problems.push(format!("target {} can only be read", target.name())),
                State::Failed | State::Ok | State::Draining => {}
            }
        }
        problems
    }

    fn moves(&self, with_names: bool) -> Value {
        let all = self.mover.progress().list();
        let running = all.iter().filter(|entry| entry.phase == Phase::Copying).take(MOVES_MAX);
        let one = |entry: &crate::mover::ProgressEntry| {
            let (done, left) = (entry.done_bytes, entry.total_bytes.saturating_sub(entry.done_bytes));
            let left_s = (done > 0).then(|| (entry.lasted.as_secs_f64() * left as f64 / done as f64) as u64);
            let mut shown = json!({"number": entry.id, "what": entry.verb, "by": entry.by, "done_bytes": done,
                "total_bytes": entry.total_bytes, "left_s": left_s});
            if with_names {
                let id = u64::from_str_radix(&entry.file, 16).map(policy::FileId);
                shown["path"] = json!(id.map_or_else(|_| entry.file.clone(), |id| layout::file_named(self, id)));
                shown["why"] = json!(entry.why);
            }
            shown
        };
        running.map(one).collect()
    }

    fn drains(&self) -> Value {
        let one = |(id, far): (policy::TargetId, crate::mover::DrainProgress)| json!({"target": layout::name_of(self, id), "files": far.files, "left": far.left, "busy": far.busy});
        self.background.drains().into_iter().map(one).collect()
    }

    fn newest_events(&self, with_names: bool) -> Value {
        let newest = self.pool.events.newest(EVENTS_MAX, |event| with_names || event.for_all);
        newest.iter().map(|event| json!(**event)).collect()
    }

    /// Layout of the file at that path below the mount point, with reasons. The whole path is accepted, too.
    pub fn how_it_lies(&self, path: &str) -> Result<Value, Problem> {
        let below = Path::new(path).strip_prefix(&self.mount_point).unwrap_or(Path::new(path));
        let below = below.to_str().unwrap_or(path).trim_start_matches('/');
        let (file, stat) = self.file_of(&operator(), below, Purpose::See)?;
        let mut shown = json!(layout::describe(self, below, &file));
        cut(&mut shown);
        let mut sentences = explain::sentences(self, &file);
        sentences.truncate(SENTENCES_MAX);
        shown["sentences"] = json!(sentences);
        shown["heat"] = self.adapt.heat(&file, SEGMENTS_MAX);
        shown["uid"] = json!(stat.st_uid);
        Ok(shown)
    }
}

/// Identity of a client with the token: the operator's.
pub(super) fn operator() -> Caller {
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        pid: std::process::id() as i32,
    }
}

/// Rows of versions: first those that wait or are being written, then the newest.
fn versions(mut rows: Vec<Row>) -> Value {
    rows.sort_by_key(|row| (row.state == "complete", Reverse(row.number)));
    let one = |row: &Row| {
        json!({"app": row.app, "label": row.label, "state": row.state, "bytes": row.bytes, "files": row.files.len(),
            "place": row.place, "at_ms": row.at_ms})
    };
    rows.iter().take(VERSIONS_MAX).map(one).collect()
}

fn picked(of: &Value, keys: &[&str]) -> Value {
    let value = |key: &&str| of.get(*key).map(|value| (key.to_string(), value.clone()));
    Value::Object(keys.iter().filter_map(value).collect::<Map<_, _>>())
}

fn list(of: &Value, keys: &[&str]) -> Value {
    of.as_array().into_iter().flatten().map(|one| picked(one, keys)).collect()
}

/// Limits the segments and objects in total, and records the full length of each list.
fn cut(file: &mut Value) {
    let (mut segments_left, mut objects_left) = (SEGMENTS_MAX, OBJECTS_MAX);
    for mirror in file["mirrors"].as_array_mut().into_iter().flatten() {
        let Some(segments) = mirror["segments"].as_array_mut() else { continue };
        let count = segments.len();
        segments.truncate(segments_left);
        segments_left -= segments.len();
        for segment in segments {
            let Some(objects) = segment["objects"].as_array_mut() else { continue };
            let count = objects.len();
            objects.truncate(objects_left);
            objects_left -= objects.len();
            segment["objects_count"] = json!(count);
        }
        mirror["segments_count"] = json!(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_many_pieces_is_cut_and_says_so() {
        let objects: Vec<_> = (0..512).map(|n| json!({"target": n})).collect();
        let mirror = || json!({"segments": vec![json!({"start": 0, "objects": objects}); 300]});
        let mut file = json!({"mirrors": [mirror(), mirror()]});
        cut(&mut file);
        let mirrors = file["mirrors"].as_array().expect("mirrors");
        let drawn = |mirror: &Value| mirror["segments"].as_array().map_or(0, Vec::len);
        assert_eq!([drawn(&mirrors[0]), drawn(&mirrors[1])], [SEGMENTS_MAX, 0]);
        assert!(mirrors.iter().all(|mirror| mirror["segments_count"] == 300));
        let first = &mirrors[0]["segments"];
        assert_eq!(first[1]["objects"].as_array().map(Vec::len), Some(OBJECTS_MAX - 512));
        assert!(first[2]["objects"] == json!([]) && first[2]["objects_count"] == 512);
    }
}
