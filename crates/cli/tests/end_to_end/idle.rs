//! A daemon with nothing to do.

use crate::real::{Volume, until_within};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Time of the measurement. Longer than any interval of a thread except those for the space and the names.
const SECONDS: u64 = 10;
/// Threads of an idle daemon besides those of FUSE, which depend on the cores: the loops that run to its end, some spare.
const THREADS_MAX: usize = 16;

/// Number of sleeps of each thread of a process, by its number, with its name.
fn sleeps(pid: i32) -> BTreeMap<u64, (String, u64)> {
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_string());
        let count = field("voluntary_ctxt_switches:")?.parse().ok()?;
        Some((task.file_name().to_str()?.parse().ok()?, (field("Name:")?, count)))
    };
    fs::read_dir(format!("/proc/{pid}/task")).expect("a daemon").flatten().filter_map(of).collect()
}

/// [S-175]
#[test]
fn an_idle_daemon_sleeps() {
    sleeps_soon(Volume::up());
}

/// [S-424]
#[test]
fn an_idle_daemon_sleeps_with_its_mechanisms_on() {
    let section = |text: String, name: &str, lines: &str| {
        let head = format!("\n[{name}]\n");
        assert!(text.contains(&head), "{name}");
        text.replace(&head, &format!("{head}{lines}"))
    };
    sleeps_soon(Volume::up_with(|text| {
        let text = section(text, "layout", "segment = \"4MiB\"\n");
        let text = section(text, "tier.fast", "speed = \"200/40\"\n");
        let text = section(text, "tier.capacity", "speed = \"20/10\"\n");
        let text = section(text, "tiering", "policy = \"tuned\"\n");
        let text = section(text, "cache", "size = \"16MiB\"\n");
        section(text, "burst", "fast = \"fast\"\ncapacity = \"capacity\"\n")
    }));
}

fn sleeps_soon(volume: Option<Volume>) {
    let Some(volume) = volume else { return };
    fs::write(volume.at.join("f"), [1; 1 << 20]).expect("write");
    fs::read(volume.at.join("f")).expect("read");
    let pid = volume.pid().expect("a daemon").as_raw_nonzero().get();
    // Threads that came with the work go first; what else happens once is over then too.
    until_within(300, "it wakes at most twice a second, with few threads", || {
        let before = sleeps(pid);
        std::thread::sleep(Duration::from_secs(SECONDS));
        let after = sleeps(pid);
        let mut by_name = BTreeMap::<&str, u64>::new();
        for (id, (name, count)) in &after {
            *by_name.entry(name).or_default() += count - before.get(id).map_or(0, |(_, count)| *count);
        }
        // Each mount and unmount of another test wakes the first thread, which watches the kernel's table of mounts.
        by_name.retain(|name, count| *count > 0 && *name != "entrepot");
        let all: u64 = by_name.values().sum();
        let names: Vec<&str> =
            after.values().map(|(name, _)| &**name).filter(|name| !name.starts_with("fuser-")).collect();
        println!("{all} in {SECONDS} s: {by_name:?}, {} threads: {names:?}", names.len());
        // One thread waits for all background tasks.
        let waiting = names.iter().filter(|name| **name == "maintenance").count();
        all <= 2 * SECONDS && waiting == 1 && names.len() <= THREADS_MAX
    });
}
