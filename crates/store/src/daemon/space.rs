//! Space by user: scans every name, as `entrepot df --by user` does, and keeps only the sums.

use super::Core;
use super::dashboard::operator;
use super::requests::find;
use crate::control::{Find, Problem, Responder, Sum};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum of users with sums of their own.
const USERS_MAX: usize = 4096;
/// Users in an answer, by the size of their files.
const SHOWN_MAX: usize = 20;

#[derive(Default)]
struct Sums {
    users: BTreeMap<u64, Sum>,
    /// Sum of the users beyond [`USERS_MAX`].
    others: Sum,
}

impl Sums {
    fn add(&mut self, uid: u64, sum: Sum) {
        let is_known = self.users.len() < USERS_MAX || self.users.contains_key(&uid);
        let of = if is_known { self.users.entry(uid).or_default() } else { &mut self.others };
        of.add(sum);
    }

    fn shown(self) -> Value {
        let Sums { users, mut others } = self;
        let count = users.len();
        let mut users: Vec<_> = users.into_iter().collect();
        users.sort_by_key(|(uid, sum)| (Reverse(*sum), *uid));
        users.drain(SHOWN_MAX.min(count)..).for_each(|(_, sum)| others.add(sum));
        let one = |(uid, sum): (u64, Sum)| {
            let mut shown = sum.shown();
            shown["uid"] = json!(uid);
            shown
        };
        json!({"users": users.into_iter().map(one).collect::<Vec<_>>(), "users_count": count, "others": others.shown()})
    }
}

impl Core {
    /// Scans all names, so the call may take long.
    pub fn space_by_user(&self) -> Result<Value, Problem> {
        let mut sums = Sums::default();
        let mut add = |file: Value| {
            sums.add(file["uid"].as_u64().unwrap_or(0), Sum::of(&file));
            true
        };
        let what = Find { with_mirrors: true, ..Find::default() };
        let done = find::run(self, &operator(), &what, &mut Responder::new(&mut add, Default::default()))?;
        let mut shown = sums.shown();
        shown["unread"] = done["unread"].clone();
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_take_most_are_shown_and_the_rest_is_summed_up() {
        let mut sums = Sums::default();
        let sum = |n: u64| Sum { files: 1, bytes: n, on_targets: 2 * n };
        for uid in 0..5000 {
            sums.add(uid, sum(uid));
            sums.add(uid, sum(0));
        }
        let shown = sums.shown();
        let users = shown["users"].as_array().expect("users");
        assert_eq!((users.len(), &shown["users_count"]), (SHOWN_MAX, &json!(USERS_MAX)));
        assert_eq!(users[0], json!({"uid": 4095, "files": 2, "bytes": 4095, "on_targets_bytes": 8190}));
        let bytes = |of: &Value| of["bytes"].as_u64().expect("a number");
        let all: u64 = users.iter().map(bytes).sum::<u64>() + bytes(&shown["others"]);
        assert_eq!((all, &shown["others"]["files"]), ((0..5000).sum(), &json!(2 * (5000 - 20))));
    }
}
