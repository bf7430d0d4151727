//! Record of the last balancing, so that every node can report its end, even of a run that was cut off.

use crate::Result;
use crate::control::answers::BalanceOutcome as Outcome;
pub use crate::control::answers::BalanceRun as Record;
use meta::records;
use meta::state::State;
use policy::balance::Stats;

/// Kind and key of the record.
const KIND: &str = "balance";
const KEY: &str = "volume";

impl Record {
    pub(super) fn begun(began_ns: u64, host: String) -> Record {
        Record { began_ns, host, ..Record::default() }
    }

    pub(super) fn set(&mut self, stats: Stats) {
        let Stats { passes, seen, kept, moves, bytes, left } = stats;
        (self.pass, self.files, self.kept) = (passes, seen, kept);
        (self.moves, self.bytes, self.left) = (moves, bytes, left);
    }

    pub(super) fn end(&mut self, outcome: Outcome, words: String) {
        (self.outcome, self.ended) = (Some(outcome), Some(words));
    }

    /// Marks a run as cut off: it runs on no node, and no end was recorded.
    pub(super) fn cut_off(&mut self) {
        if self.outcome.is_none() {
            let host = &self.host;
            let words = format!(
                "it was cut off: the daemon on {host} ended, or another node leads since; moved files stay where they \
                 are now"
            );
            self.end(Outcome::Cut, words);
        }
    }

    /// Progress in one line.
    pub(super) fn line(&self) -> String {
        let Record { moves, bytes, pass, .. } = self;
        format!("balance: {moves} moves of {} made, pass {pass}", policy::units::show_bytes(*bytes))
    }

    pub(super) fn read(state: &dyn State) -> Result<Option<Record>> {
        records::get(state, KIND, KEY)
    }

    pub(super) fn remember(&self, state: &dyn State) -> Result<()> {
        records::put(state, KIND, KEY, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    #[test]
    fn one_of_which_no_end_was_noted_was_cut_off_and_any_other_ended_as_it_says() {
        let state = SqliteState::in_memory().expect("state");
        assert_eq!(Record::read(&state).expect("read"), None);
        let mut record = Record::begun(7, "n1".into());
        record.set(Stats { passes: 1, seen: 5, kept: 1, moves: 3, bytes: 4 << 20, left: 0 });
        record.remember(&state).expect("written");
        let read = || Record::read(&state).expect("read").expect("one");
        let mut cut = read();
        cut.cut_off();
        assert_eq!((cut.outcome, cut.moves, cut.files), (Some(Outcome::Cut), 3, 5));
        assert!(cut.ended.as_ref().is_some_and(|how| how.contains("the daemon on n1 ended")), "{cut:?}");
        record.end(Outcome::Done, "every target is as full as its tier".into());
        record.remember(&state).expect("written");
        let mut done = read();
        done.cut_off();
        assert_eq!(done, record);
        state.record_put(KIND, KEY, b"of a later version").expect("written");
        assert_eq!(Record::read(&state).expect("read"), None);
    }
}
