//! Space by user, age or directory: scans every name and keeps only the sums.

use super::Core;
use super::requests::find::{Found, Scan};
use crate::control::answers::{Space, SpaceRow, Sum};
use crate::control::{Caller, Find, Problem, SpaceBy};
use object::stop::Stop;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Limit of rows; the files of further keys are summed in one row. A guess: 10 MB.
const ROWS_MAX: usize = 1 << 16;
/// Users in an answer for the dashboard, by the size of their files.
const USERS_MAX: usize = 20;
/// The ages that files are summed by: days without use, and the row's name.
const AGES: [(u64, &str); 5] = [
    (365, "365 days or longer"),
    (90, "90 to 365 days"),
    (30, "30 to 90 days"),
    (7, "7 to 30 days"),
    (0, "below 7 days"),
];

/// Space by user, for the dashboard.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Users {
    /// Users with the most bytes on targets.
    pub users: Vec<SpaceRow>,
    /// Number of users.
    pub users_count: usize,
    /// Sum of the other users.
    pub others: Sum,
    /// Names that could not be read.
    pub unread: u64,
}

/// Key of a sum: a user, an index of [`AGES`], the name of a directory, or all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    User(u32),
    Age(usize),
    Dir(String),
    Others,
}

impl Key {
    fn of(by: SpaceBy, below: &str, found: &Found, now_s: u64) -> Key {
        match by {
            SpaceBy::User => Key::User(found.file.uid),
            SpaceBy::Age => {
                let days = now_s.saturating_sub(found.file.used_s) / 86_400;
                Key::Age(AGES.iter().position(|(from, _)| days >= *from).unwrap_or(AGES.len() - 1))
            }
            SpaceBy::Dir => {
                let path = found.file.path.strip_prefix(below).unwrap_or_default().trim_start_matches('/');
                Key::Dir(path.split_once('/').map_or(".", |(dir, _)| dir).to_owned())
            }
        }
    }

    fn row(self, sum: Sum) -> SpaceRow {
        let uid = if let Key::User(uid) = self { Some(uid) } else { None };
        let name = match self {
            Key::User(uid) => uid.to_string(),
            Key::Age(at) => AGES[at].1.to_owned(),
            Key::Dir(name) => name,
            Key::Others => "others".to_owned(),
        };
        SpaceRow { name, uid, sum }
    }
}

#[derive(Default)]
struct Sums(BTreeMap<Key, Sum>);

impl Sums {
    fn add(&mut self, key: Key, sum: Sum) {
        let is_known = self.0.len() < ROWS_MAX || self.0.contains_key(&key);
        self.0.entry(if is_known { key } else { Key::Others }).or_default().add(sum);
    }

    fn rows(self, by: SpaceBy) -> Vec<SpaceRow> {
        let mut rows: Vec<_> = self.0.into_iter().collect();
        if by != SpaceBy::Age {
            rows.sort_by_key(|(_, sum)| Reverse(*sum));
        }
        rows.into_iter().map(|(key, sum)| key.row(sum)).collect()
    }
}

/// Scans all names below `path`, so the call may take long.
pub fn get(core: &Core, caller: &Caller, path: String, by: SpaceBy, stop: &Stop) -> Result<Space, Problem> {
    let mut sums = Sums::default();
    let what = Find { path, ..Find::default() };
    let mut scan = Scan::new(core, caller, &what)?;
    scan.with_mirrors = true;
    let done = scan.run(stop, &mut |found| {
        sums.add(Key::of(by, &what.path, &found, scan.now_s), Sum::of(found.file.bytes, found.mirrors));
    })?;
    Ok(Space { by, rows: sums.rows(by), unread: done.unread })
}

impl Core {
    /// Space by user. Scans all names, so the call may take long.
    pub fn space_by_user(&self, name_of: impl Fn(u32) -> String) -> Result<Users, Problem> {
        Ok(shown(get(self, &Caller::daemon(), String::new(), SpaceBy::User, &Stop::default())?, name_of))
    }
}

fn shown(Space { rows: mut users, unread, .. }: Space, name_of: impl Fn(u32) -> String) -> Users {
    let (users_count, mut others) = (users.len(), Sum::default());
    users.drain(USERS_MAX.min(users_count)..).for_each(|row| others.add(row.sum));
    users.iter_mut().for_each(|row| row.name = row.uid.map_or_else(|| row.name.clone(), &name_of));
    Users { users, users_count, others, unread }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn users_with_the_most_space_are_shown_and_the_rest_is_summed() {
        let mut sums = Sums::default();
        let sum = |n: u64| Sum { files: 1, bytes: n, on_targets: 2 * n };
        for uid in 0..70_000 {
            sums.add(Key::User(uid), sum(uid.into()));
            sums.add(Key::User(uid), sum(0));
        }
        let rows = sums.rows(SpaceBy::User);
        let Users { users, users_count, others, .. } =
            shown(Space { rows, ..Space::default() }, |uid| format!("user {uid}"));
        assert_eq!((users.len(), users_count), (USERS_MAX, ROWS_MAX + 1));
        assert_eq!((&*users[0].name, users[0].uid), ("others", None), "the files of all further users");
        let largest =
            json!({"name": "user 65535", "uid": 65535, "files": 2, "bytes": 65535, "on_targets_bytes": 131_070});
        assert_eq!(json!(users[1]), largest);
        let all = users.iter().map(|user| user.sum.bytes).sum::<u64>() + others.bytes;
        assert_eq!(all, (0..70_000u64).sum::<u64>());
    }
}
