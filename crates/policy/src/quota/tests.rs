//! Published behaviour of soft and hard limits, and random samples against a backward scan.

use super::*;
use proptest::prelude::*;

impl Quota {
    /// Checks the invariants of all accounts.
    fn check(&self) {
        for account in self.accounts.values() {
            let Some(used) = account.used else { continue };
            for resource in Resource::ALL {
                let (limit, standing) = (account.limits.of.of(resource), account.standing.of(resource));
                let is_over = limit.soft.is_some_and(|soft| *used.of(resource) > soft);
                assert_eq!(is_over, standing.since().is_some(), "{resource}: {account:?}");
                let hard = limit.hard.unwrap_or(u64::MAX);
                assert!(*account.ceiling().of(resource) <= hard, "{resource}: {account:?}");
            }
        }
    }
}

const ALICE: Subject = Subject::User(1001);
const BOB: Subject = Subject::User(1002);

fn bytes(soft: Option<u64>, hard: Option<u64>, grace_s: u64) -> Limits {
    Limits { of: Both { bytes: Limit { soft, hard }, files: Limit::default() }, grace: Time::from_secs(grace_s) }
}

fn limited(subject: Subject, limits: Limits) -> Event {
    Event::Limited { subject, limits, since: Both::default() }
}

fn used(subject: Subject, bytes: u64) -> Event {
    Event::Used { subject, used: Both { bytes, files: 1 } }
}

fn does(machine: &mut Quota, at_s: u64, event: Event) -> Vec<Action> {
    machine.handle(Time::from_secs(at_s), event);
    let actions = machine.drain().collect();
    machine.check();
    actions
}

fn ceiling(subject: Subject, most: u64) -> Action {
    Action::Ceiling { subject, most: Both { bytes: most, files: u64::MAX } }
}

fn stands(standing: Standing, used: u64) -> Action {
    Action::Stands { subject: ALICE, resource: Resource::Bytes, standing, soft: 80, used }
}

#[test]
fn over_the_soft_limit_one_may_grow_for_the_grace_and_up_to_the_hard_one() {
    let mut machine = Quota::default();
    assert_eq!(does(&mut machine, 10, limited(ALICE, bytes(Some(80), Some(100), 60))), [], "nobody knows what is used");
    assert_eq!(does(&mut machine, 11, used(ALICE, 80)), [ceiling(ALICE, 100)], "at the limit is not over it");
    let (since, until) = (Time::from_secs(20), Time::from_secs(80));
    assert_eq!(does(&mut machine, 20, used(ALICE, 81)), [stands(Standing::Over { since, until }, 81)]);
    assert_eq!(does(&mut machine, 79, used(ALICE, 99)), []);
    let expired = [stands(Standing::Expired { since }, 99), ceiling(ALICE, 80)];
    assert_eq!(does(&mut machine, 80, used(ALICE, 99)), expired, "as if the soft limit were hard");
    assert_eq!(machine.over(), (1, 1));
    assert_eq!(does(&mut machine, 90, used(ALICE, 81)), [], "a little less is not enough");
    let within = [stands(Standing::Within, 80), ceiling(ALICE, 100)];
    assert_eq!(does(&mut machine, 91, used(ALICE, 80)), within, "back at the limit all is forgiven");
    let again = Standing::Over { since: Time::from_secs(95), until: Time::from_secs(155) };
    assert_eq!(does(&mut machine, 95, used(ALICE, 90)), [stands(again, 90)], "and the grace begins anew");
}

#[test]
fn what_was_remembered_goes_on_after_a_restart() {
    let since = Both { bytes: Some(Time::from_secs(20)), files: None };
    let mut machine = Quota::default();
    let event = Event::Limited { subject: ALICE, limits: bytes(Some(80), None, 60), since };
    assert_eq!(does(&mut machine, 100, event.clone()), [], "what is used is not known yet");
    let told = does(&mut machine, 101, used(ALICE, 90));
    assert_eq!(told, [stands(Standing::Expired { since: Time::from_secs(20) }, 90), ceiling(ALICE, 80)]);
    // A clock that was ahead saved this time.
    let mut machine = Quota::default();
    does(&mut machine, 5, event);
    let over = Standing::Over { since: Time::from_secs(5), until: Time::from_secs(65) };
    assert_eq!(does(&mut machine, 6, used(ALICE, 90)), [ceiling(ALICE, u64::MAX)], "there is no hard limit");
    assert_eq!(machine.standing(ALICE).bytes, over);
}

#[test]
fn limits_that_change_count_at_once_and_concern_nobody_else() {
    let mut machine = Quota::default();
    does(&mut machine, 1, limited(ALICE, bytes(Some(80), Some(100), 60)));
    does(&mut machine, 1, limited(BOB, bytes(None, Some(10), 60)));
    does(&mut machine, 2, used(ALICE, 90));
    assert_eq!(does(&mut machine, 3, used(BOB, 50)), [ceiling(BOB, 10)]);
    let over = Standing::Over { since: Time::from_secs(2), until: Time::from_secs(12) };
    let told = does(&mut machine, 4, limited(ALICE, bytes(Some(80), Some(95), 10)));
    assert_eq!((told, machine.standing(ALICE).bytes), (vec![ceiling(ALICE, 95)], over), "since when it is over stays");
    let told = does(&mut machine, 5, limited(ALICE, bytes(None, None, 10)));
    let within =
        Action::Stands { subject: ALICE, resource: Resource::Bytes, standing: Standing::Within, soft: 0, used: 90 };
    assert_eq!(told, [within, ceiling(ALICE, u64::MAX)]);
    assert_eq!(does(&mut machine, 6, Event::Unlimited(BOB)), []);
    assert_eq!(machine.accounts.keys().copied().collect::<Vec<_>>(), [ALICE]);
}

#[test]
fn a_soft_limit_above_the_hard_one_makes_no_sense() {
    assert_eq!(bytes(Some(2), Some(1), 1).check(), Err(Resource::Bytes));
    assert_eq!(bytes(Some(2), Some(2), 1).check(), Ok(()));
    assert!(!Limits::default().is_any() && bytes(None, Some(0), 1).is_any(), "nothing at all is a limit, too");
}

/// Finds the time since which a usage series is above a limit without a break, by a backward scan.
fn over_since(samples: &[(u64, u64)], soft: u64) -> Option<u64> {
    let last_within = samples.iter().rposition(|(_, used)| *used <= soft);
    samples.get(last_within.map_or(0, |at| at + 1)).map(|(at, _)| *at)
}

proptest! {
    /// Compares all samples with a backward scan.
    #[test]
    fn it_refuses_what_a_look_from_behind_says(
        soft in 0u64..100, more in 0u64..50, grace in 0u64..40,
        steps in prop::collection::vec((0u64..20, 0u64..160), 1..60),
    ) {
        let mut machine = Quota::default();
        let (mut at, mut samples, mut most) = (0, Vec::new(), u64::MAX);
        does(&mut machine, 0, limited(ALICE, bytes(Some(soft), Some(soft + more), grace)));
        for (later, bytes) in steps {
            at += later;
            samples.push((at, bytes));
            for action in does(&mut machine, at, used(ALICE, bytes)) {
                if let Action::Ceiling { most: now, .. } = action {
                    most = now.bytes;
                }
            }
            let expired = over_since(&samples, soft).is_some_and(|since| since + grace <= at);
            prop_assert_eq!(most, if expired { soft } else { soft + more });
        }
    }
}
