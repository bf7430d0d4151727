//! The life of one copy: requested, made, kept while jobs use it, removed.

use super::machine::File;
use super::{Action, CreateReason, FileId, JobId, Life, Rank, RemoveReason, Replication};
use std::collections::BTreeSet;

impl Replication {
    /// Registers a chosen job as a user of a copy.
    pub(super) fn want(&mut self, id: FileId, job: JobId) {
        let rank = self.jobs[&job].rank;
        let running = u32::from(self.jobs[&job].running);
        if let Some(file) = self.files.get_mut(&id) {
            if file.users.insert(job) {
                file.running += running;
            }
            return self.requeue(id);
        }
        self.files.insert(id, File { copy: Life::Queued { rank }, users: BTreeSet::from([job]), running });
        self.queued.insert((rank, id));
        self.dirty = true;
    }

    /// Sorts a queued copy by the soonest of its users.
    pub(super) fn requeue(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let Life::Queued { rank } = file.copy else { return };
        let soonest = file.users.iter().map(|job| self.jobs[job].rank).min().unwrap_or(rank);
        self.queued.remove(&(rank, id));
        self.queued.insert((soonest, id));
        file.copy = Life::Queued { rank: soonest };
    }

    /// Removes a job from the users of a copy.
    pub(super) fn unused(&mut self, id: FileId, job: JobId, reason: RemoveReason) {
        let Some(file) = self.files.get_mut(&id) else { return };
        if file.users.remove(&job) && self.jobs.get(&job).is_some_and(|j| j.running) {
            file.running -= 1;
        }
        if file.users.is_empty() { self.remove(id, reason) } else { self.requeue(id) }
    }

    /// Removes a copy without users.
    fn remove(&mut self, id: FileId, reason: RemoveReason) {
        let Some(file) = self.files.get_mut(&id) else { return };
        match file.copy {
            Life::Queued { rank } => {
                self.queued.remove(&(rank, id));
                self.files.remove(&id);
            }
            Life::Failed { retry_at } => {
                self.retries.remove(&(retry_at, id));
                self.files.remove(&id);
            }
            Life::Creating { .. } | Life::Complete => {
                if file.copy != Life::Complete {
                    self.creating -= 1;
                    self.stats.removed_incomplete += 1;
                    self.dirty = true;
                }
                file.copy = Life::Removing;
                self.stats.removed += 1;
                self.actions.push_back(Action::Remove { file: id, reason });
            }
            Life::InUse | Life::Removing => {}
        }
    }

    /// Removes complete copies without users.
    pub(super) fn remove_unwanted(&mut self) {
        let idle = |file: &File| file.users.is_empty() && file.copy == Life::Complete;
        let unwanted: Vec<FileId> = self.files.iter().filter(|(_, file)| idle(file)).map(|(id, _)| *id).collect();
        for id in unwanted {
            self.remove(id, RemoveReason::Unwanted);
        }
    }

    /// Begins as many copies as the limit permits.
    pub(super) fn create(&mut self) {
        while self.creating < self.config.creating_max {
            let Some((_, id)) = self.queued.pop_first() else { break };
            let Some(file) = self.files.get_mut(&id) else { continue };
            let first = file.users.iter().min_by_key(|job| (self.jobs[*job].rank, **job));
            let Some(job) = first.copied() else { continue };
            file.copy = Life::Creating { since: self.now };
            self.creating += 1;
            self.stats.begun += 1;
            self.stats.copies += 1;
            let reason = self.jobs[&job].chosen.unwrap_or(CreateReason::All);
            self.actions.push_back(Action::Create { file: id, job, reason });
        }
    }

    pub(super) fn adopt(&mut self, id: FileId) {
        let stats = &mut self.stats;
        self.files.entry(id).or_insert_with(|| {
            stats.copies += 1;
            File { copy: Life::Complete, users: BTreeSet::new(), running: 0 }
        });
    }

    pub(super) fn created(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        if matches!(file.copy, Life::Creating { .. }) {
            file.copy = Life::Complete;
            self.creating -= 1;
            self.stats.completed += 1;
            self.dirty = true;
        }
    }

    pub(super) fn create_failed(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        if !matches!(file.copy, Life::Creating { .. }) {
            return;
        }
        let retry_at = self.now + self.config.retry_after;
        file.copy = Life::Failed { retry_at };
        self.retries.insert((retry_at, id));
        self.creating -= 1;
        self.stats.failed += 1;
        self.stats.copies -= 1;
        self.dirty = true;
    }

    pub(super) fn lost(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id).filter(|file| file.copy == Life::Complete) else { return };
        self.stats.failed += 1;
        self.stats.copies -= 1;
        if file.users.is_empty() {
            self.files.remove(&id);
        } else {
            self.queue(id);
        }
    }

    pub(super) fn removed(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id).filter(|file| file.copy == Life::Removing) else { return };
        self.stats.copies -= 1;
        if file.users.is_empty() {
            self.files.remove(&id);
        } else {
            self.queue(id); // a job requested it during the removal
        }
    }

    /// Queues failed copies whose retry is due.
    pub(super) fn retry(&mut self) {
        while let Some((at, id)) = self.retries.first().copied().filter(|(at, _)| *at <= self.now) {
            self.retries.remove(&(at, id));
            self.queue(id);
        }
    }

    /// Queues a copy that has users.
    fn queue(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let rank = file.users.iter().map(|job| self.jobs[job].rank).min().unwrap_or(Rank(u64::MAX));
        file.copy = Life::Queued { rank };
        self.queued.insert((rank, id));
        self.dirty = true;
    }
}
