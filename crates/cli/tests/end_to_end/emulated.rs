//! A volume whose targets lie on emulated disks.

use crate::real::{Volume, noise};
use emulate::{EmulatedDisk, Options};
use sim::setup::Setup;
use std::path::Path;
use std::time::{Duration, Instant};

/// An emulated disk with this bandwidth and latency.
pub fn disk(dir: &Path, name: &str, bytes_s: u64, latency_ms: u64) -> EmulatedDisk {
    let (backing, at) = (dir.join(format!("{name}.backing")), dir.join(name));
    [&backing, &at].into_iter().for_each(|path| std::fs::create_dir(path).expect("mkdir"));
    let options = Options {
        setup: Setup {
            disk: format!("plain:read={bytes_s}B,write={bytes_s}B,latency={latency_ms}ms"),
            ..Setup::default()
        },
        capacity_bytes: None,
        queue_depth: 128,
        speedup: 1.0,
        page_cache: false,
        sync: false,
        extent_bytes: 8 << 20,
    };
    EmulatedDisk::start(&backing, &at, options).expect("an emulated disk")
}

#[test]
fn a_volume_on_two_emulated_disks_keeps_its_bytes_and_waits_for_them() {
    let place_of_disks = tempfile::tempdir().expect("temp dir");
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let mut disks = Vec::new();
    let volume = Volume::up_with(|toml| {
        let dir = place_of_disks.path();
        for name in ["fast", "slow"] {
            disks.push(disk(dir, name, if name == "fast" { 200_000_000 } else { 20_000_000 }, 1));
        }
        let place = |name: &str, disk: &EmulatedDisk, toml: String| {
            let path = disk.path().join(name);
            std::fs::create_dir(&path).expect("mkdir");
            toml.replace(&format!("\"targets/{name}\""), &format!("\"{}\"", path.display()))
        };
        let on_fast = ["fast0", "fast1", "fast2"].into_iter().fold(toml, |toml, name| place(name, &disks[0], toml));
        ["capacity0", "capacity1", "capacity2"].into_iter().fold(on_fast, |toml, name| place(name, &disks[1], toml))
    });
    let Some(volume) = volume else { return };
    let data = noise(8 << 20);
    let begun = Instant::now();
    std::fs::write(volume.at.join("file"), &data).expect("write");
    std::fs::File::open(volume.at.join("file")).and_then(|file| file.sync_all()).expect("sync");
    assert!(std::fs::read(volume.at.join("file")).expect("read") == data);
    let written: Vec<u64> = disks.iter().map(|disk| disk.figures().bytes_written).collect();
    assert!(written.iter().sum::<u64>() >= 8 << 20 && written.iter().all(|bytes| *bytes > 0), "{written:?}");
    let least = Duration::from_secs_f64(written[1] as f64 / 20e6);
    assert!(begun.elapsed() >= least, "{:?} for {} bytes on the slow disk", begun.elapsed(), written[1]);
    volume.ok(&["down"]);
}
