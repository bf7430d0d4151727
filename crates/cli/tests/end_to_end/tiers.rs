//! Tiering as a user sees it: hot segments come up beside the burst buffer, each within its space; slow copies are kept
//! and given up.

use super::burst::{complete, tiers, write};
use super::burst_devices::on;
use super::loops::Loop;
use super::real::{self, Volume, code, out};
use std::os::unix::fs::FileExt;

const SEGMENT: u64 = 256 << 10;
const SEGMENTS: u64 = 32;
/// Space of tiering on the fast device: a fifth of 48 MiB, less the file system's own share.
const SHARE: u64 = 48 << 18;
const BUFFER: u64 = 16_000_000;

fn with_tiers(text: String) -> String {
    let after = |text: String, section: &str, lines: &str| {
        text.replace(&format!("\n[{section}]\n"), &format!("\n[{section}]\n{lines}"))
    };
    let layout = "single_max = 0\ninline_max = 0\nstripe_count = 1\nstripe_size = \"256KiB\"\nsegment = \"256KiB\"\n";
    let text = after(text, "layout", layout);
    let text = after(text, "tier.fast", "speed = \"200/40\"\n");
    let text = after(text, "tier.capacity", "speed = \"20/10\"\n");
    let text = after(text, "mount", "io = \"direct\"\n");
    let tiering = "policy = \"tuned\"\nwindow = 256\nidle = \"100ms\"\nplacement = \"round-robin\"\n\
        share_percent = 20\ncopies_free_percent = 30\ncopy_after = \"1h\"\n";
    let text = after(text, "tiering", tiering);
    let burst = format!(
        "fast = \"fast\"\ncapacity = \"capacity\"\ncheckpoints = [\"ckpt/{{app}}/{{version}}/**\"]\nsize = \"{BUFFER}\"\norder = \"versions\"\n"
    );
    after(text, "burst", &burst)
}

/// Tiers of a file's segments: `F` and `s`.
fn map(volume: &Volume, file: &str) -> String {
    let layout = volume.json(&["layout", file]);
    let segments = layout["mirrors"][0]["segments"].as_array().expect("segments").clone();
    segments.iter().map(|segment| if segment.to_string().contains("\"fast") { 'F' } else { 's' }).collect()
}

/// Both keep to their space at this moment.
fn each_within_its_space(volume: &Volume) {
    let status = volume.json(&["status"]);
    let (segments, used) = (status["tiering"]["fast_segments"].as_u64(), status["burst"]["used"].as_u64());
    assert!(segments.is_some_and(|segments| segments * SEGMENT <= SHARE), "{}", status["tiering"]);
    assert!(used.is_some_and(|used| used <= BUFFER), "{}", status["burst"]);
}

/// [S-101] [S-102]
#[test]
fn hot_segments_come_up_beside_the_burst_buffer_and_each_keeps_to_its_space() {
    let (Some(fast), Some(slow)) = (Loop::new(48, &[]), Loop::new(192, &[])) else { return };
    let Some(volume) = Volume::up_with(|text| on(&slow, "capacity", on(&fast, "fast", with_tiers(text)))) else {
        return;
    };
    let mut data = real::noise((SEGMENTS * SEGMENT) as usize);
    std::fs::write(volume.at.join("data"), &data).expect("write");
    let checkpoint = real::noise(6 << 20);
    write(&volume, "wave", "1", &checkpoint).expect("it fits");
    real::until("the checkpoint is complete", || complete(&volume, "wave", "1"));
    each_within_its_space(&volume);

    // A segment on the slow tier is read again and again.
    let hot = map(&volume, "data").find('s').expect("in turn: half of it") as u64;
    let mut page = vec![0; 64 << 10];
    real::until("the hot segment is on the fast tier", || {
        // While a file is open for writing, its reads are the page cache's.
        let file = std::fs::File::open(volume.at.join("data")).expect("open");
        (0..64).for_each(|_| file.read_exact_at(&mut page, hot * SEGMENT).expect("read"));
        // The devices are left alone for as long as moves want it.
        let began = std::time::Instant::now();
        real::until("a move, or time for one", || {
            map(&volume, "data").as_bytes()[hot as usize] == b'F' || began.elapsed().as_secs() >= 1
        });
        map(&volume, "data").as_bytes()[hot as usize] == b'F'
    });
    real::until("status has counted the move", || volume.count("tiering", "copies") >= 1);
    let told = out(&volume.run(&["explain", "data"]));
    let line = format!("segment {hot}: ");
    assert!(
        told.lines().any(|told| told.contains(&line) && told.contains("on the fast tier, its slow copy kept")),
        "{told}"
    );
    assert!(told.contains("was moved to the fast tier"), "{told}");
    let shown = out(&volume.run(&["status"]));
    assert!(
        shown.contains("tiering  tuned") && shown.contains("slow copies kept") && shown.contains("hot: data"),
        "{shown}"
    );
    // The checkpoint lies on the same devices, and is the buffer's own.
    real::until("tiering counts what is its own", || {
        volume.count("tiering", "fast_segments") == map(&volume, "data").matches('F').count() as u64
    });

    // More versions than the buffer holds: old ones leave it, and what is hot stays where it is.
    for version in 2..=5 {
        write(&volume, "wave", &version.to_string(), &checkpoint).expect("old versions make room");
        real::until("it is complete", || complete(&volume, "wave", &version.to_string()));
        each_within_its_space(&volume);
    }
    assert_eq!(tiers(&volume, "ckpt/wave/5/state").first(), Some(&"fast"), "the newest");
    real::until("old versions have left", || tiers(&volume, "ckpt/wave/1/state") == ["capacity"]);
    assert_eq!(map(&volume, "data").as_bytes()[hot as usize], b'F');
    for version in 1..=5 {
        let read = std::fs::read(volume.at.join(format!("ckpt/wave/{version}/state"))).expect("read");
        assert!(read == checkpoint, "version {version}");
    }

    // Written, the segment has no copy any more, and every byte is there.
    let kept = || {
        let told = out(&volume.run(&["explain", "data"]));
        told.lines().any(|told| told.contains(&line) && told.contains("its slow copy kept"))
    };
    assert!(kept());
    let file = std::fs::File::options().write(true).open(volume.at.join("data")).expect("open");
    file.write_all_at(&[7; 1000], hot * SEGMENT + 5).expect("write");
    data[(hot * SEGMENT) as usize + 5..][..1000].fill(7);
    assert!(!kept(), "the copy ends with the write");
    assert!(std::fs::read(volume.at.join("data")).expect("read") == data);
    drop(file);

    // A stop leaves no copies behind.
    volume.until_nothing_is_left();
    volume.ok(&["down"]);
    volume.up_again();
    assert!(std::fs::read(volume.at.join("data")).expect("read") == data);
    assert_eq!(volume.count("tiering", "copies"), 0);
    let check = volume.run(&["check"]);
    assert_eq!(code(&check), 0, "{}", out(&check));
}

/// [S-102]
#[test]
fn what_is_written_to_the_fast_tier_gets_a_slow_copy_while_nobody_uses_the_devices() {
    let (Some(fast), Some(slow)) = (Loop::new(48, &[]), Loop::new(192, &[])) else { return };
    let soon = |text: String| with_tiers(text).replace("copy_after = \"1h\"", "copy_after = \"100ms\"");
    let Some(volume) = Volume::up_with(|text| on(&slow, "capacity", on(&fast, "fast", soon(text)))) else { return };
    let mut data = real::noise((SEGMENTS * SEGMENT) as usize);
    std::fs::write(volume.at.join("data"), &data).expect("write");
    let on_fast = || map(&volume, "data").matches('F').count() as u64;
    real::until("each has its copy", || on_fast() > 0 && volume.count("tiering", "copies") == on_fast());
    let on_fast = on_fast();
    real::until("status has counted them", || volume.count("tiering", "copied") >= on_fast);
    let told = out(&volume.run(&["explain", "data"]));
    assert_eq!(told.matches("on the fast tier, its slow copy kept").count() as u64, on_fast, "{told}");
    assert!(told.contains("got a slow copy while the devices were idle"), "{told}");
    let shown = out(&volume.run(&["status"]));
    assert!(shown.contains("slow copies kept, ") && shown.contains(" made while idle"), "{shown}");
    let stats = out(&volume.run(&["stats", "--prometheus"]));
    assert!(stats.contains("tiering_copied_bytes"), "{stats}");
    // A written segment loses its slow copy and gets another; reads return only the written bytes.
    let hot = map(&volume, "data").find('F').expect("in turn: half of it") as u64;
    let file = std::fs::File::options().write(true).open(volume.at.join("data")).expect("open");
    file.write_all_at(&[7; 1000], hot * SEGMENT + 5).expect("write");
    data[(hot * SEGMENT) as usize + 5..][..1000].fill(7);
    drop(file);
    real::until("it has another one", || volume.count("tiering", "copied") > on_fast);
    assert!(std::fs::read(volume.at.join("data")).expect("read") == data);
    // Killed with copies, the volume has every byte, and nothing besides.
    volume.kill();
    volume.up_again();
    assert!(std::fs::read(volume.at.join("data")).expect("read") == data);
    volume.until_nothing_is_left();
}
