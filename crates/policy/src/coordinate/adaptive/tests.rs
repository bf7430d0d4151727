//! Lessons that the per-stream coordinator learns from requests.

use super::*;
use proptest::prelude::*;

fn read(adaptive: &mut Adaptive, file: u32, index: u64, len: u32) -> Course {
    adaptive.course(&Request::read(0, Span::new(file, index, len)), 0)
}

/// Random requests, enough for every lesson about them.
fn jump_about(adaptive: &mut Adaptive) {
    for n in 0..1000 {
        read(adaptive, 9, 1_000_000 + n * 7919, 2);
    }
}

#[test]
fn a_stream_is_offered_as_much_as_it_has_read_up_to_the_largest_window() {
    let mut adaptive = Adaptive::new(10_000, false);
    let mut read_up_to = 0;
    let mut longest = 0;
    for request in 0..400u64 {
        let course = read(&mut adaptive, 0, 1000 + request * 4, 4);
        let end = 1000 + request * 4 + 4;
        if course.ahead.len > 0 {
            read_up_to = course.ahead.end().index();
            assert!(course.ahead.first.index() >= end);
            assert!(read_up_to - end <= (end - 1000).clamp(WINDOW_MIN, WINDOW_MAX));
        }
        longest = longest.max(read_up_to.saturating_sub(end));
    }
    assert!(longest > WINDOW_MAX / 2, "{longest} blocks ahead at most");
}

#[test]
fn nothing_is_read_more_while_others_wait_and_the_stream_gets_it_afterwards() {
    let mut adaptive = Adaptive::new(10_000, false);
    let mut course = |at: u64, waiting| adaptive.course(&Request::read(0, Span::new(0, at * 4, 4)), waiting).ahead;
    for at in 0..50 {
        assert_eq!(course(at, 1).len, 0);
    }
    let ahead = course(50, 0);
    assert_eq!((ahead.first.index(), ahead.len), (204, WINDOW_MAX as u32));
}

#[test]
fn what_an_upper_level_prefetches_along_with_a_jump_is_no_stream() {
    for (labels, is_stream) in [(false, true), (true, false)] {
        let mut adaptive = Adaptive::new(10_000, labels);
        let mut request = |index: u64, len: u32, demand_len: u32| {
            adaptive.course(&Request { demand_len, ..Request::read(0, Span::new(9, index, len)) }, 0)
        };
        let along = (1..1000).map(|n| (request(n * 7919, 1, 1), request(n * 7919 + 1, 4, 0)).1).last().unwrap();
        assert_eq!((along.sequential, along.ahead.len), (is_stream, 0), "labels: {labels}");
    }
}

#[test]
fn soon_nothing_is_read_for_jumps() {
    let mut adaptive = Adaptive::new(10_000, false);
    jump_about(&mut adaptive);
    let course = read(&mut adaptive, 9, 5_000_000_000, 2);
    assert_eq!((course.sequential, course.keep, course.ahead.len), (false, false, 0), "and no block came back");
}

#[test]
fn files_that_are_read_from_their_start_are_read_ahead_whatever_jumps_elsewhere() {
    let mut adaptive = Adaptive::new(10_000, false);
    for file in 10..200 {
        for at in 0..8 {
            read(&mut adaptive, file, at * 2, 2);
        }
        jump_about(&mut adaptive);
    }
    assert!(read(&mut adaptive, 300, 0, 2).ahead.len > 0);
    assert_eq!(read(&mut adaptive, 301, 50, 2).ahead.len, 0);
}

#[test]
fn blocks_of_streams_are_kept_only_where_they_come_back() {
    for (blocks, comes_back) in [(300, true), (100_000, false)] {
        let mut adaptive = Adaptive::new(400, false);
        let mut keep = false;
        for n in 0..10_000 {
            let course = read(&mut adaptive, 0, n * 4 % blocks, 4);
            keep = course.keep && course.sequential;
        }
        assert_eq!(keep, comes_back, "a loop of {blocks} blocks over a cache of 400");
    }
}

#[test]
fn streams_that_stopped_leave_their_room_to_others() {
    let mut adaptive = Adaptive::new(100, false);
    let mut ahead = 0;
    for file in 0..50 {
        ahead = (0..25).map(|at| read(&mut adaptive, file, at * 4, 4).ahead.len).sum();
    }
    assert!(ahead > 75, "{ahead} of 100 blocks of the last stream were read ahead");
}

proptest! {
    #[test]
    fn what_is_read_more_follows_the_request_within_its_file_and_the_cache(
        capacity in 1..2000u32,
        requests in prop::collection::vec((0..3u32, 0..300u64, 1..9u32, any::<bool>()), 1..300),
    ) {
        let mut adaptive = Adaptive::new(capacity, false);
        let mut next = 0;
        for (file, index, len, goes_on) in requests {
            let index = if goes_on && next < 450 { next } else { index };
            next = index + u64::from(len);
            let request = Request { file_blocks: 500, ..Request::read(0, Span::new(file, index, len)) };
            let course = adaptive.course(&request, 0);
            prop_assert!(course.ahead.first >= request.span.end() && course.ahead.end().index() <= 500.max(next));
            prop_assert!(u64::from(course.ahead.len) <= u64::from(capacity) * 3 / 4);
        }
    }
}
