//! The composed machine with single events: permitted changes, their order, and their reports.

mod burst;
mod replicas;

use super::*;
use crate::burst::buffer::{self, Scheme};
use crate::burst::control::Device;
use crate::protect::replica::{self, JobId, Rank};
use crate::stripe::forks::Shape;

fn mirror(purpose: Purpose, intact: bool) -> Mirror {
    Mirror { purpose, shape: Shape { devices: 1, unit_bytes: 4096 }, intact }
}

fn lies(mirrors: &[(Purpose, bool)]) -> FileEvent {
    let mirrors = mirrors.iter().map(|(purpose, intact)| mirror(*purpose, *intact)).collect();
    FileEvent::LaidOut(Lies { bytes: 100, mirrors, ..Lies::default() })
}

fn config() -> Config {
    let device = Device {
        write_max: 1e15,
        write_min: 9e14,
        demote_max: 5e14,
        demote_min: 1.0,
        demote_idle: 1e15,
        capacity: 250.0,
    };
    let buffer = buffer::Config::new(device, Scheme::MaxEff);
    let admission = admission::Config { buffer, full_waits: true, full_wait: Time::from_secs(60) };
    let burst = BurstConfig { admission, look_every: Time::from_secs(3600) };
    let mut replicas = ReplicasConfig::new(8);
    replicas.replication.strategy = replica::Strategy::All;
    Config { burst: Some(burst), tiers: None, stripes: None, replicas: Some(replicas), changes_max: 2, repairs: true }
}

/// Returns the changes to make now; other actions are done at once.
fn changes(volume: &mut Volume, now: Time) -> Vec<Change> {
    let mut changes = Vec::new();
    while let Some(action) = volume.poll() {
        match action {
            Action::Change(change) => changes.push(change),
            Action::Prepare { request, .. } => {
                volume.handle(now, Event::Checkpoint(admission::Event::Prepared { request }));
            }
            _ => {}
        }
    }
    changes
}

fn only(changes: Vec<Change>) -> Change {
    let [change] = changes[..] else { panic!("one change: {changes:?}") };
    change
}

fn made(volume: &mut Volume, now: Time, change: &Change, lies: FileEvent) {
    volume.handle(now, Event::File(change.file, lies));
    let result = Outcome::Made { bytes: 100, took: Time::from_secs(1) };
    volume.handle(now, Event::Done { ticket: change.ticket, result });
}

/// Writes a checkpoint of one file.
fn checkpoint(volume: &mut Volume, now: Time, request: u64, file: FileId) {
    let tell = |volume: &mut Volume, event| volume.handle(now, Event::Checkpoint(admission::Event::Buffer(event)));
    volume.handle(now, Event::File(file, FileEvent::Joins(request)));
    tell(volume, buffer::Event::Arrive { app: 1, request, bytes: 100.0 });
    assert_eq!(changes(volume, now), []);
    volume.handle(now, Event::File(file, lies(&[(Purpose::Data, true)])));
    tell(volume, buffer::Event::Committed { request, bytes: 100.0 });
}

#[test]
fn a_version_is_demoted_by_a_mirror_and_dropped_when_its_room_is_needed() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    checkpoint(&mut volume, t(1), 1, FileId(1));
    let first = changes(&mut volume, t(1));
    let [demote] = first[..] else { panic!("{first:?}") };
    assert_eq!((demote.file, demote.by), (FileId(1), Mechanism::Burst));
    assert_eq!(demote.verb, Verb::AddMirror { purpose: Purpose::Demoted, shape: None });
    made(&mut volume, t(2), &demote, lies(&[(Purpose::Data, true), (Purpose::Demoted, true)]));
    checkpoint(&mut volume, t(3), 2, FileId(2));
    // The newer version is demoted, too; a third one needs the room of the first.
    let second = changes(&mut volume, t(3));
    assert_eq!(second.len(), 1, "{second:?}");
    volume.handle(t(4), Event::File(FileId(3), FileEvent::Joins(3)));
    let arrive = buffer::Event::Arrive { app: 2, request: 3, bytes: 100.0 };
    volume.handle(t(4), Event::Checkpoint(admission::Event::Buffer(arrive)));
    let dropped = changes(&mut volume, t(4));
    let verbs: Vec<_> = dropped.iter().map(|change| (change.file, change.verb)).collect();
    assert_eq!(verbs, [(FileId(1), Verb::DropMirror(0))]);
}

#[test]
fn one_change_of_a_file_at_a_time_and_no_replica_of_a_checkpoint() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    volume.handle(t(1), Event::File(FileId(1), lies(&[(Purpose::Data, true)])));
    let submitted =
        |file| replica::Event::Submitted { job: JobId(file), rank: Rank(file), nodes: 1, files: vec![FileId(file)] };
    volume.handle(t(1), Event::Job(submitted(1)));
    let copy = changes(&mut volume, t(1));
    assert_eq!(copy[0].verb, Verb::AddMirror { purpose: Purpose::Replica, shape: None });
    assert_eq!(volume.owner(FileId(1), Aspect::Shape), Some(Mechanism::Replicas));
    // The job has ended before the copy is complete.
    volume.handle(t(2), Event::Job(replica::Event::Ended(JobId(1))));
    assert_eq!(changes(&mut volume, t(2)), [], "the file is busy");
    made(&mut volume, t(3), &copy[0], lies(&[(Purpose::Data, true), (Purpose::Replica, true)]));
    let gone = changes(&mut volume, t(3));
    assert_eq!(gone[0].verb, Verb::DropMirror(1));
    made(&mut volume, t(4), &gone[0], lies(&[(Purpose::Data, true)]));
    assert_eq!((volume.pending(), volume.owner(FileId(1), Aspect::Shape)), ((0, 0), Some(Mechanism::Stripes)));
    checkpoint(&mut volume, t(5), 1, FileId(2));
    volume.handle(t(5), Event::Job(submitted(2)));
    let all = changes(&mut volume, t(5));
    assert!(all.iter().all(|change| change.by == Mechanism::Burst), "{all:?}");
}

#[test]
fn the_file_with_fewest_mirrors_is_mended_first_and_a_failure_is_tried_again() {
    let (mut volume, t) = (Volume::new(config(), Time::ZERO), Time::from_secs);
    for (file, mirrors) in [
        (1, vec![(Purpose::Data, true), (Purpose::Replica, true), (Purpose::Fork, false)]),
        (2, vec![(Purpose::Data, true), (Purpose::Replica, false)]),
        (3, vec![(Purpose::Data, false)]),
    ] {
        volume.handle(t(1), Event::File(FileId(file), lies(&mirrors)));
    }
    let first = changes(&mut volume, t(1));
    let order: Vec<_> = first.iter().map(|change| (change.file.0, change.verb)).collect();
    let replace = |mirror| Verb::ReplaceTargets(mirror);
    assert_eq!(order, [(3, replace(0)), (2, replace(1))], "two at a time");
    volume.handle(t(2), Event::Done { ticket: first[0].ticket, result: Outcome::Failed });
    assert_eq!(changes(&mut volume, t(2)).iter().map(|change| change.file.0).collect::<Vec<_>>(), [1]);
    let again = volume.next_deadline().expect("it is tried again");
    made(&mut volume, t(3), &first[1], lies(&[(Purpose::Data, true), (Purpose::Replica, true)]));
    volume.handle(again, Event::Tick);
    assert_eq!(changes(&mut volume, again).iter().map(|change| change.file.0).collect::<Vec<_>>(), [3]);
}

/// Its next segments lie on the fast devices, which the striper does not see.
#[test]
fn a_checkpoint_grows_in_the_shape_of_new_files() {
    use crate::stripe::profile::{Count, Counts, class_of};
    use crate::stripe::{advice::Mode, device::Measured, rules, striper};
    let stripes = StripesConfig {
        striper: striper::Config::new(Mode::Model, &Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0), 8),
        rules: rules::parse(rules::ADAPTIVE).expect("rules"),
        every: Time::from_secs(1),
    };
    let mut volume = Volume::new(Config { stripes: Some(stripes), ..config() }, Time::ZERO);
    let files = [(FileId(1), 3, 1 << 20), (FileId(2), 150, 32 << 10)];
    for second in 1..30 {
        for (file, rate, len) in files {
            let now = Time::from_secs(second);
            let mut counts = Box::<Counts>::default();
            counts[class_of(len)] = Count { reads: rate, writes: 0, bytes: rate * len };
            volume.handle(now, Event::File(file, lies(&[(Purpose::Data, true)])));
            volume.handle(now, Event::File(file, FileEvent::Asked { counts, recent: Vec::new() }));
            volume.handle(now, Event::Tick);
            changes(&mut volume, now);
        }
    }
    let [own, usual] = [volume.placement(Some(FileId(1))), volume.placement(None)];
    assert!(own.is_some() && usual.is_some() && own != usual, "{own:?}, {usual:?}");
    volume.handle(Time::from_secs(30), Event::File(FileId(1), FileEvent::Joins(1)));
    assert_eq!(volume.placement(Some(FileId(1))), usual);
}
