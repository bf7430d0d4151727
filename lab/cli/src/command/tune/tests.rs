//! Loads whose best setting is known.

use super::recording::Request;
use super::*;
use crate::failure::Failure;
use std::path::Path;

const VOLUME: &str = "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[tier.disk]\nspeed = \"100/100\"\nlatency = \"4ms\"\n\
                      [[target]]\nname = \"a\"\npath = \"a\"\ntier = \"disk\"\n[mount]\nio = \"direct\"\n";

fn tune(cache_max: u64) -> Tune {
    let paths = || PathBuf::from("/nonexistent");
    let (section, sizes) = (Section::Cache, Some(1 << 30));
    let (margin, seed, output) = (5.0, 1, Output::Json);
    Tune {
        volume: paths(),
        trace: paths(),
        section,
        cache_max,
        fast_size: sizes,
        slow_size: sizes,
        margin,
        seed,
        output,
    }
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

fn tuned_with(tune: &Tune, recording: &Recording, volume: &str) -> Tuned {
    let file = Path::new("/v/volume.toml");
    let Ok(config) = Config::parse(file, volume) else { panic!("a volume.toml") };
    match tune.tuned(recording, &config, file, volume) {
        Ok(tuned) => tuned,
        Err(failure) => panic!("{failure:?}"),
    }
}

fn tuned(recording: &Recording, cache_max: u64) -> Tuned {
    tuned_with(&tune(cache_max), recording, VOLUME)
}

#[test]
fn a_scan_gets_a_prefetcher_and_a_small_cache() {
    let found = tuned(&recorded((0..1000).map(|n| n << 14)), 64 << 20);
    assert!(found.lines.contains("prefetch = \"stream"), "{}", found.lines);
    assert!(
        ["1", "4"].iter().any(|n| found.lines.contains(&format!("size = \"{n}MiB\""))),
        "none is read twice: {}",
        found.lines
    );
    assert!(found.judgement.keep.is_none() && found.judgement.gain_low > 0.5, "{:?}", found.judgement);
    assert!((found.judgement.simulated_ms / found.judgement.recorded_ms - 1.0).abs() < 0.01, "{:?}", found.judgement);
    assert!(found.text().ends_with(&found.lines), "the lines can be pasted: {}", found.text());
}

#[test]
fn reads_of_a_small_part_get_a_cache_that_holds_it() {
    // Of 8 MiB, in an order without runs.
    let found = tuned(&recorded((0..4000).map(|n| (n * 197 % 512) << 14)), 64 << 20);
    assert!(found.lines.contains("size = \"16MiB\""), "{}", found.lines);
    assert!(found.judgement.keep.is_none() && found.judgement.gain > 0.9, "{:?}", found.judgement);
}

#[test]
fn random_reads_of_a_large_part_keep_what_they_have() {
    let found = tuned(&recorded((0..1000).map(|n| (n * 7919 % 65_536) << 14)), 4 << 20);
    assert!(found.judgement.keep.is_some(), "{} {:?}", found.lines, found.judgement);
    assert!(found.text().contains("keep what you have") && found.json()["lines"].is_null());
}

#[test]
fn a_load_that_changes_is_judged_by_its_second_half() {
    // The first half scans, the second jumps about.
    let scan = (0..1000).map(|n| n << 14);
    let found = tuned(&recorded(scan.chain((0..1000).map(|n| (n * 7919 % 65_536 + 2000) << 14))), 4 << 20);
    assert!(found.lines.contains("prefetch = \"stream"), "the first half chooses: {}", found.lines);
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
    let short = recorded((0..300).map(|n| n << 14));
    assert!(tune(1 << 20).tuned(&short, &with, Path::new("/v/volume.toml"), VOLUME).is_err());
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

/// A volume with a fast and a slow target of 1 GiB each, and segments of 1 MiB.
const TIERED: &str = "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[tier.fast]\nspeed = \"2000/1000\"\n\
                      [tier.capacity]\nspeed = \"100/100\"\nlatency = \"4ms\"\n[layout]\nsegment = \"1MiB\"\n\
                      [[target]]\nname = \"a\"\npath = \"a\"\ntier = \"fast\"\n[[target]]\nname = \"b\"\npath = \"b\"\n\
                      tier = \"capacity\"\n[mount]\nio = \"direct\"\npassthrough = \"off\"\n";

/// Reads that take as long as with all data on both tiers in turn.
fn of_tiers(offsets: impl Iterator<Item = u64>) -> Recording {
    let mut recording = recorded(offsets);
    let Ok(config) = Config::parse(Path::new("/v/volume.toml"), TIERED) else { panic!("a volume.toml") };
    let Ok(tiers) = Tiers::of(&config, Some(1 << 30), Some(1 << 30)) else { panic!("two tiers") };
    let took_ms = tiers.replay(&config, &tiers::requests(&recording, recording.requests.len(), 1 << 20));
    recording.requests.iter_mut().zip(took_ms).for_each(|(request, ms)| request.took_ns = (ms * 1e6) as u64);
    recording
}

fn tiering() -> Tune {
    Tune { section: Section::Tiering, ..tune(1 << 20) }
}

#[test]
fn hot_segments_get_a_policy_that_moves_them_and_a_scan_keeps_what_it_has() {
    let volume = format!("{TIERED}[tiering]\nshare_percent = 25\n");
    let mut rng = sim::generate::Rng::new(7, 1);
    let hot = (0..8000u64).map(|n| rng.below(if n.is_multiple_of(4) { 1 << 14 } else { 1 << 10 }) << 14);
    let found = tuned_with(&tiering(), &of_tiers(hot), &volume);
    assert!(!found.lines.contains("policy = \"off\"") && found.lines.contains("share_percent = 25"), "{}", found.lines);
    // Without moves half of the reads take 4.2 ms; three quarters of all are of 16 MiB.
    assert!(found.judgement.keep.is_none() && found.judgement.gain > 0.5, "{:?} {}", found.judgement, found.lines);
    assert!((found.judgement.simulated_ms / found.judgement.recorded_ms - 1.0).abs() < 0.1, "{:?}", found.judgement);
    assert!(found.text().ends_with(&found.lines), "the lines can be pasted: {}", found.text());
    let scan = tuned_with(&tiering(), &of_tiers((0..2000).map(|n| n << 20)), &volume);
    assert!(scan.judgement.keep.is_some(), "{:?} {}", scan.judgement, scan.lines);
}

#[test]
fn what_a_recording_lacks_for_tiers_is_one_message() {
    let capacity = "[tier.capacity]\nspeed = \"100/100\"\nlatency = \"4ms\"\n";
    let one_tier = TIERED.replace(capacity, "").replace("tier = \"capacity\"", "tier = \"fast\"");
    for (volume, cause) in [
        (format!("{TIERED}[cache]\nsize = \"1MiB\"\n"), "does not show which reads `[cache]` answered"),
        (TIERED.replace("segment = \"1MiB\"", ""), "have no segments"),
        (one_tier, "no two tiers"),
        (TIERED.replace("speed = \"100/100\"\nlatency = \"4ms\"\n", ""), "no speed of the devices of tier `capacity`"),
    ] {
        let file = Path::new("/v/volume.toml");
        let Ok(config) = Config::parse(file, &volume) else { panic!("a volume.toml: {volume}") };
        match tiering().tuned(&recorded((0..2000).map(|n| n << 14)), &config, file, &volume) {
            Err(Failure::Problem(problem)) => assert!(problem.cause.contains(cause), "{problem:?}"),
            other => panic!("{cause}: {:?}", other.map(|of| of.lines)),
        }
    }
    let Ok(config) = Config::parse(Path::new("/v/volume.toml"), TIERED) else { panic!("a volume.toml") };
    assert!(matches!(Tiers::of(&config, None, None), Err(Failure::Problem(of)) if of.next_step == "give --fast-size"));
}
