//! A burst buffer without room: writes that fail or wait while its other tier is away.

use super::burst::{status, tiers, until_complete, versions, with_burst, write};
use super::real::{self, Volume};
use std::io::Write;
use std::os::unix::fs::FileExt;

const CAPACITY: [&str; 3] = ["capacity0", "capacity1", "capacity2"];

/// With the capacity tier away nothing can leave the buffer: a write without room gets `ENOSPC`, files in place stay
/// right, and all goes on when it is back. [S-123]
#[test]
fn a_full_buffer_and_a_failed_capacity_tier_give_an_error_and_no_corrupt_file() {
    let Some(volume) = Volume::up_with(with_burst("size = \"10MB\"\nfull = \"enospc\"\n")) else { return };
    let data = real::noise(4 << 20);
    CAPACITY.iter().for_each(|target| volume.ok(&["target", "fail", target]));
    for app in ["a", "b"] {
        write(&volume, app, "1", &data).expect("it fits");
        until_complete(&volume, app, "1");
    }
    let full = write(&volume, "c", "1", &data).expect_err("it does not fit");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    real::until("it does not count", || versions(&volume, "c").is_empty());
    for app in ["a", "b"] {
        assert!(std::fs::read(volume.at.join(format!("ckpt/{app}/1/state"))).expect("read") == data);
        assert_eq!(tiers(&volume, &format!("ckpt/{app}/1/state")), ["fast"], "a demotion that fails changes nothing");
    }
    assert!(status(&volume, "failed") > Some(0));
    // A failed writer may still have the file open at the next write: the daemon sees a close later than it returns.
    let [mut late, on, skips] = ["c", "d", "e"].map(|app| {
        let dir = volume.at.join(format!("ckpt/{app}/2"));
        std::fs::create_dir_all(&dir).expect("directory");
        std::fs::File::create(dir.join("state")).expect("create")
    });
    let full = late.write_all(&data).expect_err("it does not fit");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    // Every program continues after a short write, which is no failure.
    let mut written = on.write_at(&data, 0).unwrap_or(0);
    assert!(written < data.len());
    assert!(skips.write_all_at(&data, 0).is_err());
    CAPACITY.iter().for_each(|target| volume.ok(&["target", "restore", target]));
    real::until("room is made", || write(&volume, "c", "2", &data).is_ok());
    drop(late);
    until_complete(&volume, "c", "2");
    real::until("room is made", || {
        written += on.write_at(&data[written..], written as u64).unwrap_or(0);
        written == data.len()
    });
    drop(on);
    until_complete(&volume, "d", "2");
    for (app, label) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")] {
        assert!(std::fs::read(volume.at.join(format!("ckpt/{app}/{label}/state"))).expect("read") == data);
    }
    // A writer that continues behind a failed write has no checkpoint.
    let failed = status(&volume, "failed");
    real::until("room is made", || skips.write_all_at(&data[..4096], 4 << 20).is_ok());
    drop(skips);
    real::until("it does not count", || status(&volume, "failed") > failed);
    assert!(versions(&volume, "e").is_empty());
}

/// The previous test with `full = "wait"`: a write without room waits, and goes on when there is room; or gets `ENOSPC`
/// after the bound. [S-123]
#[test]
fn who_does_not_fit_waits_for_room() {
    let Some(volume) = Volume::up_with(with_burst("size = \"10MB\"\nfull = \"wait\"\nfull_wait = \"3s\"\n")) else {
        return;
    };
    let data = real::noise(4 << 20);
    CAPACITY.iter().for_each(|target| volume.ok(&["target", "fail", target]));
    for app in ["a", "b"] {
        write(&volume, app, "1", &data).expect("it fits");
        until_complete(&volume, app, "1");
    }
    let began = std::time::Instant::now();
    let full = write(&volume, "c", "1", &data).expect_err("it does not fit");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    assert!(began.elapsed().as_secs() >= 3, "it waited: {:?}", began.elapsed());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| write(&volume, "c", "2", &data).map(|_| ()));
        real::until("it waits", || status(&volume, "held_writes") > Some(0));
        CAPACITY.iter().for_each(|target| volume.ok(&["target", "restore", target]));
        waits.join().expect("no panic").expect("there is room now");
    });
    until_complete(&volume, "c", "2");
    assert!(std::fs::read(volume.at.join("ckpt/c/2/state")).expect("read") == data);
}

/// Files in both tiers stay in the buffer while the other tier cannot be read: a write that needs their room waits.
/// [S-123]
#[test]
fn with_a_failed_capacity_tier_clean_copies_stay_and_who_wants_their_room_waits() {
    let sizes = "size = \"10MB\"\nfull = \"wait\"\nfull_wait = \"60s\"\n";
    let Some(volume) = Volume::up_with(with_burst(sizes)) else { return };
    let data = real::noise(4 << 20);
    for app in ["a", "b"] {
        write(&volume, app, "1", &data).expect("it fits");
        real::until("it is in both places", || tiers(&volume, &format!("ckpt/{app}/1/state")) == ["fast", "capacity"]);
    }
    let fail = || CAPACITY.iter().for_each(|target| volume.ok(&["target", "fail", target]));
    // Refused as long as something that was begun before the failure has not returned.
    let restored = |target: &str| volume.run(&["target", "restore", target]).status.success();
    let restore = || CAPACITY.iter().for_each(|target| real::until("it is restored", || restored(target)));
    let held = || status(&volume, "held_writes") > Some(0);
    let used = || status(&volume, "used").expect("used");
    // A checkpoint that fits only on the capacity tier waits for that, too.
    for (app, size) in [("c", 4 << 20), ("large", 12 << 20)] {
        let file = |app: &str| format!("ckpt/{app}/1/state");
        let buffered: Vec<_> = ["a", "b"].map(file).into_iter().filter(|f| tiers(&volume, f)[0] == "fast").collect();
        assert!(!buffered.is_empty());
        fail();
        std::fs::create_dir_all(volume.at.join(format!("ckpt/{app}"))).expect("directory");
        volume.ok(&[
            "checkpoint",
            "begin",
            app,
            "--path",
            &format!("ckpt/{app}"),
            "--version",
            "1",
            "--size",
            &size.to_string(),
        ]);
        let bytes = real::noise(size);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| write(&volume, app, "1", &bytes).map(|_| ()));
            real::until("it waits", held);
            assert!(used() <= 10_000_000, "{app}: {}", used());
            for file in &buffered {
                let read = std::fs::read(volume.at.join(file)).expect("read");
                assert!(read == data, "what is in the buffer can be read: {file}");
            }
            restore();
            waits.join().expect("no panic").expect("there is room now");
        });
        volume.ok(&["checkpoint", "commit", app]);
        assert!(std::fs::read(volume.at.join(file(app))).expect("read") == bytes, "{app}");
    }
    assert_eq!(tiers(&volume, "ckpt/large/1/state"), ["capacity"]);
}
