//! Credit: bytes of a checkpoint's file that a node may write before it requests more from the leader.
//!
//! ```text
//!   Hold -> credit left? -> Release
//!            no: Ask ... Answered -> Release
//! ```
//! The leader runs admission for all nodes ([`super::admission`]), and is remote. A file requests its waiting bytes and
//! as much again as it has received so far, up to a piece. So a large file sends few requests, and a small one takes
//! little from others.
//!
//! Invariant: no write is held for ever. Every `Ask` ends with `Answered`. The driver grants it if no leader answers:
//! bytes are safe without admission, and full devices report errors.

use super::admission::Verdict;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::VecDeque;

/// Most bytes requested beyond the waiting ones. A guess: some requests a second of a fast writer.
const PIECE_BYTES: u64 = 16 << 20;

/// Events that drivers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write waits for credit. `write` is unique among held writes.
    Hold {
        /// Number of the write.
        write: u64,
        /// Size of the write.
        len: u64,
    },
    /// The leader granted or refused the request, or does not answer.
    Answered {
        /// Number of the request.
        number: u64,
        /// Result of the request.
        verdict: Verdict,
    },
    /// The file is closed, or this node leads: waiting writes go on, and the credit ends.
    End,
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request to the leader.
    Ask {
        /// Number of the request.
        number: u64,
        /// Bytes that are requested.
        bytes: u64,
    },
    /// End the wait of a held write.
    Release {
        /// Number of the write.
        write: u64,
        /// Result for the write.
        verdict: Verdict,
    },
}

/// The credit of one file.
#[derive(Debug, Default)]
pub struct Credit {
    left: u64,
    given: u64,
    number: u64,
    /// Number and bytes of the request without an answer.
    asked: Option<(u64, u64)>,
    waiting: VecDeque<(u64, u64)>,
    actions: VecDeque<Action>,
}

impl Credit {
    /// Whether a write may go on at once; if so, takes its bytes from the credit.
    pub fn admit(&mut self, len: u64) -> bool {
        let goes = self.waiting.is_empty() && len <= self.left;
        if goes {
            self.left -= len;
        }
        goes
    }

    fn serve(&mut self) {
        while let Some((write, len)) = self.waiting.front().copied().filter(|(_, len)| *len <= self.left) {
            self.left -= len;
            self.waiting.pop_front();
            self.actions.push_back(Action::Release { write, verdict: Verdict::Go });
        }
        let wanted: u64 = self.waiting.iter().map(|(_, len)| len).sum();
        if wanted > self.left && self.asked.is_none() {
            self.number += 1;
            let bytes = (wanted - self.left) + self.given.min(PIECE_BYTES);
            self.asked = Some((self.number, bytes));
            self.actions.push_back(Action::Ask { number: self.number, bytes });
        }
    }

    fn answered(&mut self, bytes: u64, verdict: Verdict) {
        self.asked = None;
        if verdict == Verdict::Go {
            (self.left, self.given) = (self.left + bytes, self.given + bytes);
        } else {
            let all = std::mem::take(&mut self.waiting);
            self.actions.extend(all.into_iter().map(|(write, _)| Action::Release { write, verdict }));
        }
        self.serve();
    }
}

impl Machine for Credit {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, _: Time, event: Event) {
        match event {
            Event::Hold { write, len } => {
                self.waiting.push_back((write, len));
                self.serve();
            }
            Event::Answered { number, verdict } => {
                if let Some((_, bytes)) = self.asked.filter(|(asked, _)| *asked == number) {
                    self.answered(bytes, verdict);
                }
            }
            Event::End => {
                let all = std::mem::take(&mut self.waiting);
                self.actions.extend(all.into_iter().map(|(write, _)| Action::Release { write, verdict: Verdict::Go }));
                (self.left, self.given, self.asked) = (0, 0, None);
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(credit: &mut Credit, ms: u64, event: Event) -> Vec<Action> {
        credit.handle(Time::from_millis(ms), event);
        credit.drain().collect()
    }

    fn goes(write: u64) -> Action {
        Action::Release { write, verdict: Verdict::Go }
    }

    fn granted(number: u64) -> Event {
        Event::Answered { number, verdict: Verdict::Go }
    }

    #[test]
    fn a_file_asks_for_what_waits_and_then_for_as_much_again_as_it_was_given() {
        let mut credit = Credit::default();
        assert!(!credit.admit(100));
        assert_eq!(told(&mut credit, 0, Event::Hold { write: 1, len: 100 }), [Action::Ask { number: 1, bytes: 100 }]);
        assert_eq!(told(&mut credit, 1, Event::Hold { write: 2, len: 50 }), [], "one ask at a time");
        let next = [goes(1), Action::Ask { number: 2, bytes: 150 }];
        assert_eq!(told(&mut credit, 2, granted(1)), next);
        assert_eq!(told(&mut credit, 2, granted(1)), [], "that answer came before");
        assert_eq!(told(&mut credit, 3, granted(2)), [goes(2)]);
        assert!(credit.admit(100) && !credit.admit(1), "150 less 50 were left");
        assert_eq!(credit.next_deadline(), None);
    }

    #[test]
    fn a_large_file_asks_a_piece_at_a_time_and_the_rest_of_the_last_is_all_that_it_takes_too_much() {
        let (mut credit, mut asks, mut asked) = (Credit::default(), 0, 0);
        let (bytes, write) = (1_u64 << 30, 1_u64 << 20);
        for n in 0..bytes / write {
            if !credit.admit(write) {
                for action in told(&mut credit, n, Event::Hold { write: n, len: write }) {
                    let Action::Ask { number, bytes } = action else { panic!("{action:?}") };
                    (asks, asked) = (asks + 1, asked + bytes);
                    assert_eq!(told(&mut credit, n, granted(number)), [goes(n)]);
                }
            }
        }
        assert!(asks < 80 && asked < bytes + 2 * PIECE_BYTES, "{asks} asks, {asked} bytes");
    }

    #[test]
    fn of_a_file_that_is_closed_nothing_is_left_and_an_earlier_answer_counts_no_more() {
        let mut credit = Credit::default();
        told(&mut credit, 0, Event::Hold { write: 1, len: 7 });
        assert_eq!(told(&mut credit, 1, Event::End), [goes(1)]);
        assert_eq!((credit.next_deadline(), told(&mut credit, 2, granted(1))), (None, Vec::new()));
        assert!(!credit.admit(1));
        assert_eq!(told(&mut credit, 3, Event::Hold { write: 2, len: 7 }), [Action::Ask { number: 2, bytes: 7 }]);
    }

    #[test]
    fn what_is_refused_fails_all_that_wait_and_the_next_write_asks_anew() {
        let mut credit = Credit::default();
        (1..=3).for_each(|write| credit.handle(Time::ZERO, Event::Hold { write, len: 7 }));
        credit.drain().for_each(drop);
        let fails = |write| Action::Release { write, verdict: Verdict::NoRoom };
        let refused = Event::Answered { number: 1, verdict: Verdict::NoRoom };
        assert_eq!(told(&mut credit, 1, refused), [1, 2, 3].map(fails));
        assert_eq!(told(&mut credit, 2, Event::Hold { write: 4, len: 7 }), [Action::Ask { number: 2, bytes: 7 }]);
    }
}
