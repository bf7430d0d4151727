//! Files whose size is the length of an object while the kernel writes it.

use super::*;
use crate::stub::memory::MemoryStub;
use crate::target::{DirectoryMedium, Identity, Medium, TargetSpec, Targets, TargetsOptions};
use crate::volume::VolumeId;

/// A file of one object in a directory.
fn file() -> (tempfile::TempDir, Arc<File>) {
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
    (dir, File::open(Arc::new(MemoryStub::new()), Arc::new(pool)).unwrap())
}

/// [S-154]
#[test]
fn what_is_reserved_beyond_the_end_makes_no_file_longer() {
    let (_dir, file) = file();
    file.write(0, &[1; 200_000]).unwrap();
    let guard = file.passthrough(true).expect("one object");
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
    // Without that, it grows; what was reserved is used.
    file.allocate(900_000, 100_000, false).unwrap();
    assert_eq!(file.size(), 1_000_000);
    let mut bytes = vec![9; 800_000];
    assert_eq!(file.read(200_000, &mut bytes).unwrap(), 800_000);
    assert!(bytes.iter().all(|b| *b == 0));
}
