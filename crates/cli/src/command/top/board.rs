//! State of the display: two moments to compare, the view, and its changes by keys.

use super::moment::Moment;
use super::rows::Over;
use crate::users;
use clap::ValueEnum;
use policy::named;
use std::collections::BTreeMap;
use terminal::screen::Key;

named! {
    /// Rows of the display.
    #[derive(ValueEnum)]
    View {
        /// Users that send requests.
        Users = "users",
        /// Jobs that are not over, and their staging.
        Jobs = "jobs",
        /// Files that are open.
        Files = "files",
        /// Targets of the volume.
        Targets = "targets",
    }
}

named! {
    /// Order of the rows.
    #[derive(ValueEnum)]
    Sort {
        /// Read and written.
        Bytes = "bytes",
        /// Number of operations.
        Ops = "operations",
        /// Mean time until the answer.
        Latency = "latency",
        /// Names; numbers of jobs.
        Name = "name",
    }
}

impl View {
    /// Orders that the view supports.
    pub fn sorts(self) -> &'static [Sort] {
        match self {
            View::Jobs => &[Sort::Bytes, Sort::Name],
            View::Users | View::Files | View::Targets => &[Sort::Bytes, Sort::Ops, Sort::Latency, Sort::Name],
        }
    }
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The display goes on.
    Goes,
    /// The daemon is queried at once.
    Asks,
    /// The program ends.
    Ends,
}

pub struct Board {
    pub view: View,
    pub sort: Sort,
    pub is_reversed: bool,
    /// Rows above the first that is shown.
    pub above: usize,
    /// Note about a failure.
    pub note: Option<String>,
    /// Moment to compare with.
    pub before: Option<Moment>,
    pub now: Moment,
    names: BTreeMap<u32, String>,
}

impl Board {
    pub fn new(view: View, sort: Sort, now: Moment) -> Board {
        let note = now.note();
        Board { view, sort, is_reversed: false, above: 0, note, before: None, now, names: BTreeMap::new() }
    }

    /// Replaces the present moment. After a restart of the daemon there is no earlier moment to compare with, since
    /// counters start from zero.
    pub fn now_is(&mut self, moment: Moment) {
        let before = std::mem::replace(&mut self.now, moment);
        self.before = Some(before).filter(|before| before.top.uptime_ns < self.now.top.uptime_ns);
        self.note = self.now.note();
    }

    /// Time that the numbers cover.
    pub fn over(&self) -> Over {
        let span = |before: &Moment| (self.now.top.uptime_ns - before.top.uptime_ns) as f64 / 1e9;
        Over(self.before.as_ref().map(span))
    }

    /// Handles a key, on a screen of `rows` rows.
    pub fn press(&mut self, key: Key, rows: usize) -> Next {
        match key {
            Key::Char('q') => return Next::Ends,
            Key::Char(digit @ '1'..='4') => return self.show(View::ALL[digit as usize - '1' as usize]),
            Key::Tab => return self.show(View::ALL[(self.view as usize + 1) % View::ALL.len()]),
            Key::Char('s') => {
                let sorts = self.view.sorts();
                let at = sorts.iter().position(|sort| *sort == self.sort).map_or(0, |at| at + 1);
                self.sort = sorts[at % sorts.len()];
                self.above = 0;
            }
            Key::Char('r') => {
                self.is_reversed = !self.is_reversed;
                self.above = 0;
            }
            Key::Up => self.scroll(-1, rows),
            Key::Down => self.scroll(1, rows),
            Key::PageUp => self.scroll(-(rows as isize), rows),
            Key::PageDown => self.scroll(rows as isize, rows),
            Key::Char(_) => {}
        }
        Next::Goes
    }

    /// Scrolls by `by` rows, up to the last page of `shown` rows.
    fn scroll(&mut self, by: isize, shown: usize) {
        let all = match self.view {
            View::Users => self.now.top.users.len(),
            View::Jobs => self.now.jobs.as_ref().map_or(0, Vec::len),
            View::Files => self.now.top.files.len(),
            View::Targets => self.now.top.targets.len(),
        };
        self.above = self.above.saturating_add_signed(by).min(all.saturating_sub(shown));
    }

    fn show(&mut self, view: View) -> Next {
        self.view = view;
        self.above = 0;
        if !view.sorts().contains(&self.sort) {
            self.sort = Sort::Bytes;
        }
        if view == View::Jobs && self.now.jobs.is_none() { Next::Asks } else { Next::Goes }
    }

    /// The name of a user, or the number until the name is looked up.
    pub fn name_of(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// Looks up names of users that are shown, at most `max`.
    pub fn learn_names(&mut self, max: usize) {
        let of_files = self.now.top.files.iter().filter(|_| self.view == View::Files).map(|file| file.uid);
        let of_users = self.now.top.users.iter().filter(|_| self.view == View::Users).filter_map(|user| user.uid);
        let unknown = of_files.chain(of_users).filter(|uid| !self.names.contains_key(uid));
        let mut unknown: Vec<_> = unknown.collect();
        unknown.sort_unstable();
        unknown.dedup();
        for uid in unknown.into_iter().take(max) {
            self.names.insert(uid, users::name_or_number(uid));
        }
    }
}
