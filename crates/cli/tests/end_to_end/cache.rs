//! `[cache]` on real mounts: alone, and one volume on another, where the upper sends demand labels to the lower.

use super::real::{self, Volume};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Everything striped and nothing in the namespace, so that the cache has all bytes; with this `[cache]`.
fn with_cache(toml: String, cache: &str) -> String {
    let layout = "[layout]\nsingle_max = 0\ninline_max = 0\nstripe_size = \"64KiB\"";
    toml.replace("[layout]", layout).replace("\n[cache]\n", &format!("\n[cache]\n{cache}\n"))
}

fn count(volume: &Volume, name: &str) -> u64 {
    let status = volume.json(&["status"]);
    status["cache"][name].as_u64().unwrap_or_else(|| panic!("{name} in {status}"))
}

/// Reads a file in small pieces, one after the other, as a program that copies does.
fn copied(path: &Path) -> Vec<u8> {
    let mut file = std::fs::File::open(path).expect("open");
    let (mut bytes, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        match file.read(&mut piece).expect("read") {
            0 => return bytes,
            got => bytes.extend_from_slice(&piece[..got]),
        }
    }
}

/// [S-090]
#[test]
fn a_cold_striped_file_is_read_ahead_and_a_change_is_seen() {
    let edit = |toml| with_cache(toml, "size = \"2MiB\"\nprefetch = \"stream\"\ntrigger = \"ets\"");
    let Some(volume) = Volume::up_with(edit) else { return };
    let bytes = real::noise(6 << 20);
    let path = volume.at.join("film");
    std::fs::write(&path, &bytes).expect("write");
    // The bytes just written are in the page cache; after a restart they are read from the volume.
    volume.ok(&["down"]);
    volume.up_again();
    assert!(copied(&path) == bytes);
    let (asked, prefetched, used) =
        (count(&volume, "asked"), count(&volume, "prefetched"), count(&volume, "prefetch_used"));
    assert!(asked >= 6 << 8, "{asked} blocks reached the cache");
    assert!(prefetched > 1000 && used > prefetched * 9 / 10, "{used} of {prefetched} were used");
    assert!(count(&volume, "memory_bytes") <= 2 << 20);
    let shown = std::fs::read_to_string(volume.at.join(".stats")).expect("stats");
    assert!(shown.contains("cache_prefetch_used") && shown.contains("cache_accuracy"), "{shown}");
    let text = real::out(&volume.run(&["status"]));
    assert!(text.contains("cache ") && text.contains("accuracy"), "{text}");

    let file = std::fs::File::options().read(true).write(true).open(&path).expect("open");
    let mut seen = [0; 10_000];
    let tail = (6 << 20) - 20_000;
    file.read_exact_at(&mut seen, tail).expect("read");
    file.write_all_at(&[7; 5000], tail + 1000).expect("write");
    file.read_exact_at(&mut seen, tail).expect("read");
    assert!(seen[1000..6000] == [7; 5000], "what was written is read");
    assert!(seen[..1000] == bytes[tail as usize..tail as usize + 1000]);
    std::fs::File::options().write(true).open(&path).expect("open").set_len(tail + 2000).expect("truncate");
    assert_eq!(copied(&path).len() as u64, tail + 2000);
}

#[test]
fn a_volume_below_sees_which_requests_the_one_above_only_prefetches() {
    let below = |toml| with_cache(toml, "size = \"2MiB\"\ncoordinator = \"labels\"");
    let Some(lower) = Volume::up_with(below) else { return };
    let dir = tempfile::tempdir().expect("directory");
    let at = |name: &str| dir.path().join(name);
    for path in [at("n"), at("s"), at("mnt"), lower.at.join("a"), lower.at.join("b")] {
        std::fs::create_dir(path).expect("directory");
    }
    let toml = format!(
        "namespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"a\"\npath = \"{0}/a\"\n[[target]]\nname = \"b\"\npath = \"{0}/b\"\n\
         [layout]\nsingle_max = 0\ninline_max = 0\nstripe_size = \"64KiB\"\n[cache]\nsize = \"1MiB\"\n\
         prefetch = \"stream:degree_max=4,distance=2\"\n",
        lower.at.display()
    );
    std::fs::write(at("volume.toml"), toml).expect("write");
    let entrepot = |words: &[&str]| {
        let mut command = Command::new(&lower.binary);
        let output = command.args(words).current_dir(dir.path()).output().expect("the binary runs");
        assert!(output.status.success(), "{words:?}: {}", real::err(&output));
        output
    };
    entrepot(&["up", "volume.toml", "--at", "mnt", "--detach"]);
    let down = Down(&entrepot);
    let bytes = real::noise(2 << 20);
    std::fs::write(at("mnt/film"), &bytes).expect("write");
    // The bytes just written are in the page caches of both mounts; after a restart they are read from the volume.
    entrepot(&["down", "--volume", "volume.toml"]);
    entrepot(&["up", "volume.toml", "--at", "mnt", "--detach"]);
    assert!(copied(&at("mnt/film")) == bytes, "through two caches");
    let lower_requests = count(&lower, "requests");
    let speculative = count(&lower, "speculative_requests");
    assert!(speculative > 100 && speculative < lower_requests, "{speculative} of {lower_requests} were marked");
    drop(down);
}

/// Ends the volume above before the one below.
struct Down<'a>(&'a dyn Fn(&[&str]) -> std::process::Output);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            (self.0)(&["down", "--volume", "volume.toml"]);
        } else {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                (self.0)(&["down", "--force", "--volume", "volume.toml"])
            }));
        }
    }
}
