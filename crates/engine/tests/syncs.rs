//! Promises of `fsync` while other syncs of the same file are under way, fail, or went before.

mod gate;
#[allow(dead_code)]
mod interposed;

use engine::file::{File, Lost, Pool};
use gate::Gate;
use interposed::{Interposed, Interposer, Io, Op, Verdict};
use meta::state::{SqliteState, State};
use meta::stub::memory::MemoryStub;
use object::target::{
    DirectoryMedium, Execution, Faults, Identity, InlineSlots, Limits, Medium, MemoryMedium, TargetSpec, Targets,
    TargetsOptions,
};
use policy::TargetId;
use policy::holders::OpenRequest;
use policy::layout::Placement;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A file of one object of 8192 bytes on that medium.
fn file_on(medium: Arc<dyn Medium>, options: TargetsOptions) -> (Arc<File>, Arc<Targets>) {
    let targets = Targets::new(options);
    targets.add(TargetSpec::new(TargetId(0), 0, medium));
    let next = AtomicU64::new(1);
    let place = Placement {
        stripe_size: 4096,
        stripe_count: 1,
        single_bytes_max: 4096,
        segment_bytes: 0,
        mirrors: 1,
        tier: None,
    };
    let pool = Arc::new(Pool::new(targets.clone(), move || next.fetch_add(1, Ordering::Relaxed), place));
    let file = File::open(Arc::new(MemoryStub::new()), pool).unwrap();
    file.write(0, &[1; 8192]).unwrap();
    (file, targets)
}

fn threads() -> TargetsOptions {
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    TargetsOptions {
        execution: Execution::Threads,
        limits,
        slots: Arc::new(InlineSlots::new(2)),
        health: Default::default(),
    }
}

/// [S-150]
#[test]
fn a_second_sync_is_not_answered_before_the_first_has_ended() {
    let gate = Arc::new(Gate::before(Op::Sync));
    let medium = Interposed::new(Arc::new(MemoryMedium::new(1)), gate.clone());
    let (file, targets) = file_on(Arc::new(medium), threads());
    gate.close();
    let first = std::thread::spawn({
        let file = file.clone();
        move || file.sync_now(false)
    });
    gate.wait_for(1);
    // The device never answers, so neither sync may succeed.
    file.sync_now(false).expect_err("the device has not synced");
    first.join().unwrap().expect_err("the device has not synced");
    gate.open();
    targets.stop();
}

/// Counts the syncs of objects.
#[derive(Default)]
struct Syncs(AtomicU64);

impl Interposer for Syncs {
    fn before(&self, op: Op) -> Io<Verdict> {
        self.0.fetch_add(u64::from(op == Op::Sync), Ordering::Relaxed);
        Ok(Verdict::Happens)
    }
}

/// [S-150]
#[test]
fn what_the_kernel_writes_by_itself_is_synced_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { volume: engine::volume::VolumeId(1), target: TargetId(0), name: "t0".into() };
    DirectoryMedium::format(dir.path(), &identity).unwrap();
    let medium = DirectoryMedium::new(dir.path(), identity);
    medium.probe().unwrap();
    let syncs = Arc::new(Syncs::default());
    let (file, _targets) =
        file_on(Arc::new(Interposed::new(Arc::new(medium), syncs.clone())), TargetsOptions::inline());
    let synced = || {
        let before = syncs.0.load(Ordering::Relaxed);
        file.sync_now(false).unwrap();
        syncs.0.load(Ordering::Relaxed) - before
    };
    assert_eq!((synced(), synced()), (1, 0), "nothing was written between the two");
    let request = OpenRequest { writes: true, direct: false, pass: true, shared: false };
    let mut object = None;
    let guard = file.open_as(request, |fd| {
        object = Some(fd.try_clone_to_owned().unwrap());
        Some(Arc::new(()))
    });
    let object = object.expect("a file of one object");
    for at in 0..3 {
        rustix::io::pwrite(&object, &[2; 4096], at * 4096).unwrap();
        assert_eq!(synced(), 1, "after write {at}");
    }
    rustix::io::pwrite(&object, &[3; 4096], 0).unwrap();
    drop((guard, object));
    assert_eq!((synced(), synced()), (1, 0), "what it wrote last is synced after it was closed");
}

fn lose_syncs(medium: &MemoryMedium, syncs_lose: bool) {
    medium.set_faults(Faults { syncs_lose, ..Faults::default() });
}

/// [S-151]
#[test]
fn a_sync_that_failed_stays_failed_until_all_was_written_again() {
    let medium = MemoryMedium::new(1);
    let (file, _targets) = file_on(Arc::new(medium.clone()), TargetsOptions::inline());
    let before = file.sync_cursor();
    lose_syncs(&medium, true);
    file.sync_now(false).expect_err("the device loses it");
    lose_syncs(&medium, false);
    // The kernel has dropped the bytes that it could not write, and reports success.
    for _ in 0..2 {
        file.sync_now(false).expect_err("the bytes are lost");
        file.sync(false, &before).expect_err("the bytes are lost");
        file.sync(false, &file.sync_cursor()).expect_err("the bytes are lost");
    }
    let (stub, pool) = (file.stub().clone(), file.pool().clone());
    drop(file);
    let file = File::open(stub, pool).unwrap();
    file.sync_now(false).expect_err("whoever opens it next has lost them too");
    file.write(0, &[2; 4096]).unwrap();
    file.sync_now(false).expect_err("the second half is still lost");
    file.write(4096, &[3; 4096]).unwrap();
    file.sync_now(false).expect("all of it was written again");
    medium.crash();
    let file = File::open(file.stub().clone(), file.pool().clone()).unwrap();
    let mut bytes = [0; 8192];
    file.read(0, &mut bytes).unwrap();
    assert!(bytes[..4096] == [2; 4096] && bytes[4096..] == [3; 4096]);
}

/// [S-151]
#[test]
fn the_next_daemon_knows_of_a_sync_that_failed() {
    let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().unwrap());
    let medium = MemoryMedium::new(1);
    let (file, _targets) = file_on(Arc::new(medium.clone()), TargetsOptions::inline());
    // Each life opens the same stub over the same target, and begins with the records of the state store.
    let life = || {
        let (stub, of) = (file.stub().clone(), file.pool());
        let lost = Arc::new(Lost::remembered(&state).unwrap());
        let pool = Pool { lost, ..Pool::new(of.targets.clone(), || 1 << 40, of.placement.clone()) };
        File::open(stub, Arc::new(pool)).unwrap()
    };
    let first = life();
    first.write(0, &[2; 8192]).unwrap();
    lose_syncs(&medium, true);
    first.sync_now(false).expect_err("the device loses it");
    lose_syncs(&medium, false);
    drop(first);
    let second = life();
    second.sync(false, &second.sync_cursor()).expect_err("the bytes are lost");
    second.write(0, &[3; 4096]).unwrap();
    second.sync_now(false).expect_err("of one half");
    drop(second);
    let third = life();
    third.write(0, &[4; 8192]).unwrap();
    third.sync_now(false).expect("all of it was written again");
    drop(third);
    assert!(!life().pool().lost.any() && state.records("failed-syncs").unwrap().is_empty());
}

/// [S-151]
#[test]
fn what_is_emptied_or_removed_has_lost_nothing() {
    let medium = MemoryMedium::new(1);
    let (file, _targets) = file_on(Arc::new(medium.clone()), TargetsOptions::inline());
    lose_syncs(&medium, true);
    file.sync_now(false).expect_err("the device loses it");
    lose_syncs(&medium, false);
    file.truncate(0).unwrap();
    file.sync_now(false).expect("there is nothing to lose");
    assert!(!file.pool().lost.any());
    file.write(0, &[1; 4096]).unwrap();
    lose_syncs(&medium, true);
    file.sync_now(false).expect_err("the device loses it");
    file.remove_objects().unwrap();
    assert!(!file.pool().lost.any(), "nobody asks for it any more");
}

/// [S-151]
#[test]
fn the_same_for_bytes_in_the_stub() {
    let stub = Arc::new(MemoryStub::new());
    let (file, _targets) = file_on(Arc::new(MemoryMedium::new(1)), TargetsOptions::inline());
    let mut pool = Pool::new(file.pool().targets.clone(), || 1 << 40, file.pool().placement.clone());
    pool.inline_bytes_max = 4096;
    let file = File::open(stub.clone(), Arc::new(pool)).unwrap();
    file.write(0, &[1; 1000]).unwrap();
    stub.fail_from(Some(1));
    file.sync_now(true).expect_err("the disk below fails");
    stub.fail_from(None);
    file.sync_now(true).expect_err("the bytes are lost");
    file.write(0, &[1; 1000]).unwrap();
    file.sync_now(true).expect("written again");
}
