//! A scan of the volume by all its nodes at the same time: driver of `policy::cluster::look`.
//!
//! ```text
//!   entrepot check ── the node with the request ── Ask ──> the others, each a session
//!                       │   ^                              │
//!                       │   '──── answers ─────────────────'
//!                       │ lists all objects first, judges last, removes orphans
//! ```
//! Every node compares its part of the files with the targets, and repairs its findings. Only the requesting node can
//! identify orphans: it combines the names in all files with the objects that all nodes answer for.

use super::look::Found;
use super::orphans::{Known, NOT_ALL_SEEN};
use super::request::{Answer, Notice, TaskRequest};
use super::session::{Session, Work};
use super::{CheckOptions, Checker, Outcome, Part, Report};
use crate::{Result, stage};
use meta::messages::{Member, Talk};
use object::volume_id::unique;
use object::workers::apart;
use parking_lot::Mutex;
use policy::cluster::Node;
use policy::cluster::look::{Action, Config, Event, Look, Task};
use policy::machine::Machine;
use policy::{ObjectId, TargetId, Time};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Maximum of other nodes' scans in which this node takes part at the same time. A guess: each holds the names of all
/// objects.
const SESSIONS_MAX: usize = 8;
/// Interval between checks of the node list.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which nodes that have finished their part are notified that the scan goes on.
const STAY_EVERY: Duration = Duration::from_secs(10);

/// Handler of the encoded answer to a task; `None`: the node does not answer.
pub type Answered = Box<dyn Fn(Option<String>) + Send + Sync>;

/// The nodes of a scan.
pub trait Peers: Send + Sync {
    /// The nodes of the volume.
    fn talk(&self) -> &dyn Talk;
    /// Requests a task from the node of that name. Returns the number of the request.
    fn ask(&self, name: String, task: &TaskRequest, silent: Duration, done: Answered) -> u64;
    /// Ends a request: its answer is no longer awaited.
    fn forget(&self, number: u64);
    /// Sends a notice to the node of that name. It may get lost.
    fn notify(&self, name: String, notice: &Notice);
}

/// Scans by all nodes, requested by this node or by others.
pub struct Together {
    checker: Checker,
    peers: Arc<dyn Peers>,
    /// Timeout after which a silent node is dropped. It is longer than a lease, so a dead node is over before.
    silent: Duration,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
}

/// State of a scan about its nodes.
struct Asking {
    id: String,
    me: Member,
    there: BTreeMap<Node, Member>,
    calls: BTreeMap<Node, u64>,
    answers: BTreeMap<Node, Answer>,
    gone: BTreeSet<Node>,
    judged: bool,
}

/// The end of a task on a node; without an answer the node does not take part any longer.
type TaskEnd = (Node, Option<Answer>);

/// Result of a scan.
struct Looked {
    found: Found,
    look: Look,
    asking: Asking,
}

impl Together {
    /// Returns scans with the other nodes.
    pub fn new(checker: Checker, peers: Arc<dyn Peers>, silent: Duration) -> Arc<Together> {
        Arc::new(Together { checker, peers, silent, sessions: Mutex::default() })
    }

    /// Carries out a task of another node's scan; `None` if this node does not take part in it.
    pub fn serve(&self, request: &TaskRequest) -> Option<String> {
        Some(self.session_for(request)?.answer(request.task).to_text())
    }

    fn nodes(&self) -> &dyn Talk {
        self.peers.talk()
    }

    /// Handles a notice of another node.
    pub fn handle(&self, notice: &Notice) {
        let Notice { scan, goes_on } = notice;
        let mut sessions = self.sessions.lock();
        match goes_on {
            true => sessions.get(scan).into_iter().for_each(|session| session.stay()),
            false => sessions.remove(scan).into_iter().for_each(|session| session.end()),
        }
    }

    /// The session of another node's scan. `Begin` starts it, if there is room.
    fn session_for(&self, request: &TaskRequest) -> Option<Arc<Session>> {
        if Node(request.node) != self.nodes().me() {
            return None;
        }
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| !session.is_over());
        if request.task == Task::Begin && sessions.len() < SESSIONS_MAX {
            let session = Session::start(self.checker.clone(), request.options.clone(), false, Found::default());
            sessions.insert(request.scan.clone(), session);
        }
        sessions.get(&request.scan).cloned()
    }

    /// Scans everything by all present nodes, and repairs if requested.
    pub fn check(
        self: &Arc<Self>,
        options: &CheckOptions,
        report: stage::Report<'_>,
        stop: &stage::Stop,
    ) -> Result<Report> {
        let began = Instant::now();
        let ends = || stop.is_set();
        let Looked { mut found, look, asking } = self.look_at_all(options, self.listed(), report, &ends)?;
        if options.repair && !found.orphans.is_empty() && look.is_complete() && asking.judged {
            let second = self.look_at_all(&options.of_second(), found.candidates_of_second(), report, &ends)?;
            found.confirm(second.whole());
        }
        self.finish(&mut found, &look, &asking, options, stop);
        found.report.took_s = began.elapsed().as_secs_f64();
        Ok(found.report)
    }

    /// Removes orphans that nodes that are over left. Returns their number; removes nothing unless everything was
    /// scanned. `ends` is polled to cancel.
    pub fn remove_left(self: &Arc<Self>, ends: &dyn Fn() -> bool) -> Result<Option<usize>> {
        let options = CheckOptions { only_left: true, ..CheckOptions::default() };
        let mut found = self.look_at_all(&options, self.listed(), &|_| (), ends)?.whole();
        if found.report.unseen.is_empty() && !found.orphans.is_empty() && !ends() {
            let second = self.look_at_all(&options, found.candidates_of_second(), &|_| (), ends)?;
            found.confirm(second.whole());
        }
        if !found.report.unseen.is_empty() || ends() {
            return Ok(None);
        }
        let left: Vec<_> = found.orphans.into_iter().map(|(_, orphan)| orphan).collect();
        self.checker.remove(&left)?;
        Ok(Some(left.len()))
    }

    /// Lists of the objects on all targets, made before any file is read.
    fn listed(&self) -> Found {
        let mut found = Found::default();
        self.checker.ask_targets(&mut found, true);
        found
    }

    fn look_at_all(
        self: &Arc<Self>,
        options: &CheckOptions,
        mut listed: Found,
        report: stage::Report<'_>,
        ends: &dyn Fn() -> bool,
    ) -> Result<Looked> {
        if listed.only_left {
            self.checker.ask_orphans_targets(&mut listed);
        }
        self.checker.look_whether_whole(&mut listed, options)?;
        let own = self.nodes().own().to_owned();
        let (node, members) = (self.nodes().me(), self.nodes().members());
        let me = members.iter().find(|other| other.node == node).cloned();
        let me = me.unwrap_or_else(|| Member { node, own: Some(own), host: object::host::name() });
        let there = members.into_iter().chain([me.clone()]).map(|other| (other.node, other)).collect();
        let mut asking = Asking {
            id: unique()?,
            me,
            there,
            calls: BTreeMap::new(),
            answers: BTreeMap::new(),
            gone: BTreeSet::new(),
            judged: false,
        };
        let session = Session::start(self.checker.clone(), options.clone(), true, listed);
        let looked = self.look(&mut asking, &session, options, report, ends);
        asking.calls.values().for_each(|call| self.peers.forget(*call));
        self.notify(&asking, false);
        session.end();
        let found = std::mem::take(&mut session.work_so_far().found);
        Ok(Looked { found, look: looked?, asking })
    }

    fn look(
        self: &Arc<Self>,
        asking: &mut Asking,
        session: &Arc<Session>,
        options: &CheckOptions,
        report: stage::Report<'_>,
        ends: &dyn Fn() -> bool,
    ) -> Result<Look> {
        let (done, answers) = channel();
        let config = Config { compares: options.deep, repairs: options.repair, ..Config::default() };
        let mut look = Look::new(config, asking.there.keys().copied());
        let (mut looked, mut stayed) = (Instant::now(), Instant::now());
        loop {
            while let Some(action) = look.poll() {
                match action {
                    Action::Ask { node, task } => self.ask(asking, node, task, options, session, done.clone()),
                    Action::GiveUp { node } => {
                        asking.calls.remove(&node).into_iter().for_each(|call| self.peers.forget(call));
                        asking.forget(node);
                    }
                    Action::Judge => self.judge(&mut session.work_so_far(), &look, asking, options)?,
                    Action::End => return Ok(look),
                }
            }
            if ends() {
                return Ok(look);
            }
            session.progress().into_iter().for_each(|progress| report(&progress));
            if let Ok(end) = answers.recv_timeout(LOOK_EVERY) {
                asking.take(end).into_iter().for_each(|event| look.handle(Time::ZERO, event));
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                let there: BTreeSet<Node> = self.nodes().members().into_iter().map(|other| other.node).collect();
                let over: Vec<Node> = asking.there.keys().filter(|node| !there.contains(node)).copied().collect();
                over.into_iter().for_each(|node| look.handle(Time::ZERO, Event::Over { node }));
            }
            if stayed.elapsed() >= STAY_EVERY {
                stayed = Instant::now();
                session.stay();
                self.notify(asking, true);
            }
        }
    }

    /// Requests a task from a node, which may be this one.
    fn ask(
        &self,
        asking: &mut Asking,
        node: Node,
        task: Task,
        options: &CheckOptions,
        session: &Arc<Session>,
        done: Sender<TaskEnd>,
    ) {
        if node == asking.me.node {
            let (session, failed) = (session.clone(), done.clone());
            if apart("check", move || drop(done.send((node, Some(session.answer(task)))))).is_err() {
                drop(failed.send((node, None)));
            }
            return;
        }
        let Some(own) = asking.there.get(&node).and_then(|other| other.own.clone()) else {
            return drop(done.send((node, None)));
        };
        let request = TaskRequest { scan: asking.id.clone(), node: node.0, task, options: options.clone() };
        let answered = move |answer: Option<String>| drop(done.send((node, answer.map(|answer| Answer::of(&answer)))));
        let call = self.peers.ask(own, &request, self.silent, Box::new(answered));
        asking.calls.insert(node, call);
    }

    /// Reports to the other nodes that the scan goes on, or is over.
    fn notify(&self, asking: &Asking, goes_on: bool) {
        let others = asking.there.values().filter(|other| other.node != asking.me.node);
        let notice = Notice { scan: asking.id.clone(), goes_on };
        others.filter_map(|other| other.own.clone()).for_each(|own| self.peers.notify(own, &notice));
    }

    /// Judges the objects, once all nodes have reported the names in files and the objects that they answer for.
    fn judge(&self, work: &mut Work, look: &Look, asking: &mut Asking, options: &CheckOptions) -> Result<()> {
        asking.judged = true;
        let (mut making, mut heard) = (HashSet::new(), BTreeSet::new());
        let (mut under_way, mut returned) = (HashSet::new(), false);
        for (node, answer) in &asking.answers {
            let begun = answer.begun.iter().flat_map(|begun| &begun.making);
            making.extend(begun.map(|object| ObjectId(*object)));
            heard.extend(answer.begun.as_ref().map(|begun| begun.epoch));
            let account = answer.account.clone().unwrap_or_default();
            let objects = account.under_way.iter();
            under_way.extend(objects.map(|(target, object)| (TargetId(*target), ObjectId(*object))));
            returned |= account.returned;
            work.take_named(&account.named);
            let failed = answer.failed.is_some();
            work.found.report.unscanned |= failed || answer.report.as_ref().is_some_and(|report| report.unscanned);
            let unseen = answer.report.iter().flat_map(|report| report.unseen.clone()).chain(answer.failed.clone());
            let new: Vec<_> = unseen.filter(|why| !work.found.report.unseen.contains(why)).collect();
            new.into_iter().for_each(|why| work.found.unseen(asking.shown(*node), why));
        }
        for node in look.gone() {
            work.found.unseen(asking.shown(*node), "it did not answer");
        }
        // The node joined during the scan, and its moves under way are unknown.
        for other in self.nodes().members().iter().filter(|other| !asking.there.contains_key(&other.node)) {
            work.found.unseen(format!("{} on {}", other.node, other.host), "it joined during the check; check again");
        }
        let known = Known { all_names: !look.is_restless(), making: &making, heard: &heard };
        let Work { checker, found, .. } = work;
        checker.judge(found, &known, options, || {
            under_way.extend(checker.mover.garbage()?);
            Ok((under_way, returned))
        })
    }

    /// Merges the findings of all nodes, and removes orphans.
    fn finish(&self, found: &mut Found, look: &Look, asking: &Asking, options: &CheckOptions, stop: &stage::Stop) {
        let is_complete = look.is_complete() && asking.judged && !stop.is_set();
        if stop.is_set() {
            found.unseen("the look".into(), "it was stopped");
        }
        if options.repair && is_complete {
            self.checker.sweep(found, options);
        }
        let report = &mut found.report;
        for (at, _) in found.orphans.iter().filter(|_| !is_complete) {
            report.findings[*at].outcome = Outcome::Failed(NOT_ALL_SEEN.into());
        }
        let own = asking.me.node;
        let mut parts = vec![part(&asking.me, report, !look.gone().contains(&own))];
        report.findings.iter_mut().for_each(|finding| finding.found_by = asking.me.host.clone());
        let mut known: BTreeSet<_> = report.findings.iter().map(|f| (f.object.clone(), f.kind)).collect();
        for other in asking.there.values().filter(|other| other.node != own) {
            let theirs = asking.answers.get(&other.node).and_then(|answer| answer.report.clone()).unwrap_or_default();
            parts.push(part(other, &theirs, !look.gone().contains(&other.node)));
            report.files += theirs.files;
            report.objects += theirs.objects;
            report.compared_bytes += theirs.compared_bytes;
            report.repaired_bytes += theirs.repaired_bytes;
            let away = theirs.targets_away.iter().filter(|target| !report.targets_away.contains(target));
            let away: Vec<_> = away.map(|target| format!("{target} (for {})", other.host)).collect();
            report.targets_away.extend(away);
            for target in theirs.targets_elsewhere {
                if !report.targets_elsewhere.contains(&target) {
                    report.targets_elsewhere.push(target);
                }
            }
            for mut finding in theirs.findings {
                // A file with names in two parts is scanned twice.
                if finding.object.is_empty() || known.insert((finding.object.clone(), finding.kind)) {
                    finding.found_by = other.host.clone();
                    report.findings.push(finding);
                }
            }
        }
        report.nodes = parts;
    }
}

fn part(other: &Member, report: &Report, answered: bool) -> Part {
    let findings = report.findings.len() as u64;
    Part { node: other.node.0, host: other.host.clone(), files: report.files, findings, answered }
}

impl Looked {
    /// Findings of the scan; marked incomplete unless all nodes took part to the end.
    fn whole(self) -> Found {
        let Looked { mut found, look, asking } = self;
        if !(look.is_complete() && asking.judged) {
            found.unseen("the scan".into(), "not all nodes took part to its end");
        }
        found
    }
}

impl Asking {
    fn shown(&self, node: Node) -> String {
        self.there.get(&node).map_or_else(|| node.to_string(), |other| format!("{node} on {}", other.host))
    }

    /// Drops the answer of the node, unless it was judged: in that case no other node has repeated its part.
    fn forget(&mut self, node: Node) {
        self.gone.insert(node);
        if !self.judged {
            self.answers.remove(&node);
        }
    }

    /// Converts the end of a task into an event of the scan.
    fn take(&mut self, (node, answer): TaskEnd) -> Option<Event> {
        self.calls.remove(&node);
        if self.gone.contains(&node) {
            return None;
        }
        let Some(answer) = answer else { return Some(Event::Over { node }) };
        let changed = answer.changed;
        let before = self.answers.remove(&node).unwrap_or_default();
        self.answers.insert(node, before.then(answer));
        Some(Event::Done { node, changed })
    }
}
