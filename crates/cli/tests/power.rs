//! Loss of power under a whole volume: names, state and four targets on block devices of their own, all cut at one
//! instant, and everything that a call had acknowledged as durable looked for afterwards. `ENTREPOT_POWER_CUTS=50`
//! plays so many rounds, from `ENTREPOT_SEED` on.

#[path = "power/blocks.rs"]
mod blocks;
#[path = "power/device.rs"]
mod device;
#[path = "power/judge.rs"]
mod judge;
#[path = "power/round.rs"]
mod round;
#[path = "power/writers.rs"]
mod writers;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use writers::{WAYS, Writer};

const TEST: &str = "what_was_acknowledged_as_durable_outlives_a_loss_of_power";
/// xfs wants 300.
const DEVICE_MIB: u64 = 320;
/// About so many writes and flushes of the devices until the power goes; the long form cuts later, too.
const REQUESTS: u64 = 3000;
const REQUESTS_LONG: u64 = 9000;

/// A round.
struct Plan {
    pub seed: u64,
    /// Whether the targets' devices say that they flushed and do not.
    pub lies: bool,
    pub requests: u64,
    pub dir: PathBuf,
    pub binary: PathBuf,
    /// An empty file system.
    pub template: PathBuf,
}

fn var(name: &str) -> Option<String> {
    std::env::var(format!("ENTREPOT_POWER_{name}")).ok()
}

/// This program once more, as a part of the test.
pub fn part(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", TEST, "--nocapture"]).env("ENTREPOT_POWER_PART", name);
    command
}

fn play_part(name: &str) {
    let path = |name: &str| PathBuf::from(var(name).expect("a path"));
    let seed = var("SEED").and_then(|seed| seed.parse().ok()).expect("a seed");
    if name == "writer" {
        let writer = Writer { way: var("WAY").expect("a way"), mount: path("MOUNT"), notes: path("NOTES"), seed };
        eprintln!("{}: {}", writer.way.clone(), writer.run());
        return;
    }
    let lies = var("LIES").is_some();
    let requests = if var("CUTS").is_some() && seed % 5 > 2 { REQUESTS_LONG } else { REQUESTS };
    let plan = Plan { seed, lies, requests, dir: path("DIR"), binary: path("BINARY"), template: path("TEMPLATE") };
    let told = round::play(&plan);
    std::fs::write(plan.dir.join("told"), told.to_string()).expect("write");
}

/// The reason why no rounds can be played here, if there is one.
fn cannot() -> Option<&'static str> {
    let can =
        |program: &str| ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !rustix::process::geteuid().is_root() {
        return Some("needs root for block devices of its own");
    }
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err()
        || !Path::new("/dev/loop-control").exists()
    {
        return Some("needs /dev/fuse and loop devices");
    }
    (!can("mkfs.ext4") || !can("mkfs.xfs") || !can("unshare")).then_some("needs mkfs.ext4, mkfs.xfs and unshare")
}

/// Plays a round in a process that takes everything with it when it ends.
fn play(seed: u64, lies: bool) -> Value {
    let dir = tempfile::Builder::new().prefix("entrepot-power").tempdir().expect("temp dir");
    let template = dir.path().join("template");
    std::fs::File::create(&template).and_then(|file| file.set_len(DEVICE_MIB << 20)).expect("template");
    let mut mkfs = Command::new(if seed % 2 == 1 { "mkfs.xfs" } else { "mkfs.ext4" });
    let options = if seed % 2 == 1 {
        vec!["-q", "-K"]
    } else {
        vec!["-q", "-F", "-b", "4096", "-E", "nodiscard", "-J", "size=8"]
    };
    let made = mkfs.args(options).arg(&template).output().expect("mkfs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let round = part("round");
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    alone.arg(round.get_program()).args(round.get_args()).envs(round.get_envs().filter_map(|(k, v)| Some((k, v?))));
    alone.env("ENTREPOT_POWER_DIR", dir.path().join("machine")).env("ENTREPOT_POWER_TEMPLATE", &template);
    alone.env("ENTREPOT_POWER_BINARY", env!("CARGO_BIN_EXE_entrepot")).env("ENTREPOT_POWER_SEED", seed.to_string());
    if lies {
        alone.env("ENTREPOT_POWER_LIES", "1");
    }
    std::fs::create_dir(dir.path().join("machine")).expect("directory");
    let done = alone.output().expect("unshare");
    let told = std::fs::read(dir.path().join("machine/told")).unwrap_or_default();
    serde_json::from_slice(&told).unwrap_or_else(|_| {
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        panic!("round {seed} has no end: {out}{err}")
    })
}

fn losses(told: &Value, way: &str) -> Vec<String> {
    let all = told["ways"][way]["losses"].as_array().expect("losses");
    all.iter().map(|loss| loss.as_str().expect("a text").to_owned()).collect()
}

/// [S-020] [S-022] [S-025] [S-122] [S-195]
#[test]
fn what_was_acknowledged_as_durable_outlives_a_loss_of_power() {
    if let Some(name) = var("PART") {
        return play_part(&name);
    }
    if let Some(why) = cannot() {
        return eprintln!("skipped: {why}");
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, rounds) = (number("ENTREPOT_SEED").unwrap_or(1), number("ENTREPOT_POWER_CUTS").unwrap_or(2));
    let (mut bad, mut promised) = (Vec::new(), vec![0; WAYS.len()]);
    for seed in first..first + rounds {
        let told = play(seed, false);
        let mut of_round = 0;
        for (way, sum) in WAYS.iter().zip(&mut promised) {
            let promises = told["ways"][way]["promises"].as_u64().expect("a number");
            (*sum, of_round) = (*sum + promises, of_round + promises);
            let lost = losses(&told, way);
            if !lost.is_empty() {
                bad.push(format!(
                    "seed {seed}, {way}: {} lost of {promises} promises: {:#?}; acknowledged after the cut: {}",
                    lost.len(),
                    &lost[..lost.len().min(5)],
                    told["ways"][way]["late"]
                ));
            }
        }
        if told["wrong"] != "" {
            bad.push(format!("seed {seed}: what was left could not be set right: {}", told["wrong"]));
        }
        let word = |name: &str| told[name].as_str().expect("a word").to_owned();
        println!(
            "seed {seed}: {}, {}, {}: {of_round} promises, {} moves, {} blocks not flushed",
            word("file_system"),
            word("flavour"),
            word("fate"),
            told["moves"],
            told["unflushed"]
        );
        if !bad.is_empty() {
            println!("{}", word("log"));
            break;
        }
    }
    println!("{:?}", WAYS.iter().zip(&promised).collect::<Vec<_>>());
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    assert!(promised.iter().all(|sum| *sum > 0), "a way was never used: {promised:?}");
}

/// The devices of the targets say that they flushed, and forget: every way to write must be found to have lost
/// something.
#[test]
fn a_device_that_lies_about_its_flushes_is_found_out() {
    if let Some(why) = cannot() {
        return eprintln!("skipped: {why}");
    }
    let told = play(1, true);
    let blind: Vec<_> = WAYS.iter().filter(|way| losses(&told, way).is_empty()).collect();
    assert!(blind.is_empty(), "no loss was found in {blind:?}: {}", told["ways"]);
}
