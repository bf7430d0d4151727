//! One round: a machine with six devices, a volume on them, writers and moves; the power fails, and the machine starts
//! again.

use crate::device::{Fate, Rack, Random};
use crate::judge;
use crate::writers::WAYS;
use crate::{Plan, blocks::Promise};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Names, state and targets, each on a device of its own.
const DEVICES: &[&str] = &["namespace", "state", "fast0", "fast1", "capacity0", "capacity1"];
const TARGETS: &[&str] = &["fast0", "fast1", "capacity0", "capacity1"];

/// Background work of the volume while the writers write.
const FLAVOURS: &[&str] = &["drains", "tiering", "stripes", "cache"];

/// The machine of a round: in a mount and process name space of its own, so that nothing of it outlives the process.
struct Machine {
    dir: PathBuf,
    binary: PathBuf,
    xfs: bool,
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn must(command: &mut Command) -> Output {
    let done = run(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    done
}

impl Machine {
    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn image(&self, device: &str) -> PathBuf {
        self.dir.join("images").join(device)
    }

    /// Makes the devices of copies of a template, and mounts them.
    fn build(&self, template: &Path, seed: u64) -> Arc<Rack> {
        for dir in DEVICES.iter().chain(&["images", "rack", "mnt", "notes"]) {
            fs::create_dir(self.at(dir)).expect("directory");
        }
        let images: Vec<PathBuf> = DEVICES.iter().map(|device| self.image(device)).collect();
        for image in &images {
            must(Command::new("cp").arg("--sparse=always").arg(template).arg(image));
        }
        let rack = Arc::new(Rack::new(&images, seed));
        rack.serve(&self.at("rack")).expect("FUSE");
        self.mount(&self.at("rack"));
        rack
    }

    fn start_writer(&self, seed: u64, way: &str) -> (String, Child) {
        let mut writer = crate::part("writer");
        writer.env("ENTREPOT_POWER_WAY", way).env("ENTREPOT_POWER_SEED", random_of(seed, way).to_string());
        writer.env("ENTREPOT_POWER_MOUNT", self.at("mnt")).env("ENTREPOT_POWER_BINARY", &self.binary);
        writer.env("ENTREPOT_POWER_NOTES", self.at("notes").join(way));
        (way.to_string(), writer.stdout(Stdio::null()).spawn().expect("a writer"))
    }

    /// Mounts all devices, whose files lie there.
    fn mount(&self, devices: &Path) {
        // ext4 is to make nothing durable by itself; all file systems of a kind are copies of one.
        let options = if self.xfs { "loop,nouuid" } else { "loop,commit=300" };
        for device in DEVICES {
            let mut mount = Command::new("mount");
            mount.args(["-t", if self.xfs { "xfs" } else { "ext4" }, "-o", options]);
            must(mount.arg(devices.join(device)).arg(self.at(device)));
        }
    }

    fn unmount(&self) {
        for at in ["mnt"].iter().chain(DEVICES) {
            run(Command::new("umount").arg("-l").arg(self.at(at)));
        }
    }

    fn entrepot(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(words).env("ENTREPOT_VOLUME", self.at("volume.toml")).current_dir("/");
        command
    }

    fn up(&self) {
        let (toml, at) = (self.at("volume.toml"), self.at("mnt"));
        let words = ["up", toml.to_str().expect("UTF-8"), "--at", at.to_str().expect("UTF-8"), "--detach"];
        must(&mut self.entrepot(&words));
    }

    fn ask(&self, words: &[&str]) -> Value {
        let done = must(&mut self.entrepot(&[words, &["--output", "json"]].concat()));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    fn configure(&self, flavour: &str) {
        let target = |name: &&str| {
            let tier = name.trim_end_matches(char::is_numeric);
            format!("[[target]]\nname = \"{name}\"\npath = \"{name}/volume\"\ntier = \"{tier}\"\n")
        };
        let more = match flavour {
            "tiering" => {
                "segment = \"256KiB\"\n[tiering]\npolicy = \"tuned\"\nwindow = 64\nidle = \"10ms\"\nbusy_rate = \"20MB\"\n\
                 on_access = true\ncopy_after = \"100ms\"\n"
            }
            "stripes" => "[stripes]\nmode = \"model\"\nwindow = \"1s\"\ninterval = \"200ms\"\nsettle = 1\nforks = 2\n",
            "cache" => "[cache]\nsize = \"8MiB\"\n",
            _ => "",
        };
        let text = format!(
            "name = \"power\"\nnamespace = \"namespace/volume\"\nstate = \"state/volume\"\n\
             [tier.fast]\nspeed = \"200/100\"\n[tier.capacity]\nspeed = \"50/40\"\n{}\
             [health]\ndeadline = \"60s\"\n[burst]\nfast = \"fast\"\ncapacity = \"capacity\"\nsize = \"64MiB\"\n\
             [layout]\nstripe_size = \"64KiB\"\nsingle_max = \"256KiB\"\n{more}",
            TARGETS.iter().map(target).collect::<String>()
        );
        fs::write(self.at("volume.toml"), text).expect("volume.toml");
        for device in DEVICES {
            fs::create_dir(self.at(device).join("volume")).expect("directory");
        }
    }

    /// Repairs the damage of the loss of power and returns the remains. Files in a running move are checked again.
    fn set_right(&self) -> String {
        let began = Instant::now();
        loop {
            let done = run(self.entrepot(&["check", "--repair"]).stdin(Stdio::null()));
            if done.status.success() {
                return String::new();
            }
            if began.elapsed() > Duration::from_secs(60) {
                return String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Moves things about until the power is gone; how often that was done.
    fn move_about(&self, rack: &Rack, random: &mut Random, writers: &mut [(String, Child)]) -> u64 {
        let mut moves = 0;
        while !rack.is_cut() {
            let target = TARGETS[random.below(4) as usize];
            let way = WAYS[random.below(WAYS.len() as u64) as usize];
            let file = self.at("mnt").join(way).join(["striped", "single", "mirrored/file"][random.below(3) as usize]);
            let file = file.to_str().expect("UTF-8");
            let done = match random.below(3) {
                0 => {
                    let drained = run(&mut self.entrepot(&["target", "drain", target]));
                    run(&mut self.entrepot(&["target", "restore", target]));
                    drained
                }
                1 => run(&mut self.entrepot(&["layout", "add-mirror", file])),
                _ => run(&mut self.entrepot(&["layout", "resync", file])),
            };
            moves += u64::from(done.status.success());
            for (way, writer) in writers.iter_mut() {
                let ended = writer.try_wait().expect("wait");
                assert!(ended.is_none() || rack.is_cut(), "the writer of {way} ended while there was power: {ended:?}");
            }
        }
        moves
    }
}

/// The kernel writes back what lies in memory when it likes, without a flush of the device.
fn write_back(dir: &Path, rack: &Rack) {
    let mut ahead = vec![dir.to_path_buf()];
    while let Some(path) = ahead.pop().filter(|_| !rack.is_cut()) {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => ahead.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    if let Ok(file) = fs::File::open(entry.path()) {
                        let _ = crate::writers::sync_file_range(&file);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Plays a round and returns its result.
pub fn play(plan: &Plan) -> Value {
    let mut random = Random(plan.seed);
    let flavour = FLAVOURS[(plan.seed / 2) as usize % FLAVOURS.len()];
    let fate = [Fate::Mixed, Fate::Dropped, Fate::Mixed, Fate::Kept][(plan.seed / 3) as usize % 4];
    let fate = if plan.lies { Fate::Dropped } else { fate };
    let machine = Machine { dir: plan.dir.clone(), binary: plan.binary.clone(), xfs: plan.seed % 2 == 1 };
    let rack = machine.build(&plan.template, random.next());
    machine.configure(flavour);
    machine.up();
    let daemon = machine.ask(&["status"])["pid"].as_i64().expect("a process");
    for way in WAYS {
        let mirrored = machine.at("mnt").join(way).join("mirrored");
        fs::create_dir_all(&mirrored).expect("directory");
        must(&mut machine.entrepot(&["layout", "set", mirrored.to_str().expect("UTF-8"), "mirrors=2"]));
    }
    must(&mut Command::new("sync"));
    if plan.lies {
        rack.lie(TARGETS);
    }
    let mut writers: Vec<_> = WAYS.iter().map(|way| machine.start_writer(plan.seed, way)).collect();
    rack.cut_after(plan.requests / 2 + random.below(plan.requests));
    let over = AtomicBool::new(false);
    let moves = std::thread::scope(|scope| {
        let _end = End(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                TARGETS.iter().for_each(|target| write_back(&machine.at(target).join("volume"), &rack));
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        machine.move_about(&rack, &mut random, &mut writers)
    });
    run(Command::new("kill").args(["-9", &daemon.to_string()]));
    for (_, writer) in &mut writers {
        // The writer's calls end with the daemon; one that runs a command of ours may wait for it.
        let _ = writer.kill();
        writer.wait().expect("wait");
    }
    machine.unmount();
    let unflushed = rack.settle(fate);

    let anew = machine.at("boot_id");
    fs::write(&anew, "00000000-0000-4000-8000-000000000000\n").expect("write");
    must(Command::new("mount").arg("--bind").arg(&anew).arg("/proc/sys/kernel/random/boot_id"));
    machine.mount(&machine.at("images"));
    machine.up();
    let checkpoints = machine.ask(&["checkpoint", "list", "wave"]);
    let mut ways = serde_json::Map::new();
    for way in WAYS {
        let noted = Promise::all(&machine.at("notes").join(way));
        let late = noted.iter().filter(|(at, _)| Some(*at) >= rack.cut_at()).map(|(_, promise)| format!("{promise:?}"));
        let late: Vec<String> = late.collect();
        let promises: Vec<Promise> = noted.into_iter().map(|(_, promise)| promise).collect();
        let losses = judge::losses(&machine.at("mnt"), &promises, &checkpoints);
        ways.insert(way.to_string(), json!({"promises": promises.len(), "losses": losses, "late": late}));
    }
    let wrong = machine.set_right();
    let log = fs::read_to_string(machine.at("state/volume/daemon.log")).unwrap_or_default();
    machine
        .entrepot(&["down", "--force"])
        .output()
        .map(drop)
        .unwrap_or_else(|error: io::Error| panic!("down: {error}"));
    machine.unmount();
    json!({"file_system": if machine.xfs { "xfs" } else { "ext4" }, "flavour": flavour, "fate": format!("{fate:?}"), "moves": moves,
        "unflushed": unflushed, "ways": ways, "wrong": wrong, "log": log})
}

/// Ends the writing back, also when something failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn random_of(seed: u64, way: &str) -> u64 {
    Random(way.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31) + u64::from(byte))).next()
}
