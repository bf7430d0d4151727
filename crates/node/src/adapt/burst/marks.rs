//! Files that jobs' scripts mark as checkpoints, for the lifetime of the job. They are recorded, since a job outlives
//! the daemon.

use super::Burst;
use super::app_names;
use super::record::{self, App, Mark, Marked};
use crate::Result;
use crate::control::answers::MtbfFrom;
use meta::state::State;
use policy::burst::buffer;
use policy::burst::pattern::Pattern;
use std::collections::BTreeMap;

/// The patterns of one job.
struct Marking {
    uid: u32,
    patterns: Vec<Pattern>,
}

/// The markings of all jobs.
#[derive(Default)]
pub struct Marks(BTreeMap<String, Marking>);

impl Marks {
    /// Loads the marks of earlier daemons.
    pub fn open(state: &dyn State) -> Result<Marks> {
        let all: Vec<_> = record::MARKS.all(state)?;
        let all = all.into_iter().map(|(job, marked)| (job, marking(&marked)));
        Ok(Marks(all.collect()))
    }

    /// Whether no job has marks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Application and version of the checkpoint that a file belongs to. A job marks the files of its owner; root's
    /// jobs mark all.
    pub fn recognise(&self, path: &str, owner: impl Fn() -> Option<u32>) -> Option<(String, String)> {
        self.0.values().find_map(|marking| {
            let found = marking.patterns.iter().find_map(|pattern| pattern.matches(path))?;
            (marking.uid == 0 || owner() == Some(marking.uid)).then_some((found.app, found.version))
        })
    }
}

fn marking(marked: &Marked) -> Marking {
    let patterns = marked
        .marks
        .iter()
        .filter_map(|mark| Pattern::of_app(&mark.path, &app_names::full(marked.uid, &mark.app)).ok());
    Marking { uid: marked.uid, patterns: patterns.collect() }
}

impl Burst {
    /// Marks files of a job's owner as checkpoints.
    ///
    /// # Errors
    /// Errors of the state store; the job then has no marks.
    pub fn mark(&self, job: &str, marked: &Marked) -> Result<()> {
        record::MARKS.put(&*self.state, job, marked)?;
        self.marks.write().0.insert(job.to_owned(), marking(marked));
        for Mark { app, nodes, mtbf_s, interval_s, .. } in &marked.marks {
            let app = app_names::full(marked.uid, app);
            self.set_mtbf(&app, *mtbf_s, *nodes)?;
            if let Some(seconds) = *interval_s {
                self.change_app(&app, |app| {
                    app.interval_s = seconds;
                    buffer::Event::Interval { app: app.number, interval_s: seconds }
                })?;
            }
        }
        self.announce().unwrap_or_else(|hosts| {
            tracing::warn!(
                "{hosts} did not confirm the marks of {job} in time: files written there until then are no checkpoints"
            );
        });
        Ok(())
    }

    /// Removes the marks of a job that ended. Its checkpoints stay.
    pub fn unmark(&self, job: &str) {
        if self.marks.write().0.remove(job).is_some()
            && let Err(error) = record::MARKS.remove(&*self.state, job)
        {
            tracing::warn!("the end of the checkpoint marks of {job} could not be saved: {error}");
        }
    }

    /// Records an application's time between failures and its number of nodes.
    ///
    /// # Errors
    /// Errors of the state store.
    pub fn set_mtbf(&self, name: &str, mtbf_s: Option<u64>, nodes: Option<u64>) -> Result<()> {
        let (seconds, from) = match (mtbf_s, nodes) {
            (Some(seconds), _) => (seconds, MtbfFrom::Given),
            (None, Some(nodes)) => (self.settings.node_mtbf.as_secs() / nodes.max(1), MtbfFrom::Nodes),
            (None, None) => return Ok(()),
        };
        self.change_app(name, |app| {
            (app.mtbf_s, app.mtbf_from) = (seconds.max(1), from);
            buffer::Event::Mtbf { app: app.number, mtbf_s: app.mtbf_s }
        })
    }

    /// Changes and records an application, created if necessary, and reports the change to the machine.
    fn change_app(&self, name: &str, change: impl FnOnce(&mut App) -> buffer::Event) -> Result<()> {
        let mut table = self.table.lock();
        let mut app = self.app_in(&mut table, name)?;
        let event = change(&mut app);
        record::APPS.put(&*self.state, name, &app)?;
        table.apps.insert(name.to_owned(), app);
        self.tell_buffer(event);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    #[test]
    fn a_job_marks_its_owners_files_only_and_is_remembered() {
        let state = SqliteState::in_memory().unwrap();
        let mark = |path: &str| Mark { app: "wave".into(), path: path.into(), ..Mark::default() };
        let of = |uid, path| Marked { uid, marks: vec![mark(path)] };
        record::MARKS.put(&state, "job 1", &of(7, "u/s-{version}/**")).unwrap();
        record::MARKS.put(&state, "job 2", &of(0, "all/*")).unwrap();
        let marks = Marks::open(&state).unwrap();
        let says = |path: &str, owner: Option<u32>| marks.recognise(path, || owner);
        assert_eq!(says("u/s-3/r", Some(7)), Some(("7/wave".into(), "3".into())));
        assert_eq!(says("u/s-3/r", Some(8)), None);
        assert_eq!(says("u/s-3/r", None), None, "it is gone meanwhile");
        assert_eq!(says("all/x", Some(8)), Some(("0/wave".into(), String::new())));
        assert_eq!(says("other", Some(7)), None);
        record::MARKS.remove(&state, "job 1").unwrap();
        assert!(Marks::open(&state).unwrap().recognise("u/s-3/r", || Some(7)).is_none());
    }
}
