//! A node by hand: the check of a claim's generation, the first use of a hold, and the clocks of sessions.

mod clocks;

use super::*;
use crate::holders::table::Table;

const KEY: u64 = 7;
const ME: Node = Node(1);

/// A node with a session, and the table.
fn joined(now: Time) -> (Holder, Table) {
    let config = Config::default();
    let (mut holder, mut table) = (Holder::new(config, ME), Table::new(config.session));
    assert_eq!(holder.drain().collect::<Vec<_>>(), [Action::Connect]);
    holder.handle(now, Event::Connected(Run(1)));
    exchange(&mut holder, &mut table, now);
    table.serve(now, Caller { node: ME, run: Run(1), link: 1 }, &Request::Trust);
    holder.handle(now + config.renew_every, Event::Tick);
    exchange(&mut holder, &mut table, now + config.renew_every);
    (holder, table)
}

/// Answers all requests, and returns the other actions.
fn exchange(holder: &mut Holder, table: &mut Table, now: Time) -> Vec<Action> {
    let mut others = Vec::new();
    while let Some(action) = holder.poll() {
        match action {
            Action::Ask { key, caller, request } => {
                let answer = table.serve(now, caller, &request);
                holder.handle(now, Event::Answered(key, answer));
            }
            Action::Members => holder.handle(now, Event::Members([ME].into())),
            other => others.push(other),
        }
    }
    others
}

fn step(step: Step) -> Vec<Action> {
    vec![Action::Step { key: KEY, step }]
}

#[test]
fn a_claim_ends_if_its_generation_was_published_since_it_was_found() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    holder.handle(now, Event::Want(KEY, Use::Change));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Pointer));
    for (found, next) in [(Some((1, 9)), Step::Look(1)), (Some((1, 9)), Step::Look(2))] {
        holder.handle(now, Event::Found(KEY, found));
        assert_eq!(exchange(&mut holder, &mut table, now), step(next));
    }
    // Two generations are published, and the older records removed. Then the node claims the second.
    holder.handle(now, Event::Found(KEY, None));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Pointer), "found again");
    for (found, next) in [(Some((3, 8)), Step::Look(3)), (Some((3, 8)), Step::Look(4))] {
        holder.handle(now, Event::Found(KEY, found));
        assert_eq!(exchange(&mut holder, &mut table, now), step(next));
    }
    holder.handle(now, Event::Found(KEY, None));
    let Some(Action::Ask { request: Request::Finish { generation, settled, .. }, .. }) = holder.poll() else {
        panic!("it publishes")
    };
    assert_eq!((generation, settled), (3, false));
}

#[test]
fn a_recall_waits_for_the_first_use_and_no_longer_than_a_repetition() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    holder.handle(now, Event::Opened(KEY));
    holder.handle(now, Event::Want(KEY, Use::Write));
    exchange(&mut holder, &mut table, now);
    holder.handle(now, Event::Recalled { key: KEY, number: 1, mode: Mode::Open });
    for found in [Some((1, 9)), Some((1, 9)), None] {
        holder.handle(now, Event::Found(KEY, found));
    }
    let ready = exchange(&mut holder, &mut table, now).pop();
    assert_eq!(ready, Some(Action::Ready { key: KEY, usage: Use::Write }));
    let mut unused = holder.clone();
    assert!(holder.begin(now, KEY, Use::Write).is_some());
    assert_eq!(holder.begin(now, KEY, Use::Write), None, "recalled");
    let later = now + Config::default().retry;
    unused.handle(later, Event::Tick);
    assert_eq!(exchange(&mut unused, &mut table, later), step(Step::Drain), "nothing uses it");
}

#[test]
fn a_claim_that_others_hold_against_recalls_them() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    let other = Caller { node: Node(2), run: Run(1), link: 1 };
    let register = Request::Register { not_after: now + Time::from_secs(1) };
    let admit = Request::Admit { key: KEY, number: 5, writes: false };
    for request in [Request::Begin, register, admit] {
        table.serve(now, other, &request);
    }
    holder.handle(now, Event::Want(KEY, Use::Alone));
    let recall = Action::Recall { node: Node(2), key: KEY, number: 5, mode: Mode::Open };
    assert_eq!(exchange(&mut holder, &mut table, now), [recall]);
    let lower = Request::Lower { key: KEY, number: 5, mode: None, generation: None };
    table.serve(now, other, &lower);
    holder.handle(now + Config::default().retry, Event::Tick);
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Pointer), "it has the file");
}

#[test]
fn an_unused_hold_is_released() {
    let mut now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    holder.handle(now, Event::Opened(KEY));
    holder.handle(now, Event::Want(KEY, Use::Write));
    exchange(&mut holder, &mut table, now);
    for found in [Some((1, 9)), Some((1, 9)), None] {
        holder.handle(now, Event::Found(KEY, found));
    }
    let permit = holder.begin(now, KEY, Use::Write).expect("a hold");
    assert_eq!(holder.finish(now, KEY, &permit, Standing::Held), Written::Acknowledge);
    holder.handle(now, Event::Closed(KEY));
    exchange(&mut holder, &mut table, now);
    let last = now + Config::default().unused;
    let mut steps = Vec::new();
    while now < last {
        assert!(steps.is_empty() && table.len() == 1, "{now}: {steps:?}");
        now = holder.next_deadline().expect("a deadline");
        holder.handle(now, Event::Tick);
        steps = exchange(&mut holder, &mut table, now);
    }
    assert_eq!((now, steps), (last, step(Step::Drain)));
    holder.handle(now, Event::Done(KEY, true));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Settle));
    holder.handle(now, Event::Done(KEY, true));
    exchange(&mut holder, &mut table, now);
    assert!(table.is_empty() && holder.files.is_empty());
    assert_eq!(holder.finish(now, KEY, &permit, Standing::Held), Written::Again);
}

#[test]
fn recalls_in_the_order_of_the_closes_release_more_and_more_files() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    for key in 0..100 {
        let at = now + Time(key);
        holder.handle(at, Event::Opened(key));
        holder.handle(at, Event::Want(key, Use::Write));
        exchange(&mut holder, &mut table, at);
        holder.handle(at, Event::Found(key, None));
        holder.handle(at, Event::Found(key, None));
        assert!(holder.begin(at, key, Use::Write).is_some());
        holder.handle(at, Event::Closed(key));
        exchange(&mut holder, &mut table, at);
    }
    let mut released = Vec::new();
    let mut recall = |holder: &mut Holder, table: &mut Table, key: u64| {
        let number = holder.files[&key].hold.expect("a hold").number;
        let mut now = now + Time(100);
        let before = table.len();
        holder.handle(now, Event::Recalled { key, number, mode: Mode::Write });
        loop {
            let steps = exchange(holder, table, now);
            if steps.is_empty() {
                break released.push(before - table.len());
            }
            for step in steps {
                let Action::Step { key, .. } = step else { panic!("{step:?}") };
                now = now + Time(1);
                holder.handle(now, Event::Done(key, true));
            }
        }
    };
    for key in [90, 10, 0, 1, 4, 9, 19, 50, 95] {
        recall(&mut holder, &mut table, key);
    }
    assert_eq!(released, [1, 1, 1, 3, 5, 9, 17, 1, 1], "one at a time in no order");
}

#[test]
fn an_inode_that_is_gone_ends_its_search_and_leaves_an_open_hold_until_the_close() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    holder.handle(now, Event::Opened(KEY));
    holder.handle(now, Event::Want(KEY, Use::Write));
    exchange(&mut holder, &mut table, now);
    assert!(holder.is_busy(KEY) && !table.is_empty());
    holder.handle(now, Event::Gone(KEY));
    assert_eq!(exchange(&mut holder, &mut table, now), []);
    assert!(!holder.is_busy(KEY));
    assert_eq!(holder.hold(KEY).map(|hold| hold.mode), Some(Mode::Open), "it keeps the objects");
    assert_eq!(table.holders(KEY), 1);
    holder.handle(now, Event::Closed(KEY));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Drain));
    holder.handle(now, Event::Done(KEY, true));
    exchange(&mut holder, &mut table, now);
    assert!(holder.holds_nothing() && table.is_empty());
    // A claim ends, too.
    holder.handle(now, Event::Want(KEY, Use::Change));
    exchange(&mut holder, &mut table, now);
    holder.handle(now, Event::Found(KEY, None));
    holder.handle(now, Event::Found(KEY, None));
    assert_eq!(exchange(&mut holder, &mut table, now).pop(), step(Step::Pointer).pop(), "it has the claim");
    holder.handle(now, Event::Gone(KEY));
    assert_eq!(exchange(&mut holder, &mut table, now), []);
    assert!(table.is_empty());
}

#[test]
fn a_list_that_names_no_newer_record_is_repeated_after_a_while() {
    let now = Time::from_secs(100);
    let (mut holder, mut table) = joined(now);
    holder.handle(now, Event::Opened(KEY));
    holder.handle(now, Event::Want(KEY, Use::Read));
    exchange(&mut holder, &mut table, now);
    holder.handle(now, Event::Found(KEY, Some((3, 9))));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::Look(3)));
    holder.handle(now, Event::Found(KEY, None));
    assert_eq!(exchange(&mut holder, &mut table, now), step(Step::List));
    holder.handle(now, Event::Found(KEY, Some((3, 0))));
    assert_eq!(exchange(&mut holder, &mut table, now), []);
    let later = now + Config::default().retry;
    assert_eq!(holder.next_deadline(), Some(later));
    holder.handle(later, Event::Tick);
    assert_eq!(exchange(&mut holder, &mut table, later), step(Step::List));
}
