//! Versions as files, with single events: operations, their order, and retries.

use super::*;

const DATA: (Purpose, bool) = (Purpose::Data, true);
const DEMOTED: (Purpose, bool) = (Purpose::Demoted, true);
const GROUP: (Purpose, bool) = (Purpose::Group, true);
const FAST: Version = Version { app: 1, number: 1 };

use crate::burst::tables::Version;

fn tell(volume: &mut Volume, now: Time, event: buffer::Event) {
    volume.handle(now, Event::Checkpoint(admission::Event::Buffer(event)));
}

/// Writes a checkpoint of these files for an application.
fn write(volume: &mut Volume, now: Time, app: u64, request: u64, files: &[u64]) {
    tell(volume, now, buffer::Event::Arrive { app, request, bytes: 100.0 });
    for file in files {
        volume.handle(now, Event::File(FileId(*file), FileEvent::Joins(request)));
        volume.handle(now, Event::File(FileId(*file), lies(&[DATA])));
    }
    assert_eq!(changes(volume, now), []);
    tell(volume, now, buffer::Event::Committed { request, bytes: 100.0 });
}

fn end(volume: &mut Volume, now: Time, change: &Change, result: Outcome) {
    volume.handle(now, Event::Done { ticket: change.ticket, result });
}

fn with_group() -> Config {
    let mut config = config();
    if let Some(burst) = &mut config.burst {
        burst.admission.buffer.replicas = true;
    }
    config
}

#[test]
fn a_version_is_demoted_file_by_file_and_again_after_a_while_if_one_fails() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1, 2, 3]);
    let first = only(changes(&mut volume, t(1)));
    made(&mut volume, t(2), &first, lies(&[DATA, DEMOTED]));
    let second = only(changes(&mut volume, t(2)));
    assert_eq!((first.file, second.file), (FileId(1), FileId(2)));
    end(&mut volume, t(3), &second, Outcome::Failed);
    assert_eq!(changes(&mut volume, t(3)), [], "not the third, and not at once");
    let again = volume.next_deadline().expect("it is tried again");
    assert_eq!(again, t(3) + Time::from_millis(500));
    volume.handle(again, Event::Tick);
    let second = only(changes(&mut volume, again));
    assert_eq!(second.file, FileId(2), "the first has its copy");
    made(&mut volume, t(4), &second, lies(&[DATA, DEMOTED]));
    let third = only(changes(&mut volume, t(4)));
    made(&mut volume, t(5), &third, lies(&[DATA, DEMOTED]));
    let stats = volume.burst_stats().expect("there is a buffer");
    assert_eq!((stats.demoted, stats.demoted_bytes, stats.failed), (1, 100, 1));
}

#[test]
fn a_superseded_version_leaves_all_its_mirrors_in_the_buffer() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1]);
    let demote = only(changes(&mut volume, t(1)));
    end(&mut volume, t(1), &demote, Outcome::Failed);
    write(&mut volume, t(1), 1, 2, &[2]);
    volume.handle(t(3), Event::Tick);
    let demote = only(changes(&mut volume, t(3)));
    assert_eq!((demote.file, demote.reason), (FileId(1), Reason::Demote(crate::burst::tables::Reason::Superseded)));
    made(&mut volume, t(4), &demote, lies(&[DATA, DATA, DEMOTED]));
    let drop = only(changes(&mut volume, t(4)));
    assert_eq!((drop.verb, drop.reason), (Verb::DropMirror(0), Reason::BufferRoom));
    made(&mut volume, t(5), &drop, lies(&[DATA, DEMOTED]));
    let drop = only(changes(&mut volume, t(5)));
    made(&mut volume, t(6), &drop, lies(&[DEMOTED]));
    let places = |version| volume.admission().expect("there is one").buffer().tables().places(version);
    assert_eq!(places(FAST), (false, true));
}

/// A version in both places, and another that needs its room.
fn one_that_needs_room() -> Volume {
    let mut volume = Volume::new(config(), Time::ZERO);
    let files = vec![FileId(1)];
    volume.handle(Time::ZERO, Event::File(FileId(1), lies(&[DATA, DEMOTED])));
    volume.handle(Time::ZERO, Event::Found { version: FAST, bytes: 200, files });
    tell(&mut volume, Time::ZERO, buffer::Event::Arrive { app: 2, request: 9, bytes: 100.0 });
    volume
}

#[test]
fn a_copy_in_use_is_tried_again_and_given_up_in_the_end() {
    let mut volume = one_that_needs_room();
    let mut now = Time::ZERO;
    let mut drop = only(changes(&mut volume, now));
    for _ in 0..20 {
        end(&mut volume, now, &drop, Outcome::Busy);
        assert_eq!(changes(&mut volume, now), []);
        let again = volume.next_deadline().expect("it is tried again");
        assert_eq!(again, now + Time::from_millis(50));
        now = again;
        volume.handle(now, Event::Tick);
        drop = only(changes(&mut volume, now));
    }
    assert_eq!(volume.admission().expect("there is one").buffer().used(), 100.0);
    end(&mut volume, now, &drop, Outcome::Busy);
    assert_eq!(changes(&mut volume, now), []);
    let buffer = volume.admission().expect("there is one").buffer();
    assert!(buffer.used() == 200.0 && buffer.is_short(9), "it takes room, and what needs that waits again");
    tell(&mut volume, now, buffer::Event::Capacity { usable: true, whole: true });
    assert_eq!(only(changes(&mut volume, now)).verb, Verb::DropMirror(0), "all can be read again");
}

#[test]
fn room_that_could_not_be_made_is_given_back_before_anybody_sees_it() {
    let mut volume = Volume::new(config(), Time::ZERO);
    volume.handle(Time::ZERO, Event::File(FileId(1), lies(&[DATA, DEMOTED])));
    volume.handle(Time::ZERO, Event::Found { version: FAST, bytes: 200, files: vec![FileId(1)] });
    tell(&mut volume, Time::ZERO, buffer::Event::Arrive { app: 2, request: 9, bytes: 0.0 });
    assert_eq!(changes(&mut volume, Time::ZERO), []);
    volume.handle(Time::ZERO, Event::Checkpoint(admission::Event::Hold { request: 9, write: 1, len: 100 }));
    let drop = only(changes(&mut volume, Time::ZERO));
    end(&mut volume, Time::ZERO, &drop, Outcome::Failed);
    let says: Vec<_> = std::iter::from_fn(|| volume.poll()).collect();
    assert!(says.iter().all(|action| matches!(action, Action::SetRates(_))), "nothing is made ready for it: {says:?}");
    let buffer = volume.admission().expect("there is one").buffer();
    assert!(buffer.used() == 200.0 && buffer.is_short(9) && !buffer.is_over(), "{}", buffer.used());
}

#[test]
fn room_is_not_waited_for_while_a_copy_to_the_replica_group_goes_on() {
    let mut volume = Volume::new(with_group(), Time::ZERO);
    volume.handle(Time::ZERO, Event::File(FileId(1), lies(&[DATA, DEMOTED])));
    volume.handle(Time::ZERO, Event::Found { version: FAST, bytes: 200, files: vec![FileId(1)] });
    tell(&mut volume, Time::ZERO, buffer::Event::Capacity { usable: true, whole: true });
    let copy = only(changes(&mut volume, Time::ZERO));
    assert_eq!(copy.reason, Reason::LacksReplica);
    tell(&mut volume, Time::ZERO, buffer::Event::Arrive { app: 2, request: 9, bytes: 100.0 });
    for n in 0..=20 {
        volume.handle(Time::from_millis(50 * n), Event::Tick);
        assert_eq!(changes(&mut volume, Time::from_millis(50 * n)), []);
    }
    assert!(volume.admission().expect("there is one").buffer().is_short(9), "it waits for another version");
}

#[test]
fn free_space_does_not_count_while_something_is_dropped() {
    let mut volume = one_that_needs_room();
    let drop = only(changes(&mut volume, Time::ZERO));
    let room = |volume: &Volume| volume.admission().expect("there is one").buffer().room();
    tell(&mut volume, Time(1), buffer::Event::Free { bytes: 0.0 });
    assert_eq!(room(&volume), 250.0);
    made(&mut volume, Time(2), &drop, lies(&[DEMOTED]));
    changes(&mut volume, Time(2));
    tell(&mut volume, Time(3), buffer::Event::Free { bytes: 100.0 });
    assert_eq!(room(&volume), 95.0, "a twentieth is not counted on");
}

#[test]
fn what_is_demoted_is_copied_to_the_replica_group_and_a_failure_pauses() {
    let (mut volume, t) = (Volume::new(with_group(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1]);
    let demote = only(changes(&mut volume, t(1)));
    made(&mut volume, t(2), &demote, lies(&[DATA, DEMOTED]));
    let copy = only(changes(&mut volume, t(2)));
    let to_group = Verb::AddMirror { purpose: Purpose::Group, shape: None };
    assert_eq!((copy.verb, copy.reason), (to_group, Reason::LacksReplica));
    end(&mut volume, t(3), &copy, Outcome::Failed);
    assert_eq!((changes(&mut volume, t(3)), volume.next_deadline()), (vec![], Some(t(4))));
    volume.handle(t(4), Event::Tick);
    let copy = only(changes(&mut volume, t(4)));
    made(&mut volume, t(5), &copy, lies(&[DATA, DEMOTED, GROUP]));
    assert_eq!(changes(&mut volume, t(5)), []);
    assert_eq!(volume.burst_stats().expect("there is a buffer").replicated, 1);
    assert_eq!(volume.admission().expect("there is one").buffer().lacking_replicas(), 0);
}

#[test]
fn a_version_that_is_written_over_is_no_longer_demoted_and_its_files_are_carried_on() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1, 2, 3]);
    let owner = |volume: &Volume, file| volume.owner(FileId(file), Aspect::Shape);
    tell(&mut volume, t(1), buffer::Event::Arrive { app: 1, request: 2, bytes: 0.0 });
    tell(&mut volume, t(1), buffer::Event::Removed { version: FAST });
    assert_eq!(owner(&volume, 2), Some(Mechanism::Stripes));
    for file in [1, 2] {
        volume.handle(t(1), Event::File(FileId(file), FileEvent::Joins(2)));
    }
    assert_eq!(changes(&mut volume, t(1)), []);
    assert_eq!([1, 2, 3].map(|file| owner(&volume, file) == Some(Mechanism::Burst)), [true, true, false]);
    tell(&mut volume, t(2), buffer::Event::Abandoned { request: 2 });
    assert_eq!(owner(&volume, 1), Some(Mechanism::Stripes));
    assert_eq!(changes(&mut volume, t(2)), []);
}

#[test]
fn a_version_goes_with_its_last_file_also_while_it_is_demoted() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1, 2]);
    let first = only(changes(&mut volume, t(1)));
    volume.handle(t(2), Event::File(FileId(1), FileEvent::Removed));
    let second = only(changes(&mut volume, t(2)));
    assert_eq!(second.file, FileId(2));
    end(&mut volume, t(2), &first, Outcome::Failed);
    volume.handle(t(3), Event::File(FileId(2), FileEvent::Removed));
    end(&mut volume, t(3), &second, Outcome::Failed);
    assert_eq!(changes(&mut volume, t(3)), []);
    assert_eq!(volume.admission().expect("there is one").buffer().used(), 0.0);
    assert_eq!(volume.pending(), (0, 0));
}

#[test]
fn versions_of_an_earlier_life_are_where_their_files_lie() {
    let mut volume = Volume::new(Config { repairs: false, ..with_group() }, Time::ZERO);
    let all = [&[DATA][..], &[DATA, DEMOTED], &[DEMOTED], &[DEMOTED, GROUP], &[(Purpose::Demoted, false)]];
    for (n, mirrors) in (1..).zip(all) {
        volume.handle(Time::ZERO, Event::File(FileId(n), lies(mirrors)));
        let (version, files) = (Version { app: n, number: 1 }, vec![FileId(n)]);
        volume.handle(Time::ZERO, Event::Found { version, bytes: 10, files });
        assert_eq!(volume.poll().filter(|action| matches!(action, Action::Change(_))), None, "all are told first");
    }
    let buffer = volume.admission().expect("there is one").buffer();
    let places: Vec<_> = (1..=5).map(|app| buffer.tables().places(Version { app, number: 1 })).collect();
    assert_eq!(places, [(true, false), (true, true), (false, true), (false, true), (true, false)]);
    assert_eq!((buffer.used(), buffer.lacking_replicas()), (30.0, 2));
    assert_eq!(volume.owner(FileId(3), Aspect::Shape), Some(Mechanism::Burst));
}

#[test]
fn space_is_looked_at_more_often_while_something_is_on_its_way() {
    let mut config = config();
    if let Some(burst) = &mut config.burst {
        burst.look_every = Time::from_secs(1);
    }
    let (mut volume, t) = (Volume::new(config, Time::ZERO), Time::from_secs);
    let looks = |volume: &mut Volume, now| {
        volume.handle(now, Event::Tick);
        let looks = volume.drain().filter(|action| *action == Action::LookAtSpace).count();
        (looks, volume.next_deadline().expect("there is a next one"))
    };
    assert_eq!(looks(&mut volume, t(0)), (1, t(40)));
    assert_eq!(looks(&mut volume, t(2)), (0, t(40)));
    tell(&mut volume, t(3), buffer::Event::Arrive { app: 1, request: 1, bytes: 10.0 });
    assert_eq!(looks(&mut volume, t(3)), (0, t(4)), "the first one does not wait for the end of the rest");
    assert_eq!(looks(&mut volume, t(4)), (1, t(5)));
}

#[test]
fn when_another_node_decides_nothing_is_demoted_any_more() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    write(&mut volume, t(1), 1, 1, &[1, 2, 3]);
    let first = only(changes(&mut volume, t(1)));
    volume.handle(t(2), Event::Checkpoint(admission::Event::HandOver));
    assert!(volume.owner(FileId(2), Aspect::Tier) != Some(Mechanism::Burst));
    made(&mut volume, t(3), &first, lies(&[DATA, DEMOTED]));
    volume.handle(t(60), Event::Tick);
    assert_eq!(changes(&mut volume, t(60)), []);
    // Its reports after the next decision count.
    let found = Event::Found { version: FAST, bytes: 100, files: vec![FileId(2), FileId(3)] };
    [2, 3].into_iter().for_each(|file| volume.handle(t(61), Event::File(FileId(file), lies(&[DATA]))));
    volume.handle(t(61), found);
    tell(&mut volume, t(62), buffer::Event::Free { bytes: 1e12 });
    assert_eq!(only(changes(&mut volume, t(62))).file, FileId(2));
}
