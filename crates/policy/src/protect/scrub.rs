//! Time and starting point of the next scrub of a volume: the first file, or the point where the last pass stopped.
//!
//! ```text
//!   began          stopped   goes on         ended                       began + every
//!   |---- pass 1 ----|          |------------|                           |---- pass 2 ----
//! ```
//! A pass that takes longer than the interval is followed by the next at once; two passes never overlap.

use crate::time::Time;

/// Saved state of the last pass; times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Time at which it began.
    pub began: Time,
    /// Whether it reached the last file.
    pub is_over: bool,
}

/// Starting point of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the first file.
    Start,
    /// After the last checked file.
    Here,
}

/// Next step of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A pass begins now.
    Begin(From),
    /// No pass before this time.
    Wait(Time),
    /// No pass, unless a user requests one.
    Nothing,
}

/// Returns the next step of the schedule, with `every` between the beginnings of two passes. With `None`, passes run on
/// request only.
pub fn next(every: Option<Time>, last: Option<Last>, now: Time) -> Next {
    let Some(every) = every else { return Next::Nothing };
    match last {
        None => Next::Begin(From::Start),
        Some(last) if !last.is_over => Next::Begin(From::Here),
        // A clock that was set back does not put the next pass off for ever.
        Some(last) if last.began > now => Next::Begin(From::Start),
        Some(last) if last.began + every <= now => Next::Begin(From::Start),
        Some(last) => Next::Wait(last.began + every),
    }
}

/// Returns the starting point of a pass that a user requests.
pub fn asked(last: Option<Last>, anew: bool) -> From {
    match last {
        Some(last) if !last.is_over && !anew => From::Here,
        _ => From::Start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Option<Time> = Some(Time::from_secs(100));

    fn last(began: u64, is_over: bool) -> Option<Last> {
        Some(Last { began: Time::from_secs(began), is_over })
    }

    #[test]
    fn passes_begin_a_span_after_each_other() {
        let at = Time::from_secs;
        assert_eq!(next(EVERY, None, at(5)), Next::Begin(From::Start), "never before");
        assert_eq!(next(EVERY, last(5, true), at(6)), Next::Wait(at(105)));
        assert_eq!(next(EVERY, last(5, true), at(105)), Next::Begin(From::Start));
        assert_eq!(next(EVERY, last(5, true), at(5000)), Next::Begin(From::Start), "one that took longer");
        assert_eq!(next(None, last(5, true), at(5000)), Next::Nothing);
        assert_eq!(next(EVERY, last(500, true), at(400)), Next::Begin(From::Start), "the clock was set back");
    }

    #[test]
    fn one_that_was_stopped_goes_on_where_it_was() {
        assert_eq!(next(EVERY, last(5, false), Time::from_secs(6)), Next::Begin(From::Here));
        assert_eq!(next(None, last(5, false), Time::from_secs(6)), Next::Nothing, "who stopped it goes on with it");
        assert_eq!(asked(last(5, false), false), From::Here);
        assert_eq!(asked(last(5, false), true), From::Start);
        assert_eq!((asked(last(5, true), false), asked(None, false)), (From::Start, From::Start));
    }
}
