//! Reads all over a file through a real mount: devices read what was asked for, and nothing ahead of it.

use super::real::{self, Volume};
use std::os::unix::fs::FileExt;
use std::path::Path;

const READ: u64 = 64 << 10;
const READS: u64 = 1024;

fn layout(text: String) -> String {
    let layout =
        "\n[layout]\nsingle_max = 0\ninline_max = 0\nstripe_count = 4\nstripe_size = \"64KiB\"\nsegment = \"1MiB\"\n";
    text.replace("\n[layout]\n", layout).replace("\n[mount]\n", "\n[mount]\nio = \"direct\"\n")
}

/// The kernel forgets all objects.
fn forget(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        if entry.path().is_dir() { forget(&entry.path()) } else { real::drop_caches_of(&entry.path()) }
    }
}

#[test]
fn of_reads_all_over_a_file_nothing_is_read_ahead() {
    let Some(volume) = Volume::up_with(layout) else { return };
    std::fs::write(volume.at.join("data"), real::noise((READS * READ) as usize)).expect("write");
    forget(&volume.toml.parent().expect("a directory").join("targets"));
    let io = format!("/proc/{}/io", volume.pid().expect("a daemon").as_raw_nonzero());
    let file = std::fs::File::open(volume.at.join("data")).expect("open");
    let mut at = 1;
    // A multiplicative generator comes to each place once before it comes to any again.
    let mut asked_and_read = |reads: u64| {
        let device_bytes = || {
            let io = std::fs::read_to_string(&io).unwrap_or_default();
            io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<u64>().ok()).unwrap_or(0)
        };
        let before = device_bytes();
        for _ in 0..reads {
            at = at * 3 % 1031;
            let place = if at <= READS { at - 1 } else { 0 };
            file.read_exact_at(&mut vec![0; READ as usize], place * READ).expect("read");
        }
        (reads * READ, device_bytes() - before)
    };
    let (asked, ahead) = asked_and_read(48);
    if ahead <= asked + asked / 10 {
        return eprintln!(
            "skipped: of {asked} bytes {ahead} came from devices, so that nothing is read ahead here anyway"
        );
    }
    asked_and_read(40);
    let (asked, read) = asked_and_read(200);
    assert!(read <= asked + asked / 20, "{read} bytes were read for {asked}, and {ahead} for 48 reads at first");
}
