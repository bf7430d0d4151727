//! Order of the notices of the ends of jobs: users take turns, and one alone never has all places.
//!
//! A user whose notices hang holds one place for as long as a notice may take; the others go on in the rest. Notices
//! beyond a user's limit are refused, and the driver logs that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A notice; a number of the driver's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoticeId(pub u64);

/// The notices that wait and go.
#[derive(Debug)]
pub struct Notices {
    places: usize,
    waiting_max: usize,
    waiting: BTreeMap<u32, VecDeque<NoticeId>>,
    /// Users whose notices are being sent.
    going: BTreeSet<u32>,
    /// User with the last turn.
    last: u32,
}

impl Notices {
    /// `places` limits the notices sent at once, one of each user; `waiting_max` limits the waiting ones of each user.
    pub fn new(places: usize, waiting_max: usize) -> Notices {
        Notices { places, waiting_max, waiting: BTreeMap::new(), going: BTreeSet::new(), last: 0 }
    }

    /// A notice for a user. Whether it is taken: too many wait already, else.
    pub fn ask(&mut self, user: u32, notice: NoticeId) -> bool {
        let line = self.waiting.entry(user).or_default();
        let has_room = line.len() < self.waiting_max;
        if has_room {
            line.push_back(notice);
        }
        has_room
    }

    /// Next notice that may be sent now; the driver reports its end.
    pub fn begin(&mut self) -> Option<(u32, NoticeId)> {
        if self.going.len() >= self.places {
            return None;
        }
        let may = |user: &&u32| !self.going.contains(user);
        let after = self.waiting.keys().filter(|user| **user > self.last).find(may);
        let user = *after.or_else(|| self.waiting.keys().find(may))?;
        let line = self.waiting.get_mut(&user)?;
        let notice = line.pop_front()?;
        if line.is_empty() {
            self.waiting.remove(&user);
        }
        self.last = user;
        self.going.insert(user);
        Some((user, notice))
    }

    /// The notice of a user that went has ended, well or not.
    pub fn ended(&mut self, user: u32) {
        self.going.remove(&user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Notices {
        /// Panics if an invariant is broken.
        fn check(&self) {
            assert!(self.going.len() <= self.places);
            assert!(self.waiting.values().all(|line| !line.is_empty() && line.len() <= self.waiting_max));
        }
    }

    /// [S-315]
    #[test]
    fn a_user_whose_notices_hang_holds_one_place_and_the_others_go_on() {
        let mut notices = Notices::new(2, 3);
        let taken: Vec<bool> = (0..5).map(|n| notices.ask(7, NoticeId(n))).collect();
        assert_eq!(taken, [true, true, true, false, false], "one user does not fill the line");
        assert!(notices.ask(8, NoticeId(10)) && notices.ask(9, NoticeId(11)));
        assert_eq!(notices.begin(), Some((7, NoticeId(0))), "and it hangs");
        assert_eq!((notices.begin(), notices.begin()), (Some((8, NoticeId(10))), None));
        notices.ended(8);
        assert_eq!((notices.begin(), notices.begin()), (Some((9, NoticeId(11))), None));
        notices.ended(9);
        assert_eq!(notices.begin(), None, "nobody else is there");
        notices.ended(7);
        assert_eq!(notices.begin(), Some((7, NoticeId(1))));
        notices.check();
    }

    proptest! {
        #[test]
        fn each_goes_once_and_a_user_never_twice_at_once(
            steps in prop::collection::vec((0u32..5, 0u8..3), 1..200), places in 1usize..4
        ) {
            let mut notices = Notices::new(places, 8);
            let (mut n, mut asked, mut went, mut going) = (0, Vec::new(), Vec::new(), BTreeSet::new());
            for (user, what) in steps {
                match what {
                    0 => {
                        n += 1;
                        if notices.ask(user, NoticeId(n)) {
                            asked.push(NoticeId(n));
                        }
                    }
                    1 => {
                        if let Some((user, notice)) = notices.begin() {
                            prop_assert!(going.insert(user) && going.len() <= places);
                            went.push(notice);
                        }
                    }
                    _ => {
                        going.remove(&user);
                        notices.ended(user);
                    }
                }
                notices.check();
            }
            loop {
                going.iter().for_each(|user| notices.ended(*user));
                let Some((user, notice)) = notices.begin() else { break };
                going.insert(user);
                went.push(notice);
            }
            went.sort();
            prop_assert_eq!(asked, went);
        }
    }
}
