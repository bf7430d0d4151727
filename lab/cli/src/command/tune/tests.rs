//! Loads whose best setting is known.

use super::recording::Request;
use super::*;
use crate::failure::Failure;
use std::path::Path;

const VOLUME: &str = "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[tier.disk]\nspeed = \"100/100\"\nlatency = \"4ms\"\n\
                      [[target]]\nname = \"a\"\npath = \"a\"\ntier = \"disk\"\n[mount]\nio = \"direct\"\n";

fn tune(cache_max: u64) -> Tune {
    let paths = || PathBuf::from("/nonexistent");
    Tune { volume: paths(), trace: paths(), cache_max, margin: 5.0, seed: 1, output: Output::Json }
}

/// A synchronous client whose reads take as long as the device without a cache.
fn recorded(offsets: impl Iterator<Item = u64>) -> Recording {
    let (bytes, took_ns) = (16 << 10, 4_000_000 + (16 << 10) * 10);
    let read = |(n, offset)| Request {
        at_ns: n * (took_ns + 100_000),
        took_ns,
        open: 0,
        file: 0,
        offset,
        bytes,
        write: false,
    };
    Recording::of((0..).zip(offsets).map(read).collect(), 0)
}

fn tuned(recording: &Recording, cache_max: u64) -> Tuned {
    let volume: toml::Table = VOLUME.parse().expect("TOML");
    let Ok(config) = Config::parse(Path::new("/v/volume.toml"), VOLUME) else { panic!("a volume.toml") };
    let Ok(devices) = replay::devices(&config) else { panic!("the tier has a speed") };
    let level = |keys: &Keys| keys.level(Path::new("/v/volume.toml"), &volume);
    match tune(cache_max).tune(recording, &devices, None, level) {
        Ok(tuned) => tuned,
        Err(_) => panic!("the recording is long enough"),
    }
}

#[test]
fn a_scan_gets_a_prefetcher_and_a_small_cache() {
    let found = tuned(&recorded((0..1000).map(|n| n << 14)), 64 << 20);
    assert!(found.keys.prefetch.starts_with("stream"), "{:?}", found.keys);
    assert!(found.keys.size <= 4 << 20, "nothing is read twice, and a prefetch has 1 MiB: {:?}", found.keys);
    assert!(found.judgement.keep.is_none() && found.judgement.gain_low > 0.5, "{:?}", found.judgement);
    assert!((found.judgement.simulated_ms / found.judgement.recorded_ms - 1.0).abs() < 0.01, "{:?}", found.judgement);
    assert!(found.text().ends_with(&found.keys.lines()), "the lines can be pasted: {}", found.text());
}

#[test]
fn reads_of_a_small_part_get_a_cache_that_holds_it() {
    // Of 8 MiB, in an order without runs.
    let found = tuned(&recorded((0..4000).map(|n| (n * 197 % 512) << 14)), 64 << 20);
    assert_eq!(found.keys.size, 16 << 20, "{:?}", found.keys);
    assert!(found.judgement.keep.is_none() && found.judgement.gain > 0.9, "{:?}", found.judgement);
}

#[test]
fn random_reads_of_a_large_part_keep_what_they_have() {
    let found = tuned(&recorded((0..1000).map(|n| (n * 7919 % 65_536) << 14)), 4 << 20);
    assert!(found.judgement.keep.is_some(), "{:?} {:?}", found.keys, found.judgement);
    assert!(found.text().contains("keep what you have") && found.json()["lines"].is_null());
}

#[test]
fn a_load_that_changes_is_judged_by_its_second_half() {
    // The first half scans, the second jumps about.
    let scan = (0..1000).map(|n| n << 14);
    let found = tuned(&recorded(scan.chain((0..1000).map(|n| (n * 7919 % 65_536 + 2000) << 14))), 4 << 20);
    assert!(found.keys.prefetch.starts_with("stream"), "the first half chooses: {:?}", found.keys);
    assert!(found.judgement.keep.is_some(), "the second half judges: {:?}", found.judgement);
}

#[test]
fn a_short_recording_and_a_volume_without_speeds_are_refused() {
    let volume = |text: &str| Config::parse(Path::new("/v/volume.toml"), text);
    let (Ok(with), Ok(without)) =
        (volume(VOLUME), volume(&VOLUME.replace("speed = \"100/100\"\nlatency = \"4ms\"\n", "")))
    else {
        panic!("volume.tomls")
    };
    assert!(replay::devices(&without).is_err());
    let Ok(devices) = replay::devices(&with) else { panic!("the tier has a speed") };
    assert!(tune(1 << 20).tune(&recorded((0..300).map(|n| n << 14)), &devices, None, |_| None).is_err());
}

#[test]
fn a_recording_without_the_reads_of_the_kernel_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let volume = dir.path().join("volume.toml");
    let refused = |toml: &str| {
        std::fs::write(&volume, toml).expect("write");
        let tune = Tune { volume: volume.clone(), trace: dir.path().join("none.csv"), ..tune(1 << 20) };
        match tune.run() {
            Err(Failure::Problem(problem)) => json!(problem)["cause"].to_string(),
            _ => panic!("there is no recording"),
        }
    };
    let (direct, cached) = (format!("{VOLUME}passthrough = \"off\"\n"), format!("{VOLUME}[cache]\nsize = \"1MiB\"\n"));
    for toml in [VOLUME, &cached.replace("direct", "cached"), &direct.replace("direct", "auto")] {
        assert!(refused(toml).contains("the kernel answers reads"), "{toml}");
    }
    for toml in [direct, cached.replace("direct", "auto")] {
        assert!(refused(&toml).contains("none.csv"), "the next thing is the recording: {toml}");
    }
}
