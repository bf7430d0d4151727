//! Random processes on one file, each opening, closing, reading and writing in all ways, against what was acknowledged.

mod process;
mod shared;

pub use process::Random;
use process::{Orders, Process};
use rustix::fs::OFlags;
pub use shared::Kind;
use shared::{SLOTS_BYTES, Shared};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// Variable with the orders of a copy of this test that runs as one process.
const ORDERS: &str = "ENTREPOT_TEST_PROCESS";

/// A round: so many processes, each with so many steps, on a new file.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub seed: u64,
    pub kind: Kind,
    pub processes: u64,
    pub steps: u64,
    /// Whether the file is open for writing throughout.
    pub held: bool,
    /// Whether files that were opened for reading may be mapped.
    pub maps_read_only: bool,
    /// The first process lies.
    pub late: bool,
}

/// The process's side: `true` if this is one.
pub fn is_process() -> bool {
    let Ok(orders) = std::env::var(ORDERS) else { return false };
    let words: Vec<&str> = orders.splitn(7, ' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let kind = if words[2] == "mapped" { Kind::Mapped } else { Kind::Direct };
    let path = Path::new(words[6]).to_path_buf();
    let shared = Shared::map(Path::new(&std::env::var("ENTREPOT_TEST_SHARED").unwrap()), false);
    let (maps_read_only, late) = (number(3) == 1, number(4) == 1);
    let orders = Orders { path, kind, seed: number(0), steps: number(1), maps_read_only, late };
    if let Err(difference) = Process::new(orders, &shared).run() {
        eprintln!("process {}: {difference}", words[5]);
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// Runs a round on `path`, on any file system; the shared state lies in `aside`. Returns the first fault, in words.
pub fn run(round: Round, path: &Path, aside: &Path, meanwhile: impl FnMut()) -> Result<(), String> {
    let shared = Shared::map(aside, true);
    let held = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    held.set_len(SLOTS_BYTES).unwrap();
    // Opened when it was empty, or as it is now, or not at all.
    let held = match round.kind {
        _ if !round.held => None,
        Kind::Mapped => Some(held),
        Kind::Direct => {
            drop(held);
            Some(OpenOptions::new().read(true).write(true).open(path).unwrap())
        }
    };
    let failed = run_processes(round, path, aside, meanwhile);
    let kept = check_all(round.kind, &shared, path);
    drop(held);
    // No handle is open, so the kernel may drop its pages.
    rustix::fs::fadvise(File::open(path).unwrap(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let again = check_all(round.kind, &shared, path).map_err(|error| format!("without its pages: {error}"));
    std::fs::remove_file(path).unwrap();
    failed.and(kept).and(again).map_err(|error| format!("{round:?}: {error}"))
}

fn run_processes(round: Round, path: &Path, aside: &Path, mut meanwhile: impl FnMut()) -> Result<(), String> {
    let start = |process: u64| {
        let kind = if round.kind == Kind::Mapped { "mapped" } else { "direct" };
        let late = round.late && process == 0;
        let (seed, steps) = (round.seed * 100 + process, round.steps);
        let (maps, late) = (u8::from(round.maps_read_only), u8::from(late));
        let orders = format!("{seed} {steps} {kind} {maps} {late} {process} {}", path.display());
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process", "--nocapture"])
            .env(ORDERS, orders)
            .env("ENTREPOT_TEST_SHARED", aside)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..round.processes).map(start).collect();
    let waiting = std::thread::spawn(move || {
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect::<Vec<_>>()
    });
    while !waiting.is_finished() {
        meanwhile();
    }
    let ended = waiting.join().unwrap();
    let said: String = ended.iter().map(|output| String::from_utf8_lossy(&output.stderr)).collect();
    if ended.iter().all(|output| output.status.success()) { Ok(()) } else { Err(said) }
}

/// Compares every slot, as read, as mapped, and past the page cache.
fn check_all(kind: Kind, shared: &Shared, path: &Path) -> Result<(), String> {
    let len = SLOTS_BYTES as usize;
    let mut bytes = vec![0; len];
    let check = |how: &str, bytes: &[u8]| {
        for slot in 0..kind.slots() {
            let version = shared.acknowledged(slot);
            let part = &bytes[slot * kind.bytes()..][..kind.bytes()];
            // A process that found something ended in the middle of nothing, so no other version is begun.
            if let Some(at) = kind.wrong(slot, version, shared.begun(slot), part) {
                return Err(format!("at the end, {how}: byte {at} of slot {slot} is not of version {version}"));
            }
        }
        Ok(())
    };
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    check("read", &bytes)?;
    // SAFETY: the file does not change any more.
    unsafe {
        let (access, how) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        let at = rustix::mm::mmap(std::ptr::null_mut(), len, access, how, &file, 0).unwrap();
        bytes.copy_from_slice(std::slice::from_raw_parts(at.cast::<u8>(), len));
        rustix::mm::munmap(at, len).unwrap();
    }
    check("mapped", &bytes)?;
    let direct = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap();
    let mut area = vec![0; len + 4096];
    let skip = area.as_ptr().align_offset(4096);
    direct.read_exact_at(&mut area[skip..skip + len], 0).unwrap();
    check("read past the page cache", &area[skip..skip + len])
}
