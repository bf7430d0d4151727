//! Replicas and failover with single events: immediate swaps, delayed rebuilds, and retries.

use super::*;
use crate::ids::TargetId;

const DATA: (Purpose, bool) = (Purpose::Data, true);
const REPLICA: (Purpose, bool) = (Purpose::Replica, true);
const LACKS: (Purpose, bool) = (Purpose::Replica, false);
const FILE: FileId = FileId(1);
const LOST: TargetId = TargetId(7);

fn submitted(job: u64) -> Event {
    Event::Job(replica::Event::Submitted { job: JobId(job), rank: Rank(job), nodes: 1, files: vec![FILE] })
}

fn ended(job: u64) -> Event {
    Event::Job(replica::Event::Ended(JobId(job)))
}

fn end(volume: &mut Volume, now: Time, change: &Change, result: Outcome) {
    volume.handle(now, Event::Done { ticket: change.ticket, result });
}

/// A volume at second 1, whose file has the replica that its job needs.
fn with_replica() -> Volume {
    let mut volume = Volume::new(config(), Time::ZERO);
    let now = Time::from_secs(1);
    volume.handle(now, Event::File(FILE, lies(&[DATA])));
    volume.handle(now, submitted(1));
    let copy = only(changes(&mut volume, now));
    made(&mut volume, now, &copy, lies(&[DATA, REPLICA]));
    assert_eq!(changes(&mut volume, now), []);
    volume
}

/// A target fails under the file: the expected actions, in this order and before any is carried out.
fn fails(volume: &mut Volume, now: Time, mirrors: &[(Purpose, bool)]) -> Vec<Change> {
    volume.handle(now, Event::File(FILE, FileEvent::Complained(LOST)));
    let said = changes(volume, now);
    volume.handle(now, Event::File(FILE, lies(mirrors)));
    said.into_iter().chain(changes(volume, now)).collect()
}

#[test]
fn the_replica_takes_over_at_once_and_is_made_whole_after_the_delay() {
    let (mut volume, t) = (with_replica(), Time::from_secs);
    let swap = only(fails(&mut volume, t(2), &[(Purpose::Data, false), REPLICA]));
    assert_eq!(swap.verb, Verb::Swap { replica: 1, target: LOST });
    assert_eq!(fails(&mut volume, t(2), &[(Purpose::Data, false), REPLICA]), [], "one swap, whoever complains");
    made(&mut volume, t(3), &swap, lies(&[DATA, LACKS]));
    assert_eq!(changes(&mut volume, t(3)), [], "the devices are left to readers, also by repair");
    volume.handle(t(8), Event::Tick);
    let rebuild = only(changes(&mut volume, t(8)));
    assert_eq!((rebuild.verb, rebuild.by), (Verb::ReplaceTarget(LOST), Mechanism::Repair));
    made(&mut volume, t(9), &rebuild, lies(&[DATA, REPLICA]));
    volume.handle(t(100), Event::Tick);
    assert_eq!((changes(&mut volume, t(100)), volume.pending()), (vec![], (0, 0)));
}

#[test]
fn a_swap_waits_for_no_other_change_of_its_file_and_none_for_it() {
    let (mut volume, t) = (with_replica(), Time::from_secs);
    let other = TargetId(8);
    let first = only(fails(&mut volume, t(2), &[(Purpose::Data, false), REPLICA]));
    made(&mut volume, t(2), &first, lies(&[DATA, LACKS]));
    volume.handle(t(7), Event::Tick);
    let rebuild = only(changes(&mut volume, t(7)));
    volume.handle(t(8), Event::File(FILE, FileEvent::Complained(other)));
    let swap = only(changes(&mut volume, t(8)));
    assert_eq!(swap.verb, Verb::Swap { replica: 1, target: other });
    made(&mut volume, t(8), &swap, lies(&[DATA, LACKS]));
    // The other rebuild is due, and waits for the first.
    volume.handle(t(13), Event::Tick);
    assert_eq!(changes(&mut volume, t(13)), []);
    made(&mut volume, t(14), &rebuild, lies(&[DATA, LACKS]));
    assert_eq!(only(changes(&mut volume, t(14))).verb, Verb::ReplaceTarget(other));
}

#[test]
fn what_no_replica_takes_over_for_is_repaired_and_so_is_what_a_rebuild_left() {
    let (mut volume, t) = (with_replica(), Time::from_secs);
    let swap = only(fails(&mut volume, t(2), &[(Purpose::Data, false), LACKS]));
    end(&mut volume, t(2), &swap, Outcome::Failed);
    assert_eq!(only(changes(&mut volume, t(2))).verb, Verb::ReplaceTargets(0));

    let mut volume = with_replica();
    let swap = only(fails(&mut volume, t(2), &[(Purpose::Data, false), REPLICA]));
    made(&mut volume, t(2), &swap, lies(&[DATA, LACKS]));
    for at in [7, 17, 37, 77] {
        volume.handle(t(at), Event::Tick);
        let rebuild = only(changes(&mut volume, t(at)));
        assert_eq!(rebuild.verb, Verb::ReplaceTarget(LOST));
        end(&mut volume, t(at), &rebuild, Outcome::Failed);
    }
    assert_eq!(only(changes(&mut volume, t(77))).verb, Verb::ReplaceTargets(1));
}

#[test]
fn input_of_jobs_that_start_soon_is_repaired_before_what_has_fewer_mirrors_and_all_goes_by_size_then() {
    let (mut volume, t) = (Volume::new(Config { changes_max: 1, ..config() }, Time::ZERO), Time::from_secs);
    volume.handle(t(1), submitted(5));
    let broken = (Purpose::Data, false);
    let sized =
        |bytes| FileEvent::LaidOut(Lies { bytes, mirrors: vec![mirror(broken.0, broken.1)], ..Lies::default() });
    for (file, lies) in [(9, sized(1)), (2, sized(100)), (3, sized(50)), (1, lies(&[DATA, (Purpose::Fork, false)]))] {
        volume.handle(t(1), Event::File(FileId(file), lies));
    }
    let mut order = Vec::new();
    while let [change] = changes(&mut volume, t(1))[..] {
        order.push(change.file.0);
        end(&mut volume, t(1), &change, Outcome::Failed);
    }
    assert_eq!(order, [1, 9, 3, 2]);
}

#[test]
fn a_replica_that_is_in_use_is_dropped_later_and_not_rebuilt() {
    let (mut volume, t) = (with_replica(), Time::from_secs);
    let swap = only(fails(&mut volume, t(2), &[(Purpose::Data, true), REPLICA]));
    end(&mut volume, t(2), &swap, Outcome::Made { bytes: 0, took: Time::ZERO });
    volume.handle(t(3), ended(1));
    let drop = only(changes(&mut volume, t(3)));
    assert_eq!(drop.verb, Verb::DropMirror(1));
    end(&mut volume, t(3), &drop, Outcome::Failed);
    assert_eq!((changes(&mut volume, t(3)), volume.next_deadline()), (vec![], Some(t(5))));
    assert_eq!(volume.owner(FILE, Aspect::Shape), Some(Mechanism::Replicas), "until it is gone");
    volume.handle(t(5), Event::Tick);
    let drop = only(changes(&mut volume, t(5)));
    made(&mut volume, t(5), &drop, lies(&[DATA]));
    volume.handle(t(20), Event::Tick);
    assert_eq!((changes(&mut volume, t(20)), volume.owner(FILE, Aspect::Shape)), (vec![], Some(Mechanism::Stripes)));
}

#[test]
fn what_an_earlier_driver_left_is_adopted_if_it_is_complete_and_goes_once_the_queue_is_known() {
    let mut config = Config { repairs: false, ..config() };
    config.replicas.as_mut().expect("on").replication.system_nodes = 0;
    let (mut volume, t) = (Volume::new(config, Time::ZERO), Time::from_secs);
    let (half, unwanted) = (FileId(2), FileId(3));
    for (file, replica) in [(FILE, REPLICA), (half, LACKS), (unwanted, REPLICA)] {
        volume.handle(t(1), Event::File(file, lies(&[DATA, replica])));
        volume.handle(t(1), Event::Job(replica::Event::Adopted(file)));
    }
    let all = |changes: Vec<Change>| changes.into_iter().map(|change| (change.file, change.verb)).collect::<Vec<_>>();
    assert_eq!(all(changes(&mut volume, t(1))), [(half, Verb::DropMirror(1))]);
    volume.handle(t(61), Event::Tick);
    assert_eq!(all(changes(&mut volume, t(61))), [], "the queue does not answer");
    for event in [Event::Job(replica::Event::System(8)), submitted(1), Event::Job(replica::Event::Tick)] {
        volume.handle(t(62), event);
    }
    assert_eq!(all(changes(&mut volume, t(62))), [(unwanted, Verb::DropMirror(1))]);
}

#[test]
fn a_file_with_several_mirrors_is_protected_as_it_is() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    volume.handle(t(1), Event::File(FILE, lies(&[DATA, DATA])));
    volume.handle(t(1), submitted(1));
    assert_eq!(changes(&mut volume, t(1)), []);
    assert_eq!(volume.replication().and_then(|all| all.life(FILE)), Some(replica::Life::Complete));
    volume.handle(t(2), Event::File(FILE, FileEvent::Complained(LOST)));
    volume.handle(t(2), ended(1));
    assert_eq!(changes(&mut volume, t(2)), [], "it has none that takes over, or that goes");
}
