//! Each rule of a lease by hand; whole clusters are in `world`.

mod world;

use super::*;

impl Membership {
    /// Panics if an invariant is broken.
    fn check(&self) {
        assert!(!self.others.contains_key(&self.node), "a node does not watch itself");
        assert!(self.others.keys().all(|node| !self.over.contains(node)), "what is over is watched no more");
        let known = |node: &Node| self.others.contains_key(node) || self.over.contains(node);
        assert!(!self.unseen.keys().any(known), "what was seen is not unseen");
        assert!(self.own != OwnLease::Lost || self.held_until() == Time::ZERO, "a number that is over holds nothing");
        assert!(!self.renewing || self.first_asked.is_some(), "a renewal was asked for at some time");
    }
}

fn at(secs: f64) -> Time {
    Time((secs * 1e9).round() as u64)
}

fn after(machine: &mut Membership, now: f64, event: Event) -> Vec<Action> {
    machine.handle(at(now), event);
    machine.check();
    machine.drain().collect()
}

fn seen(files: &[(u32, u64)], over: &[u32]) -> Event {
    let lease = Config::default().lease;
    let leases =
        files.iter().map(|(node, beat)| Seen { node: Node(*node), beat: *beat, lease, drains: false }).collect();
    Event::Seen { leases, over: over.iter().copied().map(Node).collect() }
}

/// Node `number` joins at time zero and gets its first listing.
fn joined(number: u32, first: Event) -> (Membership, Vec<Action>) {
    let mut machine = Membership::new(Config::default(), Time::ZERO, Node(number), Time::ZERO);
    assert_eq!(machine.drain().collect::<Vec<_>>(), [Action::Look]);
    assert_eq!((machine.leader(), machine.holds(Time::ZERO)), (None, true), "it knows nobody yet");
    let actions = after(&mut machine, 0.0, first);
    (machine, actions)
}

fn renewed(machine: &mut Membership, beat: u64, asked: f64, now: f64) -> Vec<Action> {
    after(machine, now, Event::Renewed { beat, asked: at(asked) })
}

#[test]
fn a_lone_node_leads_at_once_and_renews_in_time() {
    let (mut one, actions) = joined(1, seen(&[(1, 0)], &[]));
    assert_eq!(actions, [Action::Lead]);
    assert!(one.leads(Time::ZERO) && one.leader() == Some(Node(1)) && one.members() == [Node(1)].into());
    assert_eq!(one.next_deadline(), Some(at(1.0)), "the next look");
    assert_eq!(after(&mut one, 1.0, Event::Tick), [Action::Look]);
    assert_eq!(one.next_deadline(), Some(at(1.6)));
    assert_eq!(after(&mut one, 1.6, Event::Tick), [Action::Renew { beat: 0 }]);
    assert_eq!(after(&mut one, 3.5, Event::Tick), [], "one look and one renewal are under way");
    assert_eq!(renewed(&mut one, 1, 1.7, 3.6), [Action::Renew { beat: 1 }], "late answers, the next is due");
    assert_eq!(one.held_until(), at(6.7), "from the moment before it was asked for");
    assert_eq!(renewed(&mut one, 1, 3.5, 3.6), [], "an answer that came before");
    assert_eq!(one.held_until(), at(6.7));
}

#[test]
fn a_lease_ends_by_time_and_a_late_renewal_revives_it() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.0, Event::Tick);
    after(&mut one, 1.6, Event::Tick);
    assert!(one.holds(at(4.999)) && !one.holds(at(5.0)));
    assert_eq!(one.next_deadline(), Some(at(5.0)));
    assert_eq!(after(&mut one, 5.0, Event::Tick), [Action::Follow { leader: None }]);
    assert!(!one.leads(at(5.0)));
    after(&mut one, 5.1, seen(&[(1, 0)], &[]));
    assert_eq!(renewed(&mut one, 1, 1.7, 5.2), [Action::Renew { beat: 1 }, Action::Lead]);
    assert!(one.holds(at(5.2)) && one.held_until() == at(6.7), "the file was there all the time");
}

#[test]
fn a_renewal_that_failed_is_tried_again_soon() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.0, Event::Tick);
    after(&mut one, 1.6, Event::Tick);
    assert_eq!(after(&mut one, 1.7, Event::RenewFailed), []);
    assert_eq!(one.next_deadline(), Some(at(1.9)));
    assert_eq!(after(&mut one, 1.9, Event::Tick), [Action::Renew { beat: 0 }]);
}

#[test]
fn an_expelled_node_loses_its_number_once_it_sees_that() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.0, Event::Tick);
    after(&mut one, 1.6, Event::Tick);
    assert_eq!(after(&mut one, 1.7, Event::Gone), [Action::Follow { leader: None }]);
    assert!(!one.holds(at(1.7)), "in doubt it holds nothing");
    let look = after(&mut one, 1.8, seen(&[(2, 0)], &[]));
    assert_eq!(look, [Action::Came { node: Node(2) }, Action::Look], "that listing had begun before");
    let lost = after(&mut one, 1.9, seen(&[(2, 0)], &[1]));
    assert_eq!(lost, [Action::Lost]);
    assert_eq!((one.next_deadline(), one.members()), (None, [Node(2)].into()));
    assert_eq!(renewed(&mut one, 1, 1.7, 2.0), []);
    assert!(!one.holds(at(2.0)), "for ever");
}

#[test]
fn a_renewal_without_an_answer_is_found_by_the_look() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.0, Event::Tick);
    after(&mut one, 1.0, seen(&[(1, 0)], &[]));
    after(&mut one, 1.6, Event::Tick);
    after(&mut one, 1.7, Event::RenewFailed);
    after(&mut one, 1.9, Event::Tick);
    let unsure = after(&mut one, 1.95, Event::Gone);
    assert_eq!(unsure, [Action::Look, Action::Follow { leader: None }]);
    assert_eq!(after(&mut one, 2.0, seen(&[], &[])), [], "neither name says nothing");
    assert_eq!(after(&mut one, 2.95, Event::Tick), [Action::Look]);
    assert_eq!(after(&mut one, 3.0, seen(&[(1, 1)], &[])), [Action::Lead]);
    assert_eq!(one.held_until(), at(6.6), "from the first try, for that may have been the one");
}

#[test]
fn a_file_that_is_nowhere_is_lost_after_a_lease() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.6, Event::Tick);
    after(&mut one, 1.6, seen(&[(1, 0)], &[]));
    let (mut now, mut actions) = (1.7, after(&mut one, 1.7, Event::Gone));
    while !actions.contains(&Action::Lost) {
        assert!(now < 8.0);
        now += 0.1;
        actions = after(&mut one, now, if actions.contains(&Action::Look) { seen(&[], &[]) } else { Event::Tick });
    }
    assert!(now > 6.7);
}

#[test]
fn a_beat_that_stands_still_is_expelled_and_the_next_node_leads() {
    let (mut two, actions) = joined(2, seen(&[(1, 7), (2, 0)], &[]));
    assert_eq!(actions, [Action::Came { node: Node(1) }, Action::Follow { leader: Some(Node(1)) }]);
    let (mut now, mut expelled) = (0.0, None);
    while expelled.is_none() {
        now = two.next_deadline().unwrap().as_secs_f64();
        let actions = after(&mut two, now, Event::Tick);
        for action in actions {
            match action {
                Action::Renew { beat } => assert_eq!(renewed(&mut two, beat + 1, now, now), []),
                Action::Look => expelled = after(&mut two, now, seen(&[(1, 7), (2, 0)], &[])).pop(),
                other => panic!("{other:?}"),
            }
        }
    }
    let silent = at(5.05);
    assert_eq!(expelled, Some(Action::Expel { node: Node(1), beat: Some(7), silent }));
    assert_eq!(at(now), silent, "it looks just when the beat has stood still for a lease and the drift");
    assert!(!two.leads(at(now)) && !two.is_over(Node(1)));
    let over = after(&mut two, now, Event::Expelled { node: Node(1) });
    assert_eq!(over, [Action::Left { node: Node(1) }, Action::Lead]);
    assert!(two.leads(at(now)) && two.is_over(Node(1)));
}

#[test]
fn a_survivor_is_watched_anew() {
    let (mut two, _) = joined(2, seen(&[(1, 7), (2, 0)], &[]));
    after(&mut two, 4.9, Event::Tick);
    let Action::Expel { node, beat: Some(7), .. } = after(&mut two, 5.1, seen(&[(2, 0)], &[]))[0] else { panic!() };
    assert!(after(&mut two, 5.2, Event::Survived { node }).contains(&Action::Look));
    assert!(two.members().contains(&node));
    assert_eq!(after(&mut two, 5.3, seen(&[(1, 7), (2, 0)], &[])), [], "a listing that is old");
    assert_eq!(after(&mut two, 5.4, Event::LookFailed), []);
    after(&mut two, 10.2, Event::Tick);
    let again = after(&mut two, 10.3, seen(&[(1, 9), (2, 0)], &[]));
    assert_eq!(again, [], "it has renewed meanwhile");
}

#[test]
fn an_expulsion_that_failed_is_tried_again_with_the_next_look() {
    let (mut two, _) = joined(2, seen(&[(1, 7), (2, 0)], &[]));
    after(&mut two, 5.05, Event::Tick);
    assert_eq!(after(&mut two, 5.1, seen(&[(1, 7)], &[])).len(), 1);
    assert_eq!(after(&mut two, 5.2, Event::ExpelFailed { node: Node(1) }), []);
    assert_eq!(after(&mut two, 6.05, Event::Tick), [Action::Look], "no sooner");
    assert!(matches!(
        after(&mut two, 6.1, seen(&[(1, 7)], &[]))[0],
        Action::Expel { node: Node(1), beat: Some(7), .. }
    ));
}

#[test]
fn a_listing_that_misses_a_node_does_not_end_it() {
    let (mut two, _) = joined(2, seen(&[(1, 7), (2, 0)], &[]));
    after(&mut two, 1.0, Event::Tick);
    assert_eq!(after(&mut two, 1.0, seen(&[(2, 0)], &[])), []);
    assert_eq!((two.leader(), two.is_over(Node(1))), (Some(Node(1)), false));
    after(&mut two, 2.0, Event::Tick);
    let over = after(&mut two, 2.0, seen(&[(1, 7), (2, 0)], &[1]));
    assert_eq!(over[0], Action::Left { node: Node(1) }, "the name of one that is over is certain");
}

#[test]
fn a_node_leads_only_when_every_lower_number_is_over() {
    let (mut three, actions) = joined(3, seen(&[(3, 0), (4, 9)], &[1]));
    assert_eq!(actions, [Action::Came { node: Node(4) }, Action::Follow { leader: None }]);
    after(&mut three, 1.0, Event::Tick);
    assert_eq!(after(&mut three, 1.1, seen(&[(3, 0), (4, 9)], &[2])), [Action::Lead], "what was over stays over");
    let (mut three, _) = joined(3, seen(&[(3, 0)], &[1]));
    after(&mut three, 1.0, Event::Tick);
    let came = after(&mut three, 1.1, seen(&[(2, 0), (3, 0)], &[]));
    assert_eq!(came, [Action::Came { node: Node(2) }, Action::Follow { leader: Some(Node(2)) }]);
}

#[test]
fn a_number_that_was_never_born_is_ended_like_any_other() {
    let (mut two, _) = joined(2, seen(&[(2, 0)], &[]));
    let unborn = |silent| Action::Expel { node: Node(1), beat: None, silent };
    after(&mut two, 4.0, Event::Tick);
    assert_eq!(after(&mut two, 4.9, seen(&[(2, 0)], &[])), [], "it has the time of a lease");
    after(&mut two, 5.1, Event::Tick);
    assert_eq!(after(&mut two, 5.2, seen(&[(2, 0)], &[])), [unborn(at(5.2))]);
    assert_eq!(
        after(&mut two, 5.3, Event::Survived { node: Node(1) }),
        [],
        "it was born meanwhile, or another ended it"
    );
    after(&mut two, 6.1, Event::Tick);
    assert_eq!(after(&mut two, 6.2, seen(&[(2, 0)], &[])), [unborn(at(6.2))]);
    after(&mut two, 6.3, Event::Renewed { beat: 1, asked: at(6.0) });
    let over = after(&mut two, 6.3, Event::Expelled { node: Node(1) });
    assert_eq!(over, [Action::Lead]);
}

#[test]
fn a_node_that_leaves_holds_nothing_from_then_on_and_takes_its_file_away() {
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    let leave = after(&mut one, 0.5, Event::Leave);
    let expel = Action::Expel { node: Node(1), beat: Some(0), silent: Time::ZERO };
    assert_eq!(leave, [expel, Action::Follow { leader: None }]);
    assert!(!one.holds(at(0.5)));
    assert_eq!(after(&mut one, 0.6, Event::Leave), []);
    assert_eq!(after(&mut one, 0.7, Event::Expelled { node: Node(1) }), [Action::Lost]);
    let (mut one, _) = joined(1, seen(&[(1, 0)], &[]));
    after(&mut one, 1.6, Event::Tick);
    assert_eq!(after(&mut one, 1.7, Event::Leave), [Action::Follow { leader: None }], "after the renewal");
    let expel = Action::Expel { node: Node(1), beat: Some(1), silent: Time::ZERO };
    assert_eq!(renewed(&mut one, 1, 1.6, 1.8), [expel]);
    assert!(!one.holds(at(1.8)));
}

#[test]
fn a_node_that_drains_never_leads_and_keeps_nobody_from_leading() {
    let draining = |seen: Event, node: u32| match seen {
        Event::Seen { mut leases, over } => {
            leases.iter_mut().for_each(|seen| seen.drains = seen.node == Node(node));
            Event::Seen { leases, over }
        }
        other => other,
    };
    // All nodes pass over the lowest, which drains; so does it itself.
    let (two, actions) = joined(2, draining(seen(&[(1, 4), (2, 0)], &[]), 1));
    assert_eq!(actions, [Action::Came { node: Node(1) }, Action::Lead]);
    assert_eq!(two.leader(), Some(Node(2)));
    let mut one = Membership::new(Config::default(), Time::ZERO, Node(1), Time::ZERO).draining();
    one.drain().for_each(drop);
    let alone = after(&mut one, 0.0, draining(seen(&[(1, 0)], &[]), 1));
    assert_eq!(
        (alone, one.leads(Time::ZERO)),
        (vec![Action::Follow { leader: None }], false),
        "also where it is alone"
    );
    let mut three = Membership::new(Config::default(), Time::ZERO, Node(3), Time::ZERO).draining();
    three.drain().for_each(drop);
    let actions = after(&mut three, 0.0, draining(seen(&[(2, 7), (3, 0)], &[1]), 3));
    assert_eq!(actions, [Action::Came { node: Node(2) }, Action::Follow { leader: Some(Node(2)) }]);
    // An unseen node may be one that does not drain.
    let (mut four, actions) = joined(4, draining(seen(&[(3, 1), (4, 0)], &[1]), 3));
    assert_eq!(actions, [Action::Came { node: Node(3) }, Action::Follow { leader: None }]);
    assert_eq!(four.leader(), None);
    after(&mut four, 1.0, Event::Tick);
    assert_eq!(after(&mut four, 1.0, draining(seen(&[(3, 1), (4, 0)], &[1, 2]), 3)), [Action::Lead]);
}

/// Node `number` among lower ones that renew, after its first listing.
fn ranked(number: u32) -> Membership {
    let files: Vec<(u32, u64)> = (1..=number).map(|node| (node, 0)).collect();
    joined(number, seen(&files, &[])).0
}

/// Listings of a node with `lower` lower nodes in a time in which all renew.
fn looks(machine: &mut Membership, until: f64) -> u64 {
    let (mut now, mut looks) = (machine.known_at().unwrap_or_default(), 0);
    loop {
        now = now.max(machine.next_deadline().expect("a lease that holds"));
        if now > at(until) {
            return looks;
        }
        machine.handle(now, Event::Tick);
        let actions: Vec<Action> = machine.drain().collect();
        for action in actions {
            match action {
                Action::Renew { beat } => machine.handle(now, Event::Renewed { beat: beat + 1, asked: now }),
                Action::Look => {
                    let beat = now.0 / 1_600_000_000;
                    let files: Vec<(u32, u64)> = (1..=machine.node().0).map(|node| (node, beat)).collect();
                    machine.handle(now, seen(&files, &[]));
                    looks += 1;
                }
                other => panic!("{other:?}"),
            }
            machine.check();
        }
    }
}

#[test]
fn the_higher_its_rank_the_rarer_a_node_looks_and_all_together_do_not_look_more_often() {
    for (number, most, least) in [(1, 100, 99), (4, 100, 99), (8, 26, 24), (16, 8, 6), (60, 1, 0)] {
        let looks = looks(&mut ranked(number), 100.0);
        assert!((least..=most).contains(&looks), "node {number}: {looks} looks in 100 s");
    }
    let config = Config::default();
    let a_second = |nodes: usize| (0..nodes).map(|lower| 1.0 / config.look_every_at(lower).as_secs_f64()).sum::<f64>();
    assert!(a_second(1000) < 10.0 && a_second(10) > 5.0, "{} {}", a_second(1000), a_second(10));
}

#[test]
fn a_node_that_is_asked_of_others_looks_at_once_and_goes_on_for_the_length_of_a_lease() {
    let mut machine = ranked(100);
    looks(&mut machine, 10.0);
    assert_eq!(after(&mut machine, 10.1, Event::Asked), [Action::Look]);
    let files: Vec<(u32, u64)> = (1..=100).map(|node| (node, 6)).collect();
    assert_eq!(after(&mut machine, 10.2, seen(&files, &[])), []);
    assert_eq!(machine.known_at(), Some(at(10.1)));
    let more = looks(&mut machine, 70.0);
    assert!((5..=8).contains(&more), "{more} looks in a minute");
}

#[test]
fn a_node_whose_lower_ones_are_over_looks_as_the_lowest_do() {
    let mut machine = ranked(20);
    looks(&mut machine, 30.0);
    let lower: Vec<u32> = (1..20).collect();
    // Its lease ends at 33.8; the following steps renew it at 30.4.
    let asked = after(&mut machine, 30.1, Event::Asked);
    assert_eq!(asked, [Action::Look]);
    assert_eq!(after(&mut machine, 30.2, seen(&[(20, 9)], &lower)).last(), Some(&Action::Lead));
    assert!(machine.leads(at(30.2)) && machine.members() == [Node(20)].into());
    let looks = looks(&mut machine, 60.2);
    assert!((29..=31).contains(&looks), "{looks} looks");
}

#[test]
fn of_many_each_renews_more_rarely_and_no_lease_is_longer_than_others_wait() {
    let of = |others| Config::default().beside(others);
    assert_eq!((of(0), of(199)), (Config::default(), Config::default()));
    assert_eq!((of(399).lease, of(399).renew_every), (at(10.0), at(3.2)));
    assert_eq!(of(599), of(100_000));
    assert_eq!((of(599).lease, of(599).look_every), (at(15.0), at(1.0)));
}

#[test]
fn a_watcher_waits_as_long_as_the_lease_of_the_other_lasts() {
    let (mut two, _) = joined(2, seen(&[(2, 0)], &[]));
    let other = |beat| Seen { node: Node(1), beat, lease: at(15.0), drains: false };
    let listing = |beat| Event::Seen { leases: vec![other(beat)], over: Vec::new() };
    let mut expelled = Vec::new();
    for tenths in 1..=200 {
        let now = f64::from(tenths) / 10.0;
        let mut actions = after(&mut two, now, Event::Tick);
        if actions.contains(&Action::Look) {
            actions = after(&mut two, now, listing(7));
        }
        if actions.iter().any(|action| matches!(action, Action::Expel { node: Node(1), .. })) {
            expelled.push(now);
        }
    }
    assert_eq!(expelled.len(), 1, "{expelled:?}");
    assert!(expelled[0] >= 1.0 + 15.15 && expelled[0] < 18.5, "{expelled:?}");
}
