//! Progress of running stagings, for clients other than the one that started them.

use engine::stage::Progress;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The running stagings.
#[derive(Default)]
pub struct UnderWay {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    number: u64,
    running: BTreeMap<u64, Staging>,
    /// Bytes moved by all stagings, including ended ones.
    moved_bytes: u64,
}

struct Staging {
    uid: u32,
    path: String,
    /// First source, for staging in.
    uri: Option<String>,
    progress: Progress,
}

/// Handle of a running staging; the staging ends when this is dropped.
pub(super) struct Entry<'a> {
    of: &'a UnderWay,
    number: u64,
}

impl UnderWay {
    /// Registers a user's staging to or from a path below the mount point.
    pub(super) fn begin(&self, uid: u32, path: &str, uri: Option<&str>) -> Entry<'_> {
        let mut all = self.all.lock();
        all.number += 1;
        let number = all.number;
        let (path, uri) = (path.to_string(), uri.map(str::to_string));
        all.running.insert(number, Staging { uid, path, uri, progress: Progress::default() });
        Entry { of: self, number }
    }

    /// Number of running stagings.
    pub(super) fn count(&self) -> usize {
        self.all.lock().running.len()
    }

    /// Bytes that all stagings moved since the daemon started.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.all.lock().moved_bytes
    }

    /// Running stagings of a user at or below these paths, each with its own path.
    pub fn of(&self, uid: u32, paths: &[String]) -> Vec<(String, Progress)> {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| parts(path)).collect();
        let all = self.all.lock();
        let is_one = |s: &&Staging| s.uid == uid && paths.iter().any(|path| parts(&s.path).starts_with(path));
        all.running.values().filter(is_one).map(|s| (s.path.clone(), s.progress.clone())).collect()
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect()
}

impl UnderWay {
    /// Bytes that remain for a user's staging from that source to that path; `None` if there is none, or its size is
    /// still unknown.
    pub fn left(&self, uid: u32, path: &str, uri: &str) -> Option<u64> {
        let path = parts(path);
        let all = self.all.lock();
        let is_it = |s: &&Staging| s.uid == uid && s.uri.as_deref() == Some(uri) && parts(&s.path) == path;
        let left = |s: &Staging| {
            (s.progress.total_bytes > 0).then(|| s.progress.total_bytes.saturating_sub(s.progress.done_bytes))
        };
        let left: Option<Vec<u64>> = all.running.values().filter(is_it).map(left).collect();
        left?.into_iter().max()
    }
}

impl Entry<'_> {
    /// Updates the progress.
    pub(super) fn tell(&self, progress: &Progress) {
        let All { running, moved_bytes, .. } = &mut *self.of.all.lock();
        if let Some(staging) = running.get_mut(&self.number) {
            // The first report has the bytes of earlier runs.
            let before =
                if staging.progress.total_bytes > 0 { staging.progress.done_bytes } else { progress.done_bytes };
            *moved_bytes += progress.done_bytes.saturating_sub(before);
            staging.progress = progress.clone();
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.of.all.lock().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-068]
    #[test]
    fn a_user_sees_how_far_their_stagings_are_while_they_are_under_way() {
        let under_way = UnderWay::default();
        let done =
            |uid, path: &str| under_way.of(uid, &[path.to_string()]).iter().map(|(_, p)| p.done_bytes).sum::<u64>();
        let entry = under_way.begin(7, "/d/./a", Some("http://h/a"));
        entry.tell(&Progress { done_bytes: 5, total_bytes: 9, ..Progress::default() });
        assert_eq!([done(7, "d/a"), done(7, "d"), done(7, "d/b"), done(7, "d/a/b"), done(8, "d/a")], [5, 5, 0, 0, 0]);
        let left = |uid, path: &str, uri: &str| under_way.left(uid, path, uri);
        assert_eq!(left(7, "d/a", "http://h/a"), Some(4));
        entry.tell(&Progress { done_bytes: 7, total_bytes: 9, ..Progress::default() });
        assert_eq!((done(7, "d"), under_way.moved_bytes()), (7, 2), "without those of earlier runs");
        assert_eq!([left(8, "d/a", "http://h/a"), left(7, "d", "http://h/a"), left(7, "d/a", "http://h/b")], [None; 3]);
        let again = under_way.begin(7, "d/a", Some("http://h/a"));
        assert_eq!(left(7, "d/a", "http://h/a"), None, "of one it is not known");
        again.tell(&Progress { done_bytes: 0, total_bytes: 9, ..Progress::default() });
        assert_eq!(left(7, "d/a", "http://h/a"), Some(9), "the most that may come");
        drop((again, entry));
        assert_eq!(left(7, "d/a", "http://h/a"), None);
        assert!(under_way.of(7, &["d/a".to_string()]).is_empty());
    }
}
