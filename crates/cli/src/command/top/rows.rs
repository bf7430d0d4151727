//! Rows of a table: counts of each user, job, file or target between two moments.

use super::board::{Board, Sort, View};
use super::moment::Moment;
use crate::shown::{bytes, mean_span, plain, span_s};
use endpoint::Job;
use engine::stats::{TargetCounts, UserCounts};
use node::control::FileCounts;
use std::collections::HashMap;
use std::hash::Hash;

/// One user, job, file or target.
pub struct Row {
    pub cells: Vec<String>,
    /// Key for sorting by name.
    name: String,
    count: Count,
}

/// A column: its heading, and whether it has numbers.
pub type Column = (String, bool);

/// Counters of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub ops: u64,
    /// Number of operations with a known time.
    timed: u64,
    total_ns: u64,
}

impl Count {
    fn bytes(self) -> u64 {
        self.read_bytes + self.written_bytes
    }

    /// Mean time as a sort key. Without timed operations it is -1, which sorts last.
    fn latency_ns(self) -> f64 {
        if self.timed == 0 { -1.0 } else { self.total_ns as f64 / self.timed as f64 }
    }

    pub fn latency(self) -> String {
        mean_span(self.total_ns, self.timed)
    }

    /// Difference to an earlier count. Counters that decreased were reset (a file that was closed and opened again), so
    /// they count whole.
    pub fn since(self, before: Count) -> Count {
        let less = || {
            Some(Count {
                read_bytes: self.read_bytes.checked_sub(before.read_bytes)?,
                written_bytes: self.written_bytes.checked_sub(before.written_bytes)?,
                ops: self.ops.checked_sub(before.ops)?,
                timed: self.timed.checked_sub(before.timed)?,
                total_ns: self.total_ns.checked_sub(before.total_ns)?,
            })
        };
        less().unwrap_or(self)
    }
}

impl From<&UserCounts> for Count {
    fn from(user: &UserCounts) -> Count {
        let UserCounts { read_bytes, written_bytes, ops, total_ns, .. } = *user;
        Count { read_bytes, written_bytes, ops, timed: ops, total_ns }
    }
}

impl From<&FileCounts> for Count {
    fn from(file: &FileCounts) -> Count {
        let FileCounts { read_bytes, written_bytes, ops, total_ns, .. } = *file;
        Count { read_bytes, written_bytes, ops, timed: ops, total_ns }
    }
}

impl From<&TargetCounts> for Count {
    fn from(target: &TargetCounts) -> Count {
        let TargetCounts { read_bytes, written_bytes, ops, timed_ns, .. } = *target;
        Count { read_bytes, written_bytes, ops, timed: target.timed.iter().sum(), total_ns: timed_ns }
    }
}

/// Seconds that a number covers; `None`: all the time.
#[derive(Clone, Copy)]
pub struct Over(pub Option<f64>);

impl Over {
    fn heading(self, what: &str) -> Column {
        (if self.0.is_some() { format!("{what}/s") } else { what.to_owned() }, true)
    }

    pub fn bytes(self, n: u64) -> String {
        bytes(self.0.map_or(n, |s| (n as f64 / s) as u64))
    }

    pub fn ops(self, n: u64) -> String {
        match self.0.map(|s| n as f64 / s) {
            None => n.to_string(),
            Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
            Some(rate) => format!("{rate:.0}"),
        }
    }

    fn cells(self, count: Count) -> [String; 4] {
        [self.bytes(count.read_bytes), self.bytes(count.written_bytes), self.ops(count.ops), count.latency()]
    }

    fn headings(self) -> [Column; 4] {
        [self.heading("read"), self.heading("written"), self.heading("ops"), ("latency".into(), true)]
    }
}

/// Earlier counts by key; `None` without an earlier moment.
fn known<T, K: Eq + Hash>(
    before: Option<&Moment>,
    list: fn(&Moment) -> &[T],
    key: fn(&T) -> K,
) -> Option<HashMap<K, Count>>
where
    for<'a> Count: From<&'a T>,
{
    Some(list(before?).iter().map(|one| (key(one), Count::from(one))).collect())
}

/// The columns of the view and its rows, sorted.
pub fn rows(board: &Board) -> (Vec<Column>, Vec<Row>) {
    let (columns, mut rows) = match board.view {
        View::Users => users(board),
        View::Jobs => jobs(board),
        View::Files => files(board),
        View::Targets => targets(board),
    };
    rows.sort_by(|a, b| {
        let by = match board.sort {
            Sort::Bytes => b.count.bytes().cmp(&a.count.bytes()),
            Sort::Ops => b.count.ops.cmp(&a.count.ops),
            Sort::Latency => b.count.latency_ns().total_cmp(&a.count.latency_ns()),
            Sort::Name => a.name.cmp(&b.name),
        };
        (if board.is_reversed { by.reverse() } else { by }).then_with(|| a.name.cmp(&b.name))
    });
    (columns, rows)
}

fn text(heading: &str) -> Column {
    (heading.to_owned(), false)
}

fn users(board: &Board) -> (Vec<Column>, Vec<Row>) {
    let over = board.over();
    let before = known(board.before.as_ref(), |moment| &moment.top.users, |user: &UserCounts| user.uid);
    let row = |user: &UserCounts| {
        let count = Count::from(user).since(at(before.as_ref(), &user.uid));
        let name = user.uid.map_or_else(|| "others".into(), |uid| board.name_of(uid));
        Row { cells: [vec![plain(&name)], over.cells(count).to_vec()].concat(), name, count }
    };
    ([vec![text("user")], over.headings().to_vec()].concat(), board.now.top.users.iter().map(row).collect())
}

/// Earlier count of a key; zero if there is none.
fn at<K: Eq + Hash>(before: Option<&HashMap<K, Count>>, key: &K) -> Count {
    before.and_then(|before| before.get(key)).copied().unwrap_or_default()
}

fn files(board: &Board) -> (Vec<Column>, Vec<Row>) {
    let over = board.over();
    let before = known(board.before.as_ref(), |moment| &moment.top.files, |file: &FileCounts| file.inode);
    let were_all = board.before.as_ref().is_none_or(|before| before.top.all_files);
    let row = |file: &FileCounts| {
        let now = Count::from(file);
        let count = match before.as_ref().is_some_and(|before| before.contains_key(&file.inode)) || were_all {
            true => now.since(at(before.as_ref(), &file.inode)),
            // The file may have been open but not in the earlier list, so its difference is unknown.
            false => Count::default(),
        };
        let name = file.path.clone().unwrap_or_else(|| "(without a name)".into());
        let about = [bytes(file.size), file.handles.to_string(), plain(&board.name_of(file.uid)), file.layout.clone()];
        Row { cells: [&over.cells(count)[..], &about, &[plain(&name)]].concat(), name, count }
    };
    let about = [("size".to_owned(), true), ("open".to_owned(), true), text("owner"), text("lies on"), text("path")];
    ([over.headings().to_vec(), about.to_vec()].concat(), board.now.top.files.iter().map(row).collect())
}

fn targets(board: &Board) -> (Vec<Column>, Vec<Row>) {
    let over = board.over();
    let before = known(board.before.as_ref(), |moment| &moment.top.targets, |target: &TargetCounts| target.id);
    let row = |target: &TargetCounts| {
        let count = Count::from(target).since(at(before.as_ref(), &target.id));
        let tier = board.now.top.tiers.get(usize::from(target.tier)).cloned().unwrap_or_default();
        let used = target.total_bytes.saturating_sub(target.free_bytes);
        let full = (used * 100).checked_div(target.total_bytes).map_or("-".into(), |percent| format!("{percent} %"));
        let about = [plain(&target.name), plain(&tier), target.state.clone(), full];
        Row { cells: [&about[..], &over.cells(count)].concat(), name: target.name.clone(), count }
    };
    let about = [text("target"), text("tier"), text("state"), ("full".to_owned(), true)];
    ([about.to_vec(), over.headings().to_vec()].concat(), board.now.top.targets.iter().map(row).collect())
}

type JobKey = (Option<String>, Option<String>, u64);

fn jobs(board: &Board) -> (Vec<Column>, Vec<Row>) {
    let over = board.over();
    let key = |job: &Job| -> JobKey { (job.scheduler.clone(), job.host.clone(), job.id) };
    let staged = |job: &Job| Count { read_bytes: job.staging.map_or(0, |s| s.done_bytes), ..Count::default() };
    let list = |moment: &Moment| moment.jobs.clone();
    let before: Option<HashMap<JobKey, Count>> = board
        .before
        .as_ref()
        .and_then(list)
        .map(|jobs| jobs.iter().filter(|job| job.staging.is_some()).map(|job| (key(job), staged(job))).collect());
    let now = list(&board.now).unwrap_or_default();
    let on_hosts = now.iter().any(|job| job.host.is_some());
    let row = |job: &Job| {
        let known = before.as_ref().and_then(|before| before.get(&key(job)));
        let count = match (known, over.0) {
            (Some(before), _) => staged(job).since(*before),
            (None, None) => staged(job),
            // The transfer began before the earlier moment, or after it: its difference is unknown.
            (None, Some(_)) => Count::default(),
        };
        let far = |n: Option<u64>| n.map_or("-".into(), bytes);
        let left = job.staging.and_then(|s| s.left_s).map_or("-".into(), span_s);
        let number = format!("{}{}", job.id, if job.scheduler.is_some() { " (Slurm)" } else { "" });
        let mut cells = vec![number, plain(&job.user), job.state.clone(), over.bytes(count.read_bytes)];
        cells.extend([far(job.staging.map(|s| s.done_bytes)), far(job.staging.map(|s| s.total_bytes)), left]);
        cells.extend(on_hosts.then(|| plain(job.host.as_deref().unwrap_or_default())));
        cells.extend([plain(&job.name), plain(&job.detail.split_whitespace().collect::<Vec<_>>().join(" "))]);
        Row { cells, name: format!("{:020}{}", job.id, job.host.as_deref().unwrap_or_default()), count }
    };
    let mut columns = vec![text("job"), text("user"), text("state"), over.heading("staging")];
    columns.extend([("done".to_owned(), true), ("of".to_owned(), true), ("left".to_owned(), true)]);
    columns.extend(on_hosts.then(|| text("host")));
    columns.extend([text("name"), text("detail")]);
    (columns, now.iter().map(row).collect())
}
