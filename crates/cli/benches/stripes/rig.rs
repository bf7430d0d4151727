//! Eight emulated disks with a target on each, and a volume of the real binary over them.

use emulate::{EmulatedDisk, Options};
use sim::setup::Setup;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

pub const DISKS: usize = 8;

/// The disks, and a volume that is up while something runs.
pub struct Rig {
    dir: PathBuf,
    disks: Vec<EmulatedDisk>,
    /// Measured model of one device.
    pub device: String,
}

fn mkdir(path: &Path) {
    std::fs::create_dir_all(path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
}

fn entrepot(words: &[&str]) -> Output {
    let out = Command::new(env!("CARGO_BIN_EXE_entrepot")).args(words).output().expect("the binary runs");
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
}

impl Rig {
    /// Starts the disks and measures one of them.
    pub fn start(base: &Path) -> Rig {
        let dir = base.join(format!("entrepot-stripes-{}", std::process::id()));
        ["namespace", "state", "mnt"].into_iter().for_each(|name| mkdir(&dir.join(name)));
        let mut rig = Rig { dir, disks: Vec::new(), device: String::new() };
        for n in 0..DISKS {
            let (backing, at) = (rig.dir.join(format!("b{n}")), rig.dir.join(format!("d{n}")));
            [&backing, &at].into_iter().for_each(|path| mkdir(path));
            let options = Options {
                setup: Setup { disk: "cheetah9lp".into(), ..Setup::default() },
                capacity_bytes: None,
                queue_depth: 128,
                speedup: 1.0,
                page_cache: false,
                sync: false,
                extent_bytes: 8 << 20,
            };
            let disk = EmulatedDisk::start(&backing, &at, options).unwrap_or_else(|e| panic!("no emulated disk: {e}"));
            rig.disks.push(disk);
            mkdir(&at.join("target"));
        }
        let sample = emulate::scratch::Options { bytes: 32 << 20, time: Duration::from_secs(4), seed: 1 };
        let report = emulate::scratch::device(&rig.dir.join("d0"), sample).expect("a device");
        rig.device = report.measured.to_string();
        rig
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join("mnt").join(name).join("file")
    }

    /// Mounts the volume with these lines in `[stripes]`.
    pub fn up(&self, stripes: &str) {
        let (dir, device) = (self.dir.display(), &self.device);
        let mut toml =
            format!("name = \"stripes\"\nnamespace = \"{dir}/namespace\"\nstate = \"{dir}/state\"\n[tier.disk]\n");
        for n in 0..DISKS {
            toml += &format!(
                "[[target]]\nname = \"d{n}\"\npath = \"{dir}/d{n}/target\"\ntier = \"disk\"\ndevice = \"{device}\"\n"
            );
        }
        toml += &format!(
            "[layout]\nstripe_count = {DISKS}\nsingle_max = 0\n[mount]\nio = \"direct\"\nthreads = 64\n\
             [health]\ndeadline = \"60s\"\n[stripes]\n{stripes}"
        );
        let path = self.dir.join("volume.toml");
        std::fs::write(&path, toml).expect("volume.toml");
        let at = self.dir.join("mnt");
        entrepot(&["up", path.to_str().expect("UTF-8"), "--at", at.to_str().expect("UTF-8"), "--detach"]);
    }

    pub fn down(&self) {
        entrepot(&["--volume", self.dir.join("volume.toml").to_str().expect("UTF-8"), "down"]);
    }

    /// A file of its own directory, with that striping unit over all disks, or as the volume likes.
    pub fn make(&self, name: &str, unit: Option<u64>, bytes: u64) {
        let path = self.file(name);
        let dir = path.parent().expect("a directory");
        mkdir(dir);
        if let Some(unit) = unit {
            let (count, size) = (format!("stripe_count={DISKS}"), format!("stripe_size={unit}"));
            entrepot(&["layout", "set", dir.to_str().expect("UTF-8"), &count, &size]);
        }
        let mut file = File::create(&path).unwrap_or_else(|e| panic!("cannot make {}: {e}", path.display()));
        let block = vec![0xa5; 1 << 20];
        (0..bytes >> 20).for_each(|_| file.write_all(&block).expect("room on the emulated disks"));
    }

    /// Lays files in turns of so many bytes over all disks.
    pub fn merge(&self, names: &[&str], unit: u64) {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.file(name)).collect();
        let (count, size) = (DISKS.to_string(), unit.to_string());
        let words = ["layout", "merge", "--stripe-count", &count, "--stripe-size", &size];
        let paths = paths.iter().map(|path| path.to_str().expect("UTF-8"));
        entrepot(&words.into_iter().chain(paths).collect::<Vec<_>>());
    }

    pub fn remove(&self, name: &str) {
        drop(std::fs::remove_dir_all(self.dir.join("mnt").join(name)));
    }

    fn layout(&self, name: &str) -> serde_json::Value {
        let path = self.file(name);
        let out = entrepot(&["layout", path.to_str().expect("UTF-8"), "--output", "json"]);
        serde_json::from_slice(&out.stdout).expect("JSON")
    }

    /// Latest decisions about existing files.
    pub fn decisions(&self) -> Vec<String> {
        let toml = self.dir.join("volume.toml");
        let out = entrepot(&["--volume", toml.to_str().expect("UTF-8"), "status", "--output", "json"]);
        let status: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let all = status["stripes"]["decisions"].as_array().cloned().unwrap_or_default();
        let text = all.iter().filter_map(|one| Some((one["at_ms"].as_u64()?, one["text"].as_str()?.to_owned())));
        let text: Vec<_> = text.filter(|(_, text)| text.starts_with("file")).collect();
        let first = text.first().map_or(0, |(at, _)| *at);
        text.iter().map(|(at, text)| format!("{:>5.1} s  {text}", (at - first) as f64 / 1e3)).collect()
    }

    /// The striping units of its copies, in bytes.
    pub fn units(&self, name: &str) -> Vec<u64> {
        let layout = self.layout(name);
        let mirrors = layout["mirrors"].as_array().cloned().unwrap_or_default();
        mirrors.iter().filter_map(|mirror| mirror["segments"].as_array()?.last()?["stripe_size"].as_u64()).collect()
    }

    /// The same, for people.
    pub fn shape(&self, name: &str) -> String {
        let units: Vec<_> = self.units(name).iter().map(|unit| format!("{} KiB", unit >> 10)).collect();
        format!("striping unit at the end: {}", units.join(" and "))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let toml = self.dir.join("volume.toml");
            let mut down = Command::new(env!("CARGO_BIN_EXE_entrepot"));
            drop(down.arg("--volume").arg(toml).args(["down", "--force"]).output());
        }
        for disk in &self.disks {
            drop(disk.unmount().or_else(|_| disk.detach()));
            drop(disk.wait());
        }
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
