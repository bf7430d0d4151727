//! `entrepot trace record`: what a mount served, without names, for operators; and the way from there to a faster one.

use super::emulated::disk;
use super::laboratory::laboratory;
use super::real::{self, Volume, code, err, noise, out};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Makes every read reach the daemon, and lays small files on targets, too.
fn uncached(toml: String) -> String {
    let layout = "[layout]\nstripe_count = 1\ninline_max = 0";
    toml.replace("[mount]", "[mount]\nio = \"direct\"\npassthrough = \"off\"").replace("[layout]", layout)
}

/// A recording under way.
struct Recording {
    command: Child,
    path: PathBuf,
}

impl Recording {
    /// Starts it, and waits until the daemon records.
    fn start(volume: &Volume, name: &str, time: &str) -> Recording {
        let path = volume.dir.path().join(name);
        let mut command = Command::new(&volume.binary);
        command.env("ENTREPOT_VOLUME", &volume.toml).args(["trace", "record", "--for", time, "--output", "json"]);
        let command = command.arg(&path).stdout(Stdio::piped()).spawn().expect("the binary runs");
        real::until("it records", || std::fs::metadata(&path).is_ok_and(|of| of.len() > 0));
        Recording { command, path }
    }

    /// Waits for its end; returns the summary and the lines.
    fn end(self) -> (Value, Vec<String>) {
        let output = self.command.wait_with_output().expect("it ends");
        assert!(output.status.success());
        let text = std::fs::read_to_string(&self.path).expect("the recording");
        (serde_json::from_slice(&output.stdout).expect("JSON"), text.lines().map(str::to_owned).collect())
    }
}

/// Reads a file in order in requests of this size.
fn read_in_order(path: &Path, bytes: usize) {
    let (file, mut buffer) = (File::open(path).expect("open"), vec![0; bytes]);
    let len = file.metadata().expect("metadata").len();
    (0..len / bytes as u64).for_each(|n| file.read_exact_at(&mut buffer, n * bytes as u64).expect("read"));
}

#[test]
fn a_recording_has_every_read_and_no_names_and_is_for_operators() {
    let Some(volume) = Volume::up_with(uncached) else { return };
    let path = volume.at.join("secret");
    std::fs::write(&path, noise(1 << 20)).expect("write");
    let recording = Recording::start(&volume, "t.csv", "2s");
    read_in_order(&path, 64 << 10);
    let second = volume.dir.path().join("second.csv");
    let busy = volume.run(&["trace", "record", second.to_str().expect("UTF-8")]);
    assert!(code(&busy) != 0 && err(&busy).contains("another recording runs"), "{}", err(&busy));
    assert!(!second.exists(), "the name is free for another attempt");
    let other = tempfile::Builder::new().prefix("entrepot-nobody").tempdir().expect("temp dir");
    std::os::unix::fs::chown(other.path(), Some(65534), Some(65534)).expect("chown");
    let denied = volume.run_as_nobody(&["trace", "record", other.path().join("t.csv").to_str().expect("UTF-8")]);
    assert!(code(&denied) != 0 && err(&denied).contains("only the operator"), "{}", err(&denied));

    let (sum, lines) = recording.end();
    assert_eq!((sum["reads"].as_u64(), sum["read_bytes"].as_u64()), (Some(16), Some(1 << 20)), "{sum}");
    assert_eq!((sum["dropped"].as_u64(), sum["end"].as_str()), (Some(0), Some("time")), "{sum}");
    assert_eq!(lines[0], "time_ns,client,file,op,offset,length,duration_ns");
    for (n, line) in lines[1..].iter().enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[1..6], ["0", "0", "r", &(n * (64 << 10)).to_string(), "65536"], "{line}");
    }
    assert_eq!(lines.len(), 17);
    let again = volume.run(&["trace", "record", volume.dir.path().join("t.csv").to_str().expect("UTF-8")]);
    assert!(err(&again).contains("exists") && err(&again).contains("nothing was recorded"), "{}", err(&again));
}

/// Records reads in order, tunes, applies the lines, and compares the measured with the predicted gain.
#[test]
fn the_lines_of_a_tuning_gain_what_they_promise() {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let place = tempfile::tempdir().expect("temp dir");
    let slow = disk(place.path(), "disk", 50_000_000, 3);
    let target = slow.path().join("a");
    std::fs::create_dir(&target).expect("mkdir");
    let toml = format!(
        "name = \"tuned\"\nnamespace = \"namespace\"\nstate = \"state\"\n[tier.disk]\nspeed = \"50/50\"\nlatency = \"3ms\"\n\
         [[target]]\nname = \"a\"\npath = \"{}\"\ntier = \"disk\"\n[layout]\n[mount]\n",
        target.display()
    );
    let Some(volume) = Volume::up_with(|_| uncached(toml)) else { return };
    let path = volume.at.join("data");
    std::fs::write(&path, noise(600 * (16 << 10))).expect("write");
    let measured = |name: &str| {
        // The page cache keeps nothing of the writes, and the block cache nothing of earlier reads.
        volume.ok(&["down"]);
        volume.up_again();
        let recording = Recording::start(&volume, name, "4s");
        read_in_order(&path, 16 << 10);
        let (sum, _) = recording.end();
        sum["read_mean_ms"].as_f64().expect("a mean")
    };
    let before = measured("before.csv");
    let mut tune = Command::new(laboratory(Path::new(env!("CARGO_BIN_EXE_entrepot"))));
    tune.arg("tune").arg(&volume.toml).arg("--trace").arg(volume.dir.path().join("before.csv"));
    let tuned = tune.args(["--cache-max", "16MiB", "--output", "json"]).output().expect("the laboratory runs");
    let tuned: Value = serde_json::from_str(&out(&tuned)).unwrap_or_else(|_| panic!("{}", err(&tuned)));
    let lines = tuned["lines"].as_str().unwrap_or_else(|| panic!("a gain is certain: {tuned}"));
    let text = std::fs::read_to_string(&volume.toml).expect("volume.toml");
    std::fs::write(&volume.toml, format!("{text}\n{lines}")).expect("volume.toml");
    let after = measured("after.csv");
    let (gain, predicted) = (1.0 - after / before, tuned["judgement"]["gain"].as_f64().expect("a gain"));
    eprintln!("{before:.3} ms before, {after:.3} ms after: gain {gain:.3}, predicted {predicted:.3}\n{tuned}");
    assert!(gain > 0.3, "{before} ms before, {after} ms after, with {lines}");
    assert!((gain - predicted).abs() < 0.2, "gain {gain}, predicted {predicted}: {tuned}");
    volume.ok(&["down"]);
}
