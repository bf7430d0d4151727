//! A scan of the volume by all its nodes at the same time: driver of `policy::cluster::look`.
//!
//! ```text
//!   entrepot check ── the node with the request ── Ask ──> the others, each a session
//!                       │   ^                              │
//!                       │   '──── pages of answers ────────'
//!                       │ lists all objects first, judges last, removes orphans
//! ```
//! Every node compares its part of the files with the targets, and repairs its findings. Only the requesting node can
//! identify orphans: it combines the names in all files with the objects that all nodes answer for.

use super::letter::{Answer, Letter, Says};
use super::look::Found;
use super::orphans::{Known, NOT_ALL_SEEN};
use super::session::{Session, Work, letter};
use super::{CheckOptions, Checker, Outcome, Part, Report};
use crate::messages::{Member, Message, Talk};
use crate::volume_id::unique;
use crate::{Result, stage};
use parking_lot::Mutex;
use policy::cluster::Node;
use policy::cluster::look::{Action, Config, Event, Look};
use policy::machine::Machine;
use policy::{ObjectId, TargetId, Time};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Maximum of other nodes' scans in which this node takes part at the same time. A guess: each holds the names of all
/// objects.
const SESSIONS_MAX: usize = 8;
/// Interval between checks of the node list.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which nodes that have finished their part are notified that the scan goes on.
const STAY_EVERY: Duration = Duration::from_secs(10);

/// Scans by all nodes, requested by this node or by others.
pub struct Together {
    checker: Checker,
    nodes: Arc<dyn Talk>,
    patience: Config,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Receivers of answers, by scan.
    hears: Mutex<BTreeMap<String, Sender<Letter>>>,
}

/// State of a scan about its nodes.
struct Asking {
    id: String,
    me: Member,
    there: BTreeMap<Node, Member>,
    answers: BTreeMap<Node, Answer>,
    pages: BTreeMap<Node, Pages>,
    gone: BTreeSet<Node>,
    judged: bool,
}

/// Result of a scan.
struct Looked {
    found: Found,
    look: Look,
    asking: Asking,
}

/// Pages of a node's last answer.
#[derive(Default)]
struct Pages {
    number: u32,
    next: u32,
    text: String,
}

impl Together {
    /// Returns scans with these nodes.
    pub fn new(checker: Checker, nodes: Arc<dyn Talk>) -> Arc<Together> {
        Together::with_patience(checker, nodes, Config::default())
    }

    /// Returns the same with other timeouts.
    pub(super) fn with_patience(checker: Checker, nodes: Arc<dyn Talk>, patience: Config) -> Arc<Together> {
        Arc::new(Together { checker, nodes, patience, sessions: Mutex::default(), hears: Mutex::default() })
    }

    /// Handles a letter from another node.
    pub fn hear(self: &Arc<Self>, text: &Value) {
        let Ok(Letter { look, node, says }) = Letter::deserialize(text) else {
            return tracing::debug!("a letter of another node makes no sense");
        };
        let me = self.nodes.me();
        let session = || self.sessions.lock().get(&look).cloned();
        match says {
            Says::Ask { .. } | Says::Stay | Says::End if Node(node) != me => {}
            Says::Ask { tell, number, task, page, options } => {
                let session = session().or_else(|| self.session_for(&look, &tell, number, &options));
                if let Some(says) = session.and_then(|session| session.ask(number, task, page)) {
                    self.write(&tell, &letter(&look, me.0, says));
                }
            }
            Says::Stay => session().into_iter().for_each(|session| session.stay()),
            Says::End => {
                self.sessions.lock().remove(&look).into_iter().for_each(|session| session.end());
            }
            Says::Works | Says::Page { .. } => {
                let hears = self.hears.lock().get(&look).cloned();
                if let Some(hears) = hears {
                    drop(hears.send(Letter { look, node, says }));
                }
            }
        }
    }

    fn write(self: &Arc<Self>, own: &str, letter: &Letter) {
        let text = json!(letter);
        if self.nodes.own() == own {
            return self.hear(&text);
        }
        self.nodes.send(Some(own), &Message::Check(text));
    }

    /// A function that sends answers to the node that requested the scan.
    fn teller(self: &Arc<Self>, look: &str, own: &str) -> impl Fn(Says) + Send + 'static {
        let weak: Weak<Together> = Arc::downgrade(self);
        let (look, own, me) = (look.to_owned(), own.to_owned(), self.nodes.me().0);
        move |says| {
            if let Some(this) = weak.upgrade() {
                this.write(&own, &letter(&look, me, says));
            }
        }
    }

    /// A new session for the scan of another node, if the request begins it and there is room.
    fn session_for(
        self: &Arc<Self>,
        look: &str,
        own: &str,
        number: u32,
        options: &CheckOptions,
    ) -> Option<Arc<Session>> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| !session.is_over());
        if number != 1 || sessions.len() >= SESSIONS_MAX {
            return None;
        }
        let (checker, tell) = (self.checker.clone(), self.teller(look, own));
        let session = Session::start(checker, options.clone(), false, Found::default(), tell);
        sessions.insert(look.to_owned(), session.clone());
        Some(session)
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
        let own = self.nodes.own().to_owned();
        let (node, members) = (self.nodes.me(), self.nodes.members());
        let me = members.iter().find(|other| other.node == node).cloned();
        let me = me.unwrap_or_else(|| Member { node, own: Some(own.clone()), host: crate::host::name() });
        let there = members.into_iter().chain([me.clone()]).map(|other| (other.node, other)).collect();
        let mut asking = Asking {
            id: unique()?,
            me,
            there,
            answers: BTreeMap::new(),
            pages: BTreeMap::new(),
            gone: BTreeSet::new(),
            judged: false,
        };
        let tell = self.teller(&asking.id, &own);
        let session = Session::start(self.checker.clone(), options.clone(), true, listed, tell);
        self.sessions.lock().insert(asking.id.clone(), session.clone());
        let (hears, letters) = channel();
        self.hears.lock().insert(asking.id.clone(), hears);
        let looked = self.look(&mut asking, &session, options, report, ends, &letters);
        self.hears.lock().remove(&asking.id);
        asking.there.keys().for_each(|node| self.tell(&asking, *node, Says::End));
        session.end();
        let found = std::mem::take(&mut session.work_so_far().found);
        Ok(Looked { found, look: looked?, asking })
    }

    fn look(
        self: &Arc<Self>,
        asking: &mut Asking,
        session: &Session,
        options: &CheckOptions,
        report: stage::Report<'_>,
        ends: &dyn Fn() -> bool,
        letters: &Receiver<Letter>,
    ) -> Result<Look> {
        let began = Instant::now();
        let now = || Time(began.elapsed().as_nanos() as u64);
        let config = Config { compares: options.deep, repairs: options.repair, ..self.patience.clone() };
        let mut look = Look::new(config, now(), asking.there.keys().copied());
        let (mut looked, mut stayed) = (began, began);
        loop {
            while let Some(action) = look.poll() {
                match action {
                    Action::Ask { node, number, task, page } => {
                        let tell = self.nodes.own().to_owned();
                        let says = Says::Ask { tell, number, task: task.into(), page, options: options.clone() };
                        self.tell(asking, node, says);
                    }
                    Action::GiveUp { node } => asking.forget(node),
                    Action::Judge => self.judge(&mut session.work_so_far(), &look, asking, options)?,
                    Action::End => return Ok(look),
                }
            }
            if ends() {
                return Ok(look);
            }
            session.progress().into_iter().for_each(|progress| report(&progress));
            let rest = look.next_deadline().map_or(LOOK_EVERY, |at| Duration::from_nanos(at.since(now()).0));
            match letters.recv_timeout(rest.min(LOOK_EVERY)) {
                Ok(letter) => asking.take(letter).into_iter().for_each(|event| look.handle(now(), event)),
                Err(_) => look.handle(now(), Event::Tick),
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                let there: BTreeSet<Node> = self.nodes.members().into_iter().map(|other| other.node).collect();
                let over: Vec<Node> = asking.there.keys().filter(|node| !there.contains(node)).copied().collect();
                over.into_iter().for_each(|node| look.handle(now(), Event::Over { node }));
            }
            if stayed.elapsed() >= STAY_EVERY {
                stayed = Instant::now();
                asking.there.keys().for_each(|node| self.tell(asking, *node, Says::Stay));
            }
        }
    }

    fn tell(self: &Arc<Self>, asking: &Asking, node: Node, says: Says) {
        if let Some(own) = asking.there.get(&node).and_then(|other| other.own.as_deref()) {
            self.write(own, &letter(&asking.id, node.0, says));
        }
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
            let unseen = answer.report.iter().flat_map(|report| report.unseen.clone()).chain(answer.failed.clone());
            let new: Vec<_> = unseen.filter(|why| !work.found.report.unseen.contains(why)).collect();
            new.into_iter().for_each(|why| work.found.unseen(asking.shown(*node), why));
        }
        for node in look.gone() {
            work.found.unseen(asking.shown(*node), "it did not answer");
        }
        // The node joined during the scan, and its moves under way are unknown.
        for other in self.nodes.members().iter().filter(|other| !asking.there.contains_key(&other.node)) {
            work.found.unseen(format!("{} on {}", other.node, other.host), "it came meanwhile; check again");
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

    /// Converts a letter into an event of the scan.
    fn take(&mut self, letter: Letter) -> Option<Event> {
        let node = Node(letter.node);
        match letter.says {
            _ if self.gone.contains(&node) => None,
            Says::Works => Some(Event::Works { node }),
            Says::Page { number, page, is_last, changed, text } => {
                let pages = self.pages.entry(node).or_default();
                if number > pages.number {
                    *pages = Pages { number, ..Pages::default() };
                }
                if (number, page) == (pages.number, pages.next) {
                    pages.next += 1;
                    pages.text.push_str(&text);
                    if is_last {
                        let now = Answer::of(&std::mem::take(&mut pages.text));
                        let before = self.answers.remove(&node).unwrap_or_default();
                        self.answers.insert(node, before.then(now));
                    }
                }
                Some(Event::Page { node, number, page, is_last, changed })
            }
            Says::Ask { .. } | Says::Stay | Says::End => None,
        }
    }
}

#[cfg(test)]
mod tests;
