//! Start of time: formats that count from a distant past are shifted so that their first record is at 0.

use super::Record;

/// Shift of times, if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    first: Option<u64>,
    moves: bool,
}

impl Origin {
    /// Creates an origin that leaves times unchanged.
    pub(super) fn as_given() -> Origin {
        Origin { first: None, moves: false }
    }

    /// Creates an origin at the first record.
    pub(super) fn at_first_record() -> Origin {
        Origin { first: None, moves: true }
    }

    /// Shifts one record. Records before the first one of the file are shifted to 0.
    #[inline]
    pub(super) fn apply(&mut self, record: &mut Record) {
        if self.moves {
            let first = *self.first.get_or_insert(record.time_ns);
            record.time_ns = record.time_ns.saturating_sub(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_record_is_at_zero_and_no_time_is_negative() {
        let at = |time_ns| Record { time_ns, ..Record::default() };
        let mut origin = Origin::at_first_record();
        let moved = [100, 130, 90].map(|t| {
            let mut r = at(t);
            origin.apply(&mut r);
            r.time_ns
        });
        assert_eq!(moved, [0, 30, 0]);
        let mut r = at(7);
        Origin::as_given().apply(&mut r);
        assert_eq!(r.time_ns, 7);
    }
}
