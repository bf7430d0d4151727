//! Quotas on several nodes: each node counts its own changes, the leader sums them, and all refuse by the same sums.
//!
//! ```text
//!   node ── Report: totals since its start, of changed accounts ──> leader: adds the difference
//!        <── Sums: usage and ceiling of the accounts that changed since the last answer
//! ```
//! A report that arrives twice counts once, since it holds totals. Between two reports a node uses the last answer
//! plus its own changes. So a limit may be exceeded by the changes of the other nodes in that time. A node without an
//! answer uses the last one until it loses its lease.

use super::record;
use super::{Book, Entry, Keeper, LOOK_SOON, answer};
use crate::calls::Calls;
use crate::control::Caller;
use crate::daemon::Core;
use crate::daemon::led::Led;
use crate::{Error, Result};
use meta::messages::{Message, Talk};
use meta::quota::Account;
use policy::quota::Both;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Reports of the other nodes, which the leader sums.
static REPORTS: Led<Report, Sums> = Led {
    name: "quota.count",
    is_ready: |core| core.quotas.book.lock().decides,
    serve: |core, _, report, _| Ok(core.quotas.book.lock().hear(report)),
};
/// Timeout of a request for the sums. A guess: longer than a healthy leader takes.
const ASKED_MAX: Duration = Duration::from_secs(3);

/// Version of the limits: the leader, and the number of its changes.
type Edition = (String, u64);

/// Growth and shrinkage on one node: bytes, then files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    grown: [u64; 2],
    shrunk: [u64; 2],
}

fn pair(both: Both<u64>) -> [u64; 2] {
    [both.bytes, both.files]
}

fn both([bytes, files]: [u64; 2]) -> Both<u64> {
    Both { bytes, files }
}

impl Moved {
    fn of(account: &Account) -> Moved {
        let (grown, shrunk) = account.changes();
        Moved { grown: pair(grown), shrunk: pair(shrunk) }
    }

    /// Whether `now` may be a later count of the same life of the node.
    fn is_in(self, now: Moved) -> bool {
        (0..2).all(|at| self.grown[at] <= now.grown[at] && self.shrunk[at] <= now.shrunk[at])
    }

    /// Growth and shrinkage after `then`.
    fn since(self, then: Moved) -> (Both<u64>, Both<u64>) {
        let less = |now: [u64; 2], then: [u64; 2]| both([0, 1].map(|at| now[at].saturating_sub(then[at])));
        (less(self.grown, then.grown), less(self.shrunk, then.shrunk))
    }
}

#[derive(Serialize, Deserialize)]
struct Report {
    node: String,
    edition: Edition,
    /// The version of the last answer.
    after: u64,
    /// Per account: the current totals, and the totals that a leader has received.
    moved: BTreeMap<String, (Moved, Moved)>,
    /// Number of directories that the node renamed since its start.
    trees_moved: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Sum {
    used: [u64; 2],
    most: [u64; 2],
}

#[derive(Serialize, Deserialize)]
struct Sums {
    edition: Edition,
    version: u64,
    /// Sums of the accounts whose usage is known.
    sums: BTreeMap<String, Sum>,
}

/// Counts that nodes exchange about one account.
#[derive(Default)]
pub struct Shared {
    /// Totals of this node that a leader has received.
    told: Moved,
    /// Last totals of each other node.
    heard: BTreeMap<String, Moved>,
    /// Usage and ceiling of the last answer, and the version since which they hold.
    sum: Option<(Both<u64>, Both<u64>)>,
    version: u64,
}

impl Keeper {
    /// Serves the other nodes.
    pub(super) fn serve_others(core: &Arc<Core>) {
        if let (Some(_), Some(nodes)) = (&core.calls, &core.nodes) {
            REPORTS.register(core);
            answer::COMMANDS.register(core);
            let weak = Arc::downgrade(core);
            nodes.read(move |message| {
                if let (Message::Limits, Some(core)) = (message, weak.upgrade()) {
                    core.quotas.is_behind.store(true, Ordering::Release);
                    Keeper::wake(&core);
                }
            });
        }
    }

    /// Runs one round on several nodes: the leader sums, the others report and receive. Returns whether this node sums.
    pub(super) fn adds_up(&self, core: &Core, calls: &Calls) -> bool {
        let leads = core.acts();
        let before = self.book.lock().decides;
        let done = match (leads, before) {
            (true, false) => self.take_over(core, calls),
            (true, true) => {
                self.forget_the_dead(calls);
                Ok(())
            }
            (false, _) => self.follow(core, calls),
        };
        if let Err(error) = done {
            tracing::debug!("quotas use the last known usage: {error}");
        }
        self.book.lock().decides
    }

    /// Makes this node the one that sums.
    fn take_over(&self, core: &Core, calls: &Calls) -> Result<()> {
        let records = record::all(&**core.volume.state())?;
        let now = (core.pool.clock)();
        {
            let mut book = self.book.lock();
            book.decides = true;
            book.edition = (calls.own().to_owned(), now.0);
            // Another node has summed these totals since this node last led.
            book.entries.values_mut().for_each(|entry| entry.shared.heard.clear());
        }
        self.load(now, records);
        self.look_soon();
        Ok(())
    }

    fn forget_the_dead(&self, calls: &Calls) {
        let others: BTreeSet<String> = calls.others().into_iter().filter_map(|other| other.own).collect();
        let mut book = self.book.lock();
        if book.entries.values().any(|entry| entry.shared.heard.keys().any(|node| !others.contains(node))) {
            for entry in book.entries.values_mut() {
                entry.shared.heard.retain(|node, _| others.contains(node));
            }
            drop(book);
            // A scan of all names finds the changes that a failed node did not report.
            self.look_soon();
        }
    }

    fn look_soon(&self) {
        let mut looks = self.looks.lock();
        (looks.again, looks.not_before) = (true, Some(Instant::now() + LOOK_SOON));
    }

    fn follow(&self, core: &Core, calls: &Calls) -> Result<()> {
        let Some(leader) = calls.leader() else { return Err(Error::Elsewhere("no node leads".into())) };
        let mut report = self.book.lock().report(calls.own());
        report.trees_moved = Some(self.quotas.trees_moved());
        let said = calls.call_each(vec![leader], REPORTS.name, &Caller::daemon(), &report, ASKED_MAX, &|_| true);
        let answer = said.into_iter().next().and_then(|(_, answer)| answer.ok());
        let sums: Sums = answer.ok_or_else(|| Error::Elsewhere("the leading node does not report the usage".into()))?;
        if sums.edition != report.edition {
            self.load((core.pool.clock)(), record::all(&**core.volume.state())?);
        }
        self.is_behind.store(false, Ordering::Release);
        let mut book = self.book.lock();
        book.take(report, sums);
        Ok(())
    }

    /// Announces changed limits. For the leader.
    pub(super) fn tell_others(&self, core: &Core) {
        if let Some(nodes) = &core.nodes {
            self.book.lock().edition.1 += 1;
            Talk::send(&**nodes, None, &Message::Limits);
            self.look_soon();
        }
    }
}

impl Book {
    /// Report of the changes that no leader has received.
    fn report(&mut self, node: &str) -> Report {
        if std::mem::replace(&mut self.decides, false) {
            // Changes made while this node led are already in its sums.
            self.entries.values_mut().for_each(|entry| entry.shared.told = Moved::of(&entry.account));
        }
        let moved = |entry: &Entry| (Moved::of(&entry.account), entry.shared.told);
        let all = self.entries.values().map(|entry| (record::key(&entry.of), moved(entry)));
        let moved = all.filter(|(_, (now, told))| now != told).collect();
        Report { node: node.to_owned(), edition: self.edition.clone(), after: self.version, moved, trees_moved: None }
    }

    /// Applies the sums of the leader.
    fn take(&mut self, report: Report, sums: Sums) {
        for (key, (now, _)) in report.moved {
            if let Some(entry) = self.entry(&key) {
                entry.shared.told = now;
            }
        }
        for (key, sum) in sums.sums {
            if let Some(entry) = self.entry(&key) {
                let told = entry.shared.told;
                entry.account.set_from_sum(both(sum.used), |grown, shrunk| {
                    Moved { grown: pair(grown), shrunk: pair(shrunk) }.since(told)
                });
                entry.account.set_most(both(sum.most));
            }
        }
        (self.edition, self.version) = (sums.edition, sums.version);
    }

    fn entry(&mut self, key: &str) -> Option<&mut Entry> {
        let subject = self.subject(&record::parse_key(key)?)?;
        self.entries.get_mut(&subject)
    }

    /// Adds the changes of another node, and returns the sums.
    fn hear(&mut self, report: Report) -> Sums {
        self.trees_moved.insert(report.node.clone(), report.trees_moved);
        for (key, (now, told)) in report.moved {
            if let Some(entry) = self.entry(&key) {
                // A restarted node counts from zero.
                let before = entry.shared.heard.insert(report.node.clone(), now).filter(|before| before.is_in(now));
                let before = before.unwrap_or(told);
                let (grown, shrunk) = now.since(before);
                entry.account.add(grown, shrunk);
            }
        }
        for entry in self.entries.values_mut() {
            let sum = entry.account.used().map(|used| (used, entry.account.most()));
            if sum != entry.shared.sum {
                self.version += 1;
                (entry.shared.sum, entry.shared.version) = (sum, self.version);
            }
        }
        let after = if report.edition == self.edition { report.after } else { 0 };
        let sum = |entry: &Entry| {
            let (used, most) = entry.shared.sum.filter(|_| entry.shared.version > after)?;
            Some((record::key(&entry.of), Sum { used: pair(used), most: pair(most) }))
        };
        let sums = self.entries.values().filter_map(sum).collect();
        Sums { edition: self.edition.clone(), version: self.version, sums }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::QuotaOf;

    const OF: QuotaOf = QuotaOf::User(7);

    fn book(decides: bool) -> Book {
        let mut book = Book { decides, edition: ("a".into(), 1), ..Book::default() };
        let record = r#"{"bytes_hard": 1000, "bytes_used": 100, "files_used": 1}"#;
        let record = serde_json::from_str(record).expect("whole");
        assert!(book.limit(policy::Time::ZERO, OF, &record).is_some());
        book
    }

    fn account(book: &Book) -> Arc<Account> {
        book.find(&OF).expect("it is there").1.account.clone()
    }

    fn used(book: &Book) -> u64 {
        account(book).used().expect("known").bytes
    }

    #[test]
    fn reports_add_up_once_however_often_they_are_heard() {
        let (mut leader, mut node) = (book(true), book(false));
        node.edition = ("of before".into(), 0);
        account(&node).add(both([50, 1]), both([20, 0]));
        let first = serde_json::to_value(node.report("b")).expect("numbers");
        let again = |leader: &mut Book| leader.hear(serde_json::from_value(first.clone()).expect("a report"));
        let (lost, heard) = (again(&mut leader), again(&mut leader));
        assert_eq!((used(&leader), lost.sums.len(), heard.sums.len()), (130, 1, 1), "of another edition all is told");
        // Changes made after the report are not in the answer.
        account(&node).add(both([5, 0]), both([0, 0]));
        node.take(serde_json::from_value(first.clone()).expect("a report"), heard);
        assert_eq!((used(&node), account(&node).most().bytes), (135, 1000));
        let second = node.report("b");
        assert_eq!((second.edition.clone(), second.moved.len()), (("a".to_string(), 1), 1));
        let heard = leader.hear(second);
        assert_eq!((used(&leader), heard.sums.len()), (135, 1));
        let third = Report { moved: BTreeMap::new(), after: heard.version, ..node.report("b") };
        assert!(leader.hear(third).sums.is_empty(), "nothing is said that was said");
        // A node restarted under the same name counts from zero.
        let mut anew = book(false);
        account(&anew).add(both([7, 0]), both([0, 0]));
        leader.hear(anew.report("b"));
        assert_eq!(used(&leader), 142);
    }

    #[test]
    fn one_that_led_reports_only_what_it_does_from_then_on() {
        let mut led = book(true);
        account(&led).add(both([50, 1]), both([0, 0]));
        assert!(led.report("a").moved.is_empty() && !led.decides);
        account(&led).add(both([5, 0]), both([0, 0]));
        let (now, told) = led.report("a").moved.into_values().next().expect("what is new");
        assert_eq!(now.since(told).0.bytes, 5);
    }
}
