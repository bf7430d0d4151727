//! When the next scrub of a volume begins, and where: at the first file, or where the last pass stopped.
//!
//! ```text
//!   began          stopped   goes on         ended                       began + every
//!   |---- pass 1 ----|          |------------|                           |---- pass 2 ----
//! ```
//! A pass that takes longer than the span between two is followed by the next at once, and never by two at a time.

use crate::time::Time;

/// What is remembered of the last pass; times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// When it began.
    pub began: Time,
    /// Whether it came to the end of the files.
    pub is_over: bool,
}

/// Where a pass begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// At the first file.
    Start,
    /// Behind the last file that was looked at.
    Here,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A pass, now.
    Begin(From),
    /// Nothing before then.
    Wait(Time),
    /// Nothing, until somebody asks.
    Nothing,
}

/// What is to be done by itself, with so long from the begin of one pass to that of the next; with `None` only who asks has it done.
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

/// Where a pass begins that somebody asks for.
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
