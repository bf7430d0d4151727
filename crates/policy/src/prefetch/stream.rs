//! Read-ahead of one stream with separate degree `P` and trigger distance `T`, as set by ETS and ESF (section 2).
//!
//! ```text
//!                     T blocks or fewer left, including this one
//!                        v
//!     read read read [read] . . . . end |<------- P more ------->|
//! ```
//!
//! The degree grows like Linux's windows: 4, 8, 16, 32, up to its largest. A block other than the expected one resets
//! the stream. With `P` = 32 and `T` = 32 it fetches the same as Linux 2.6.18. Each read issues one set at most, and
//! `T` never exceeds the newest set, so at most one set is outstanding beyond the newest.

use super::context::{Ahead, Context, state};
use super::window;
use crate::block::{Block, Reason};

#[derive(Clone, Copy, Debug)]
struct Position {
    expected: u64,
    /// Block after the last one prefetched.
    end: u64,
    /// Size of the newest set; 0 while the stream is not sequential.
    degree: u32,
}

/// Positions of all streams.
#[derive(Clone, Debug)]
pub struct Streams {
    degree_max: u32,
    distance: u32,
    positions: Vec<Position>,
}

impl Streams {
    pub(crate) fn new(degree_max: u32, distance: u32) -> Streams {
        Streams { degree_max, distance, positions: Vec::new() }
    }

    /// Returns the prefetch around this request.
    pub(crate) fn before(&mut self, context: &Context) -> Option<Ahead> {
        let (first, end) = (context.span.first, context.span.end().0);
        let start = Block::new(first.file(), 0).0;
        let position = state(&mut self.positions, context, || Position { expected: start, end: start, degree: 0 });
        let labelled = context.any_labelled();
        if first.0 != position.expected {
            if labelled {
                *position = Position { expected: end, end, degree: 0 };
            }
            return None;
        }
        position.expected = end;
        if position.degree == 0 {
            if !labelled {
                return None;
            }
            position.degree = window::initial(context.span.len, self.degree_max);
            position.end = end.max(first.0 + u64::from(position.degree));
            return Some(Ahead::new(first, position.degree, Reason::Ahead));
        }
        position.end = position.end.max(end);
        let distance = context.distance.unwrap_or(self.distance).clamp(1, position.degree);
        if position.end - (end - 1) > u64::from(distance) {
            return None;
        }
        if labelled {
            position.degree = window::next(position.degree, self.degree_max);
        }
        let ahead = Ahead::new(Block(position.end), position.degree, Reason::Triggered);
        position.end += u64::from(position.degree);
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Span;

    fn issued(degree_max: u32, distance: u32, reads: impl Iterator<Item = u64>) -> Vec<(u64, u64, u32)> {
        let mut streams = Streams::new(degree_max, distance);
        let mut issued = Vec::new();
        for (n, at) in reads.enumerate() {
            let span = Span::new(0, at, 1);
            let context = Context { span, labelled_end: span.end(), stream: 0, fresh: n == 0, distance: None };
            if let Some(ahead) = streams.before(&context) {
                issued.push((at, ahead.span.first.index(), ahead.span.len));
            }
        }
        issued
    }

    #[test]
    fn thirty_two_thirty_two_is_the_kernel() {
        assert_eq!(
            issued(32, 32, 0..64),
            [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)]
        );
    }

    #[test]
    fn twenty_four_forty_eight_has_a_mean_inventory_of_forty_eight() {
        let sets = issued(48, 24, 0..2000);
        for pair in sets.iter().filter(|set| set.0 > 200).collect::<Vec<_>>().windows(2) {
            assert_eq!((pair[1].0 - pair[0].0, pair[0].1 - pair[0].0, pair[0].2), (48, 24, 48));
        }
    }

    #[test]
    fn a_jump_resets() {
        let sets = issued(48, 24, (0..100).chain(500..502));
        assert_eq!(sets.last(), Some(&(501, 501, 4)), "the second read after the jump begins anew: {sets:?}");
    }
}
