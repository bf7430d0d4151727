//! Connections to a real GlusterFS server that break under writers and readers.

#[path = "../../node/tests/mount/steps.rs"]
mod steps;
#[allow(dead_code)]
mod world;

use connect::set::BytesOver;
use policy::connections::Policy;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Behind, Gluster, clients};

const BLOCK: usize = 256 << 10;
const FILES: u64 = 4;

fn block(file: u64, number: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| (at as u64 * 7 + file * 31 + number * 13) as u8).collect()
}

/// Runs one thread per file over `blocks` blocks each, and `breaks` when a third of them is done.
fn under(blocks: u64, each: impl Fn(u64, u64) + Sync, breaks: impl FnOnce()) {
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for file in 0..FILES {
            let (done, each) = (&done, &each);
            scope.spawn(move || {
                for number in 0..blocks {
                    each(file, number);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while done.load(Ordering::Relaxed) < FILES * blocks / 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        breaks();
    });
}

fn open(at: &Path, file: u64) -> File {
    let path = at.join(format!("file{file}"));
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn write_and_read(behind: &Behind, blocks: u64, break_writing: impl FnOnce(), break_reading: impl FnOnce()) {
    let files: Vec<File> = (0..FILES).map(|file| open(behind.at(), file)).collect();
    let write = |file: u64, number: u64| {
        files[file as usize].write_all_at(&block(file, number), number * BLOCK as u64).unwrap();
        if number % 8 == 7 {
            files[file as usize].sync_data().unwrap();
        }
    };
    under(blocks, write, break_writing);
    let read = |file: u64, number: u64| {
        let mut bytes = vec![0; BLOCK];
        files[file as usize].read_exact_at(&mut bytes, number * BLOCK as u64).unwrap();
        assert!(bytes == block(file, number), "block {number} of file {file}");
    };
    under(blocks, read, break_reading);
}

#[test]
fn killing_connections_under_writers_and_readers_loses_nothing() {
    let Some(gluster) = Gluster::start() else { return };
    for policy in [Policy::Load, Policy::Multiple] {
        let Some(behind) = gluster.behind(3, policy) else { return };
        // The one that names go over, and then another one.
        let victim = |number: usize| clients(3)[number].expect("it is there");
        write_and_read(&behind, 48, || kill(victim(0)), || kill(victim(1)));
        behind.whole_again(2);
        for number in 0..20 {
            let (a, b) = (behind.at().join(format!("a{number}")), behind.at().join(format!("b{number}")));
            fs::create_dir(&a).unwrap();
            if number == 10 {
                kill(victim(2));
                kill(victim(1));
            }
            fs::rename(&a, &b).unwrap();
            fs::remove_dir(&b).unwrap();
        }
        behind.whole_again(4);
    }
}

/// Its packets are delayed so far that it hangs: the probe detects it, and it is taken out and mounted again.
#[test]
fn a_connection_that_hangs_is_replaced() {
    let Some(mut gluster) = Gluster::start() else { return };
    let Some(behind) = gluster.behind(2, Policy::Load) else { return };
    let tell = std::cell::RefCell::new(&mut gluster);
    write_and_read(&behind, 24, || tell.borrow_mut().tell("choke"), || ());
    behind.whole_again(1);
    tell.borrow_mut().tell("unshape");
}

/// The library's connections are this process's own; one of them hangs, and those of the mounts do not. (Not all: this
/// process has files of the mount point open, which a mount command that it starts would close, and wait for.)
#[test]
fn a_connection_of_the_library_that_hangs_is_replaced() {
    let Some(mut gluster) = Gluster::start() else { return };
    let Some(behind) = gluster.behind_over(2, Policy::Load, BytesOver::Library) else { return };
    assert_eq!(behind.status().bytes_over, "library");
    let choke = format!("choke {}", std::process::id());
    let tell = std::cell::RefCell::new(&mut gluster);
    write_and_read(&behind, 24, || tell.borrow_mut().tell(&choke), || ());
    behind.whole_again(1);
    // The library waits for an open until it gives up the server. The files are opened again, so an open hangs.
    tell.borrow_mut().tell(&choke);
    let began = Instant::now();
    write_and_read(&behind, 4, || (), || ());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    behind.whole_again(2);
    tell.borrow_mut().tell("unshape");
}

/// Unmounts a plain mount whatever the test did.
struct Plain(tempfile::TempDir);

impl Drop for Plain {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

/// Several GlusterFS mounts behind one mount point answer like one mount, by either path of the bytes.
#[test]
fn it_is_like_one_mount() {
    let Some(gluster) = Gluster::start() else { return };
    for (seed, over) in [(51, BytesOver::Mount), (52, BytesOver::Library)] {
        like_one_mount(&gluster, seed, over);
    }
}

fn like_one_mount(gluster: &Gluster, seed: u64, over: BytesOver) {
    let Some(behind) = gluster.behind_over(3, Policy::Multiple, over) else { return };
    let plain = Plain(tempfile::tempdir().unwrap());
    let mounted =
        Command::new("mount").args(["-t", "glusterfs", &gluster.volume]).arg(plain.0.path()).status().unwrap();
    assert!(mounted.success());
    let name = |whose: &str| format!("{whose}{seed}");
    let (ours, theirs) = (behind.at().join(name("ours")), plain.0.path().join(name("theirs")));
    [&ours, &theirs].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    steps::same(seed, 120, &ours, &theirs);
}
