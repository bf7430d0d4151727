//! `entrepot trace record`: what a mount served, without names, for operators; and the way from there to a faster one.

use super::emulated::disk;
use super::laboratory::laboratory;
use super::real::{self, Volume, code, err, noise, out};
use rustix::process::{Pid, Signal, kill_process};
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
    fn start(volume: &Volume, name: &str, words: &[&str]) -> Recording {
        let path = volume.dir.path().join(name);
        let mut command = Command::new(&volume.binary);
        command.env("ENTREPOT_VOLUME", &volume.toml).args(["trace", "record", "--output", "json"]);
        let command = command.args(words).arg(&path).stdout(Stdio::piped()).spawn().expect("the binary runs");
        real::until("it records", || std::fs::metadata(&path).is_ok_and(|of| of.len() > 0));
        Recording { command, path }
    }

    /// Ends it by Ctrl-C once it has this many operations; returns their mean time in milliseconds.
    fn interrupted_at(mut self, operations: usize) -> f64 {
        let took_ms = || -> Vec<f64> {
            let text = std::fs::read_to_string(&self.path).expect("the recording");
            let took_ns = |line: &str| line.rsplit(',').next().and_then(|field| field.parse::<f64>().ok());
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            whole.lines().skip(1).map(|line| took_ns(line).expect("a duration") / 1e6).collect()
        };
        real::until("all is recorded", || took_ms().len() >= operations);
        kill_process(Pid::from_child(&self.command), Signal::INT).expect("kill");
        assert_eq!(self.command.wait().expect("it ends").code(), Some(130));
        took_ms().iter().sum::<f64>() / operations as f64
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
fn a_recording_has_the_reads_and_no_names_and_is_for_operators() {
    let Some(volume) = Volume::up_with(uncached) else { return };
    let path = volume.at.join("secret");
    std::fs::write(&path, noise(1 << 20)).expect("write");
    let recording = Recording::start(&volume, "t.csv", &["--size-max", "500"]);
    let second = volume.dir.path().join("second.csv");
    let busy = volume.run(&["trace", "record", second.to_str().expect("UTF-8")]);
    assert!(code(&busy) != 0 && err(&busy).contains("another recording runs"), "{}", err(&busy));
    assert!(!second.exists(), "the name is free for another attempt");
    let other = tempfile::Builder::new().prefix("entrepot-nobody").tempdir().expect("temp dir");
    std::os::unix::fs::chown(other.path(), Some(65534), Some(65534)).expect("chown");
    let denied = volume.run_as_nobody(&["trace", "record", other.path().join("t.csv").to_str().expect("UTF-8")]);
    assert!(code(&denied) != 0 && err(&denied).contains("only the operator"), "{}", err(&denied));

    read_in_order(&path, 64 << 10);
    let (sum, lines) = recording.end();
    assert_eq!((sum["dropped"].as_u64(), sum["end"].as_str()), (Some(0), Some("size")), "{sum}");
    assert_eq!(lines[0], "time_ns,client,file,op,offset,length,duration_ns");
    for (n, line) in lines[1..].iter().enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[1..6], ["0", "0", "r", &(n * (64 << 10)).to_string(), "65536"], "{line}");
    }
    let reads = lines.len() as u64 - 1;
    assert!((5..16).contains(&reads) && sum["bytes"].as_u64().is_some_and(|bytes| bytes <= 500), "{sum}");
    assert_eq!((sum["reads"].as_u64(), sum["read_bytes"].as_u64()), (Some(reads), Some(reads << 16)), "{sum}");
    let again = volume.run(&["trace", "record", volume.dir.path().join("t.csv").to_str().expect("UTF-8")]);
    assert!(err(&again).contains("exists") && err(&again).contains("nothing was recorded"), "{}", err(&again));
}

/// Reads of the tuned load, a little more than the least that a tuning takes.
const READS: usize = 420;

/// Records reads in order, tunes, applies the lines, and compares the measured with the predicted gain.
#[test]
fn the_lines_of_a_tuning_gain_what_they_promise() {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let place = tempfile::tempdir().expect("temp dir");
    // Beside 8 ms, the time of a busy machine is small.
    let slow = disk(place.path(), "disk", 50_000_000, 8);
    let target = slow.path().join("a");
    std::fs::create_dir(&target).expect("mkdir");
    let toml = format!(
        "name = \"tuned\"\nnamespace = \"namespace\"\nstate = \"state\"\n[tier.disk]\nspeed = \"50/50\"\nlatency = \"8ms\"\n\
         [[target]]\nname = \"a\"\npath = \"{}\"\ntier = \"disk\"\n[layout]\n[mount]\n",
        target.display()
    );
    let Some(volume) = Volume::up_with(|_| uncached(toml)) else { return };
    let path = volume.at.join("data");
    std::fs::write(&path, noise(READS * (16 << 10))).expect("write");
    let measured = |name: &str| {
        // The page cache keeps nothing of the writes, and the block cache nothing of earlier reads.
        volume.ok(&["down"]);
        volume.up_again();
        let recording = Recording::start(&volume, name, &["--for", "5min"]);
        read_in_order(&path, 16 << 10);
        recording.interrupted_at(READS)
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
