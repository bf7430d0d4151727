//! Calls that wait, are refused, and end: by hand, and in random order.

use super::*;
use proptest::prelude::*;

impl Asking {
    /// Panics if an invariant is broken.
    fn check(&self) {
        assert_eq!(self.due.len(), self.calls.len());
        assert!(self.calls.iter().all(|(call, state)| self.due.contains(&(state.due, *call))));
        assert_eq!(self.files.values().map(BTreeSet::len).sum::<usize>(), self.calls.len());
        assert_eq!(self.users.values().sum::<u64>(), self.calls.len() as u64);
        assert!(self.users.values().all(|n| *n > 0) && self.files.values().all(|calls| !calls.is_empty()));
    }
}

const MS: u64 = 1_000_000;

struct Clock(Asking, Time);

impl Clock {
    fn new() -> Clock {
        Clock(Asking::new(Config::default()), Time::ZERO)
    }

    fn does(&mut self, event: Event) -> Vec<Action> {
        self.0.handle(self.1, event);
        self.0.check();
        self.0.drain().collect()
    }

    fn came(&mut self, call: u64, user: u32, waits: bool) {
        let call = Call(call);
        assert_eq!(self.does(Event::Came { call, file: 7, user, waits }), [Action::Ask { call }], "at once");
    }

    fn refused(&mut self, call: u64, refusal: Refusal) -> Vec<Action> {
        self.does(Event::Refused { call: Call(call), refusal })
    }

    /// Next action, and the milliseconds until then.
    fn next(&mut self) -> (u64, Vec<Action>) {
        let due = self.0.next_deadline().expect("something is due");
        let rest = due.since(self.1).0 / MS;
        self.1 = due;
        (rest, self.does(Event::Tick))
    }
}

fn asks(call: u64) -> Vec<Action> {
    vec![Action::Ask { call: Call(call) }]
}

/// [S-218]
#[test]
fn pauses_grow_and_a_lock_that_is_given_back_here_ends_them() {
    let mut clock = Clock::new();
    clock.came(1, 5, true);
    for pause in [1, 2, 4, 8, 16, 32, 50, 50] {
        assert_eq!(clock.refused(1, Refusal::Elsewhere), []);
        assert_eq!(clock.next(), (pause, asks(1)));
    }
    clock.refused(1, Refusal::Here);
    assert_eq!(clock.does(Event::Freed { file: 8 }), [], "another file");
    assert_eq!(clock.does(Event::Freed { file: 7 }), asks(1));
    // The lock was released during a try, and is tried again soon.
    clock.does(Event::Freed { file: 7 });
    clock.refused(1, Refusal::Here);
    assert_eq!(clock.next(), (1, asks(1)));
    clock.does(Event::Ended { call: Call(1) });
    assert_eq!((clock.0.next_deadline(), clock.0.len()), (None, 0));
}

/// [S-218]
#[test]
fn who_may_not_wait_is_refused_but_for_a_lock_that_is_being_given_back() {
    let mut clock = Clock::new();
    clock.came(1, 5, false);
    assert_eq!(clock.refused(1, Refusal::Elsewhere), [Action::Refuse { call: Call(1) }]);
    clock.came(2, 5, false);
    assert_eq!(clock.refused(2, Refusal::Here), [Action::Refuse { call: Call(2) }]);
    clock.came(3, 5, false);
    assert_eq!(clock.refused(3, Refusal::Closed), []);
    assert_eq!(clock.does(Event::Freed { file: 7 }), asks(3));
    // The wait never ends.
    let began = clock.1;
    let mut last = Vec::new();
    while !clock.0.is_empty() {
        last = clock.refused(3, Refusal::Closed);
        if !clock.0.is_empty() {
            clock.next();
        }
    }
    assert_eq!(last, [Action::Refuse { call: Call(3) }]);
    let took = clock.1.since(began);
    assert!((Time::from_secs(30)..Time::from_secs(31)).contains(&took), "{took:?}");
}

/// [S-218]
#[test]
fn what_is_not_answered_is_given_up() {
    let mut clock = Clock::new();
    clock.came(1, 5, true);
    assert_eq!(clock.next(), (30_000, vec![Action::GiveUp { call: Call(1) }]));
    assert_eq!(clock.refused(1, Refusal::Elsewhere), [], "too late");
    assert_eq!(clock.0.len(), 0);
}

#[test]
fn those_that_wait_are_asked_in_the_order_in_which_they_came() {
    let mut clock = Clock::new();
    for call in 1..=4 {
        clock.came(call, call as u32, true);
        clock.refused(call, Refusal::Here);
    }
    assert_eq!(clock.does(Event::Freed { file: 7 }), asks(1));
    assert_eq!(clock.next(), (1, asks(2)));
    assert_eq!(clock.next(), (1, asks(3)));
}

/// [S-218]
#[test]
fn a_user_with_many_calls_asks_no_more_often_for_it() {
    let mut clock = Clock::new();
    for call in 0..300 {
        clock.came(call, 5, true);
        clock.refused(call, Refusal::Elsewhere);
    }
    clock.came(5000, 6, true);
    clock.refused(5000, Refusal::Elsewhere);
    let (mut asked, until) = ([0, 0], clock.1 + Time::from_secs(20));
    while clock.1 < until {
        for action in clock.next().1 {
            let Action::Ask { call } = action else { panic!("{action:?}") };
            asked[usize::from(call.0 == 5000)] += 1;
            clock.refused(call.0, Refusal::Elsewhere);
        }
    }
    assert!(asked[0] < 20 * 250 + 13 * 300, "{asked:?}: and the first ones, whose pauses grow");
    assert!(asked[1] > 20 * 19, "{asked:?}");
}

fn event() -> impl Strategy<Value = Event> {
    let call = || (0..12u64).prop_map(Call);
    let refusal = || prop_oneof![Just(Refusal::Elsewhere), Just(Refusal::Here), Just(Refusal::Closed)];
    prop_oneof![
        3 => (call(), refusal()).prop_map(|(call, refusal)| Event::Refused { call, refusal }),
        1 => call().prop_map(|call| Event::Ended { call }),
        1 => (0..3u64).prop_map(|file| Event::Freed { file }),
        2 => Just(Event::Tick),
    ]
}

proptest! {
    /// Each call has one try at a time and ends once; a waiting call is tried again within a second.
    #[test]
    fn each_call_comes_to_its_end(events in prop::collection::vec((event(), 0..40u64), 0..200)) {
        let mut machine = Asking::new(Config::default());
        let (mut now, mut asked, mut live) = (Time::ZERO, BTreeSet::new(), BTreeSet::new());
        let mut next = 0..12;
        for (event, later) in events {
            now = now + Time(later * MS);
            let mut all = vec![event];
            if let Some(n) = next.next() {
                all.push(Event::Came { call: Call(n), file: n % 3, user: n as u32 % 2, waits: n % 4 != 0 });
            }
            for event in all {
                match event {
                    Event::Came { call, .. } => drop(live.insert(call)),
                    Event::Refused { call, .. } => drop(asked.remove(&call)),
                    Event::Ended { call } => {
                        asked.remove(&call);
                        live.remove(&call);
                    }
                    _ => {}
                }
                machine.handle(now, event);
                machine.check();
                while let Some(action) = machine.poll() {
                    match action {
                        Action::Ask { call } => prop_assert!(live.contains(&call) && asked.insert(call)),
                        Action::Refuse { call } => prop_assert!(live.remove(&call) && !asked.contains(&call)),
                        Action::GiveUp { call } => prop_assert!(live.remove(&call) && asked.remove(&call)),
                    }
                }
            }
            prop_assert_eq!(machine.len(), live.len());
            if live.iter().any(|call| !asked.contains(call)) {
                let due = machine.next_deadline().expect("it waits");
                prop_assert!(due <= now + Time::from_secs(1));
            }
        }
    }
}
