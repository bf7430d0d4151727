//! Commands of `entrepot checkpoint` (begin, commit, list) and the report for `entrepot status`.

use super::Burst;
use super::app_names;
use super::left_out;
use super::open::OpenCheckpoint;
use super::record::{self, App};
use super::table::{CheckpointTable, Session};
use crate::control::answers::{self, Abandoned, Application, Begun, Committed, Done, Row, write};
use crate::control::{BeginCheckpoint, Caller, Problem, Result, exit};
use policy::burst::advice::daly_s;
use policy::burst::buffer;
use policy::burst::tables::{Tables, Version};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

impl Burst {
    /// Announces a version.
    pub(crate) fn begin(&self, caller: &Caller, what: &BeginCheckpoint) -> Result<Begun> {
        app_names::check(&what.app)?;
        if what.paths.is_empty() {
            return Err(Problem::wrong("no directory is named").try_this("name the directories of its files"));
        }
        let full = app_names::full(caller.uid, &what.app);
        self.set_mtbf(&full, what.mtbf_s, what.nodes)?;
        let newest_ns = self.newest_below(&what.paths);
        let mut table = self.table.lock();
        if let Some(there) = self.sessions.read().get(&full) {
            return Err(Problem::busy(format!("version \"{}\" of {} was begun already", there.label, what.app))
                .so("nothing was begun")
                .try_this("end it with `entrepot checkpoint commit`, or give it up with `commit --abandon`"));
        }
        self.app_in(&mut table, &full)?;
        let label = if what.label.is_empty() { format!("{}", object::now_ms()) } else { what.label.clone() };
        let session = Session {
            app: full.clone(),
            label: label.clone(),
            paths: what.paths.clone(),
            uid: caller.uid,
            bytes: what.bytes,
            newest_ns,
            request: 0,
        };
        self.remember_session(&session)?;
        self.sessions.write().insert(full.clone(), session);
        drop(table);
        if let Err(hosts) = self.announce() {
            self.forget_sessions(|session| session.app == full);
            return Err(Problem::failed(format!(
                "{hosts} did not confirm the start of version \"{label}\" of {}",
                what.app
            ))
            .so("the version was not begun: files written there would not belong to it")
            .try_this("check that its daemon reaches the Redis server, or drain the node; then begin again"));
        }
        Ok(Begun { app: what.app.clone(), label })
    }

    /// Completes or abandons the announced version, and waits until it is durable.
    pub(crate) fn end(&self, caller: &Caller, name: &str, abandon: bool) -> Result<Value> {
        let app = &*self.named(caller, name)?;
        let session = self.sessions.read().get(app).cloned();
        let Some(session) = session else {
            return Err(Problem::not_found(format!("no version of {name} was begun"))
                .try_this("begin one with `entrepot checkpoint begin`, or let it be recognised by its path"));
        };
        if session.uid != caller.uid && !caller.is_operator() {
            return Err(Problem::denied(format!("user {} began it, you are {}", session.uid, caller.uid)));
        }
        self.wait_for_others();
        let request = self.sessions.read().get(app).map_or(0, |session| session.request);
        let session = Session { request, ..session };
        let left_out = if abandon { Vec::new() } else { self.left_out(&session) };
        if !left_out.is_empty() {
            self.forget_sessions(|session| session.app == app);
            self.give_up(session.request);
            let cause = format!("version \"{}\" is not complete without {}", session.label, left_out::named(&left_out));
            return Err(Problem::new(exit::INCOMPLETE, cause)
                .so("a node that is gone wrote these files, or they were moved there; the previous version stays the \
                    newest")
                .try_this("begin again and write all files of the version; keep other files outside its paths"));
        }
        if abandon || session.request == 0 {
            self.forget_sessions(|session| session.app == app);
            self.give_up(session.request);
            if abandon {
                return Ok(write(&Abandoned { app: name.into(), label: session.label, abandoned: true }));
            }
            return Err(Problem::failed(format!("no file of version \"{}\" was written", session.label))
                .so("there is no such version")
                .try_this("write its files below the directories given to `begin`"));
        }
        let (tell, told) = channel();
        let settled = self.settle_others(session.request);
        if settled.is_ok() {
            self.commit_later(session.request, Some(tell));
        } else {
            self.give_up(session.request);
        }
        let done = settled.map_or_else(|error| Ok(Err(error)), |()| told.recv());
        let done = done.map_err(|_| Problem::failed("the volume is going down"))?;
        self.forget_sessions(|session| session.app == app);
        let version = done.map_err(|error| {
            Problem::failed(format!("version \"{}\" is not complete: {error}", session.label))
                .so("it does not count; the previous version stays the newest")
        })?;
        let (bytes, files) = (version.bytes(), version.parts.len());
        Ok(write(&Committed { app: name.into(), label: version.label, number: version.number, bytes, files }))
    }

    /// Waits until the other nodes have had time to report their files of the version.
    fn wait_for_others(&self) {
        while self.is_in_grace() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn remember_session(&self, session: &Session) -> crate::Result<()> {
        if self.shared.get().is_some() { record::SESSIONS.put(&*self.state, &session.app, session) } else { Ok(()) }
    }

    /// Ends the announcements that `which` selects.
    pub(super) fn forget_sessions(&self, which: impl Fn(&Session) -> bool) {
        let gone: Vec<_> = self.sessions.write().extract_if(.., |_, session| which(session)).collect();
        for (app, _) in gone.into_iter().filter(|_| self.shared.get().is_some()) {
            if let Err(error) = record::SESSIONS.remove(&*self.state, &app) {
                tracing::warn!("the end of the version announced by {app} could not be saved: {error}");
            }
        }
    }

    /// Abandons a version that is being written.
    pub(super) fn give_up(&self, request: u64) {
        let current = self.table.lock().current.remove(&request);
        current.iter().for_each(|current| self.tell_of_end(&current.app, &current.label, &current.open));
        let forget = |checkpoint: &Arc<OpenCheckpoint>| checkpoint.leave(request);
        current.iter().flat_map(|current| current.open.values()).for_each(forget);
        self.tell_buffer(buffer::Event::Abandoned { request });
    }

    /// Sets an application's time between failures or its number of nodes, for its owner or the operator.
    pub(crate) fn about(&self, caller: &Caller, app: &str, mtbf_s: Option<u64>, nodes: Option<u64>) -> Result<Done> {
        self.set_mtbf(&self.named(caller, app)?, mtbf_s, nodes)?;
        Ok(Done {})
    }

    /// The versions that the caller may see, oldest first, incomplete ones last. Only the owner and the operator get
    /// paths.
    pub(crate) fn rows(&self, caller: &Caller, app: Option<&str>) -> Vec<Row> {
        let table = self.table.lock();
        let machine = self.driver.machine();
        let Some(admission) = machine.admission() else { return Vec::new() };
        let tables = admission.buffer().tables();
        let mut rows = Vec::new();
        for (key, version) in &table.complete {
            let place = match tables.places(*key) {
                (true, true) => "both",
                (false, true) => "capacity",
                _ => "fast",
            };
            let damaged = table.is_damaged(version);
            rows.push(Row {
                app: version.app.clone(),
                number: version.number,
                label: version.label.clone(),
                state: if damaged { "damaged" } else { "complete" }.into(),
                bytes: version.bytes(),
                files: version.parts.iter().map(|part| part.path.clone()).collect(),
                place: place.into(),
                at_ms: version.at_ms,
                newest: !damaged && tables.newest(key.app) == Some(key.number),
            });
        }
        for (request, current) in &table.current {
            let of = admission.request(*request);
            let version = of.and_then(|of| of.version);
            rows.push(Row {
                app: current.app.clone(),
                number: version.map_or(0, |version| version.number),
                label: current.label.clone(),
                state: if version.is_some() { "writing" } else { "waiting" }.into(),
                bytes: of.map_or(0, |of| of.written),
                files: current.open.keys().cloned().collect(),
                place: if of.is_some_and(|of| of.direct) { "capacity" } else { "fast" }.into(),
                at_ms: 0,
                newest: false,
            });
        }
        let is_named = |row: &Row| app.is_none_or(|app| app_names::is_named(&row.app, app));
        rows.retain(|row| is_named(row) && self.may_see(&table, caller, &row.app));
        rows.iter_mut().for_each(|row| row.app = app_names::short(&row.app).to_owned());
        rows
    }

    /// Figures of an application and the recommended interval between its checkpoints.
    pub(crate) fn advice(&self, caller: &Caller, name: &str) -> Result<Application> {
        let full = self.named(caller, name)?;
        let table = self.table.lock();
        let machine = self.driver.machine();
        let app = table.apps.get(&full).filter(|_| self.may_see(&table, caller, &full));
        let (Some(app), Some(admission)) = (app, machine.admission()) else {
            return Err(Problem::not_found(format!("the volume has no application {name}"))
                .so("no interval can be computed")
                .try_this("`entrepot checkpoint status` lists its applications"));
        };
        Ok(application(&table, admission.buffer().tables(), &full, app))
    }

    /// State of the buffer, with the applications that the caller may see.
    pub(crate) fn status(&self, caller: &Caller) -> Option<answers::Burst> {
        let table = self.table.lock();
        let machine = self.driver.machine();
        let (admission, done) = (machine.admission()?, machine.burst_stats()?);
        let buffer = admission.buffer();
        let (versions, dirty) = buffer.tables().in_buffer();
        let (dwsf, dwpp) = buffer.period();
        let rates = admission.rates();
        let speed = |rate: f64| (rate < 1e12).then_some(rate.round() as u64);
        let applications = table
            .apps
            .iter()
            .filter(|(name, _)| self.may_see(&table, caller, name))
            .map(|(name, app)| application(&table, buffer.tables(), name, app))
            .collect();
        Some(answers::Burst {
            size: self.capacity_bytes,
            room: buffer.room().max(0.0) as u64,
            used: buffer.used().max(0.0) as u64,
            not_demoted: dirty,
            versions,
            waiting: buffer.waiting(),
            writing: buffer.unfinished() - buffer.waiting().min(buffer.unfinished()),
            held_writes: admission.held(),
            policy: self.settings.policy.to_string(),
            pattern: buffer.plan().pattern.to_string(),
            written_in_period: dwsf.round() as u64,
            expected_in_period: dwpp.round() as u64,
            write_rate: speed(rates.write),
            demotion_rate: speed(rates.demote),
            limits: self.limits.describe(),
            committed: self.counts.committed.load(Ordering::Relaxed),
            demoted: done.demoted,
            demoted_bytes: done.demoted_bytes,
            failed: self.counts.failed.load(Ordering::Relaxed) + done.failed,
            replicated: done.replicated,
            lacking_replicas: buffer.lacking_replicas(),
            trims: self.counts.trims.load(Ordering::Relaxed),
            restarts_from_buffer: done.hits,
            restarts_from_capacity: done.misses,
            applications,
        })
    }
}

/// Figures of an application for a reply.
fn application(table: &CheckpointTable, tables: &Tables, name: &str, app: &App) -> Application {
    let newest = tables.newest(app.number).map(|number| Version { app: app.number, number });
    let label = newest.and_then(|key| table.complete.get(&key)).map(|version| version.label.clone());
    let cost_s = app.cost_ms as f64 / 1000.0;
    let interval = (cost_s > 0.0 && app.mtbf_s > 0).then(|| daly_s(cost_s, app.mtbf_s as f64));
    Application {
        name: app_names::short(name).to_owned(),
        mtbf_s: app.mtbf_s,
        mtbf_from: app.mtbf_from,
        restarts: app.restarts,
        bytes: app.bytes,
        cost_s,
        advised_interval_s: interval,
        interval_s: (app.interval_s > 0).then_some(app.interval_s),
        newest: label,
        newest_in_buffer: newest.is_some_and(|key| tables.places(key).0),
    }
}
