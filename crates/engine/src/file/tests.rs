//! Files whose size is the length of an object while the kernel writes it.

use super::*;
use crate::volume::VolumeId;
use meta::stub::memory::MemoryStub;
use object::target::{DirectoryMedium, Identity, Medium, Order, TargetSpec, Targets, TargetsOptions};
use policy::holders::{Mode, OpenRequest};

/// A file of one object in a directory.
fn file() -> (tempfile::TempDir, Arc<File>) {
    file_of(Arc::new(MemoryStub::new()))
}

fn file_of(stub: Arc<MemoryStub>) -> (tempfile::TempDir, Arc<File>) {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { volume: VolumeId(1), target: TargetId(0), name: "t0".into() };
    DirectoryMedium::format(dir.path(), &identity).unwrap();
    let medium = DirectoryMedium::new(dir.path(), identity);
    medium.probe().unwrap();
    let targets = Targets::new(TargetsOptions::inline());
    targets.add(TargetSpec::new(TargetId(0), 0, Arc::new(medium)));
    let next = AtomicU64::new(1);
    let place = Placement {
        stripe_size: 65_536,
        stripe_count: 1,
        single_bytes_max: 0,
        segment_bytes: 0,
        mirrors: 1,
        tier: None,
    };
    let pool = Pool::new(targets, move || next.fetch_add(1, Ordering::Relaxed), place);
    (dir, File::open(stub, Arc::new(pool)).unwrap())
}

/// [S-154]
#[test]
fn what_is_reserved_beyond_the_end_makes_no_file_longer() {
    let (_dir, file) = file();
    file.write(0, &[1; 200_000]).unwrap();
    let request = OpenRequest { writes: true, direct: false, pass: true, shared: false };
    let guard = file.open_as(request, |_| Some(Arc::new(())));
    assert_eq!(guard.mode(), Mode::Passed { direct: false }, "one object");
    file.allocate(900_000, 100_000, true).unwrap();
    assert_eq!(file.size(), 200_000);
    file.sync_now(false).unwrap();
    drop(guard);
    assert_eq!((file.size(), file.stub().size().unwrap()), (200_000, 200_000));
    let allocated = || {
        let object = file.view().all().next().unwrap().clone();
        object.run(&file.pool, |h| h.allocated()).unwrap()
    };
    assert!(allocated() >= 290_000, "it is reserved all the same: {}", allocated());
    // With `keep_size` off the file grows, into the reserved space.
    file.allocate(900_000, 100_000, false).unwrap();
    assert_eq!(file.size(), 1_000_000);
    let mut bytes = vec![9; 800_000];
    assert_eq!(file.read(200_000, &mut bytes).unwrap(), 800_000);
    assert!(bytes.iter().all(|b| *b == 0));
}

/// [S-021]
#[test]
fn a_size_that_only_the_object_has_is_kept_until_the_target_is_back() {
    let stub = Arc::new(MemoryStub::new());
    let (_dir, file) = file_of(stub.clone());
    let pool = file.pool().clone();
    file.write(0, &[1; 200_000]).unwrap();
    let request = || OpenRequest { writes: true, direct: false, pass: true, shared: false };
    let mut object = None;
    let guard = file.open_as(request(), |fd| {
        object = Some(fd.try_clone_to_owned().unwrap());
        Some(Arc::new(()))
    });
    rustix::io::pwrite(object.expect("a file of one object"), &[2; 10], 900_000).unwrap();
    pool.targets.operate(TargetId(0), Order::Fail).unwrap();
    file.settle().expect_err("the target has failed");
    drop(guard);
    assert!(file.is_unsettled());
    drop(file);
    assert_eq!((stub.size().unwrap(), stub.kernel_writes().unwrap()), (200_000, true));

    pool.targets.operate(TargetId(0), Order::Restore).unwrap();
    let later = File::open(stub.clone(), pool).unwrap();
    let guard = later.open_as(request(), |_| Some(Arc::new(())));
    assert_eq!((guard.mode(), later.size()), (Mode::Passed { direct: false }, 900_010));
    drop(guard);
    assert_eq!((stub.size().unwrap(), stub.kernel_writes().unwrap()), (900_010, false));
}

/// [S-370]
#[test]
fn a_mark_that_an_earlier_use_of_the_stub_has_still_to_take_away_is_no_name() {
    let stub = Arc::new(MemoryStub::new());
    let (_dir, earlier) = file_of(stub.clone());
    earlier.write(0, &[1; 200_000]).unwrap();
    earlier.mark_in_use().unwrap();
    let later = File::open(stub.clone(), earlier.pool().clone()).unwrap();
    assert_eq!((later.names(|| 2), later.is_nameless(|| stub.links())), (1, false));
    stub.unlink();
    assert_eq!((later.names(|| 1), later.is_nameless(|| stub.links())), (0, true));
    // The mark is removed between two looks at the stub.
    let looks = std::cell::Cell::new(0);
    let links = || {
        let links = stub.links();
        looks.set(looks.get() + 1);
        earlier.settle_mark();
        links
    };
    assert!(later.is_nameless(links) && looks.get() == 2);
}
