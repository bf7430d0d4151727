//! Space by user: scans every name, as `entrepot df --by user` does, and keeps only the sums.

use super::Core;
use super::dashboard::operator;
use super::requests::find;
use crate::control::answers::{self, File};
use crate::control::{Find, Problem, Responder, Sum};
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum of users with sums of their own.
const USERS_MAX: usize = 4096;
/// Users in an answer, by the size of their files.
const SHOWN_MAX: usize = 20;

/// Sums by user, for the dashboard.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Space {
    /// Users with the most bytes on targets.
    pub users: Vec<UserSum>,
    /// Number of users.
    pub users_count: usize,
    /// Sum of the other users.
    pub others: Sum,
    /// Names that could not be read.
    pub unread: u64,
}

/// Files of one user.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UserSum {
    /// Sum of the files.
    #[serde(flatten)]
    pub sum: Sum,
    /// User id of the owner.
    pub uid: u32,
    /// Name of the owner.
    pub user: String,
}

#[derive(Default)]
struct Sums {
    users: BTreeMap<u32, Sum>,
    /// Sum of the users beyond [`USERS_MAX`].
    others: Sum,
}

impl Sums {
    fn add(&mut self, uid: u32, sum: Sum) {
        let is_known = self.users.len() < USERS_MAX || self.users.contains_key(&uid);
        let of = if is_known { self.users.entry(uid).or_default() } else { &mut self.others };
        of.add(sum);
    }

    fn shown(self, name_of: impl Fn(u32) -> String, unread: u64) -> Space {
        let Sums { users, mut others } = self;
        let users_count = users.len();
        let mut users: Vec<_> = users.into_iter().collect();
        users.sort_by_key(|(uid, sum)| (Reverse(*sum), *uid));
        users.drain(SHOWN_MAX.min(users_count)..).for_each(|(_, sum)| others.add(sum));
        let users = users.into_iter().map(|(uid, sum)| UserSum { sum, uid, user: name_of(uid) }).collect();
        Space { users, users_count, others, unread }
    }
}

impl Core {
    /// Scans all names, so the call may take long.
    pub fn space_by_user(&self, name_of: impl Fn(u32) -> String) -> Result<Space, Problem> {
        let mut sums = Sums::default();
        let mut add = |file: Value| {
            // The search of this daemon sends nothing else.
            if let Ok(file) = answers::read::<File>(file) {
                sums.add(file.uid, Sum::of(&file));
            }
            true
        };
        let what = Find { with_mirrors: true, ..Find::default() };
        let done = find::run(self, &operator(), &what, &mut Responder::new(&mut add, Default::default()))?;
        Ok(sums.shown(name_of, done.unread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn those_that_take_most_are_shown_and_the_rest_is_summed_up() {
        let mut sums = Sums::default();
        let sum = |n: u64| Sum { files: 1, bytes: n, on_targets: 2 * n };
        for uid in 0..5000 {
            sums.add(uid, sum(uid.into()));
            sums.add(uid, sum(0));
        }
        let Space { users, users_count, others, .. } = sums.shown(|uid| uid.to_string(), 0);
        assert_eq!((users.len(), users_count), (SHOWN_MAX, USERS_MAX));
        let first = json!({"uid": 4095, "user": "4095", "files": 2, "bytes": 4095, "on_targets_bytes": 8190});
        assert_eq!(json!(users[0]), first);
        let all = users.iter().map(|user| user.sum.bytes).sum::<u64>() + others.bytes;
        assert_eq!((all, others.files), ((0..5000).sum(), 2 * (5000 - 20)));
    }
}
