//! What the sensors cost: processor time of the daemon per read, with and without, in turns.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Runs of each.
const ROUNDS: usize = 7;
const READS: u64 = 60_000;
const FILE_BYTES: u64 = 16 << 20;

struct Volume<'a> {
    dir: &'a Path,
    pid: u64,
}

fn entrepot(words: &[&str]) -> Vec<u8> {
    let out = Command::new(env!("CARGO_BIN_EXE_entrepot")).args(words).output().expect("the binary runs");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// User and system time of a process, in clock ticks.
fn ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let words: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    words[11].parse::<u64>().expect("a number") + words[12].parse::<u64>().expect("a number")
}

impl Volume<'_> {
    fn up(dir: &Path, sensors: bool) -> Volume<'_> {
        let (toml, mnt, shown) = (dir.join("volume.toml"), dir.join("mnt"), dir.display());
        let mut text =
            format!("namespace = \"{shown}/n\"\nstate = \"{shown}/s\"\n[layout]\nstripe_count = 2\nsingle_max = 0\n");
        text += &format!("[mount]\nio = \"direct\"\n[stripes]\nsensors = {sensors}\n");
        for name in ["a", "b"] {
            text += &format!("[[target]]\nname = \"{name}\"\npath = \"{shown}/{name}\"\n");
        }
        std::fs::write(&toml, text).expect("volume.toml");
        let words = [toml.to_str().expect("UTF-8"), mnt.to_str().expect("UTF-8")];
        entrepot(&["up", words[0], "--at", words[1], "--detach"]);
        let status = entrepot(&["--volume", words[0], "status", "--output", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&status).expect("JSON");
        Volume { dir, pid: status["pid"].as_u64().expect("a process") }
    }

    /// Clock ticks of the daemon for all reads.
    fn read(&self) -> u64 {
        let file = File::open(self.dir.join("mnt/file")).expect("open");
        let mut buffer = vec![0; 4096];
        let before = ticks(self.pid);
        for n in 0..READS {
            let page = n.wrapping_mul(2_654_435_761) % (FILE_BYTES / 4096);
            file.read_exact_at(&mut buffer, page * 4096).expect("read");
        }
        ticks(self.pid) - before
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        let toml = self.dir.join("volume.toml");
        let mut down = Command::new(env!("CARGO_BIN_EXE_entrepot"));
        drop(down.arg("--volume").arg(toml).args(["down", "--force"]).output());
    }
}

/// Reads of 4 KiB on a striped file, one at a time: the dearest case, since each is a request of its own.
pub fn cost(base: &Path) {
    let dir = base.join(format!("entrepot-sensors-{}", std::process::id()));
    for name in ["n", "s", "a", "b", "mnt"] {
        std::fs::create_dir_all(dir.join(name)).unwrap_or_else(|e| panic!("cannot make {}: {e}", dir.display()));
    }
    let with = Volume::up(&dir, true);
    std::fs::write(dir.join("mnt/file"), vec![1; FILE_BYTES as usize]).expect("write");
    with.read();
    drop(with);
    let mut ticks = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let sensors = round % 2 == 0;
        let volume = Volume::up(&dir, sensors);
        volume.read();
        ticks[usize::from(sensors)].push(volume.read());
    }
    let median = |all: &mut Vec<u64>| {
        all.sort_unstable();
        all[all.len() / 2] as f64
    };
    let [without, with] = ticks.each_mut().map(median);
    println!(
        "\nsensors: {:.2} us of the daemon's processor time per 4 KiB read with, {:.2} us without (medians of {ROUNDS}): {:+.2} %",
        with / 100.0 / READS as f64 * 1e6,
        without / 100.0 / READS as f64 * 1e6,
        (with / without - 1.0) * 100.0
    );
    drop(std::fs::remove_dir_all(&dir));
}
