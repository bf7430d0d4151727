//! Subjects of the measurement: the raw directory, Entrepot with striped and with single-object files, and mergerfs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory to work in, and how to take it down.
pub struct Subject {
    /// The column's heading.
    pub name: &'static str,
    dir: PathBuf,
    end: End,
}

enum End {
    Nothing,
    /// The binary and the volume.toml.
    Entrepot(PathBuf, PathBuf),
    Mergerfs,
}

impl Subject {
    /// Where the workloads make their files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        match &self.end {
            End::Nothing => {}
            End::Entrepot(binary, toml) => {
                let _ = Command::new(binary).arg("--volume").arg(toml).arg("down").status();
            }
            End::Mergerfs => {
                let _ = Command::new("fusermount3").arg("-u").arg(&self.dir).status();
            }
        }
    }
}

/// Every subject that this machine can have, mounted; `beside`: another build of Entrepot.
pub fn all(base: &Path, beside: Option<&Path>) -> Vec<Subject> {
    let raw = base.join("raw");
    make(&raw);
    let mut subjects = vec![Subject { name: "raw", dir: raw, end: End::Nothing }];
    for (binary, names) in [(Some(super::ENTREPOT.as_ref()), VOLUMES), (beside, BESIDE)] {
        let Some(binary) = binary else { continue };
        subjects.push(entrepot_volume(base, binary, names[0], ""));
        subjects.push(single(base, binary, names[1]));
        subjects.push(entrepot_volume(base, binary, names[2], ADAPTING));
    }
    subjects.extend(mergerfs(base));
    subjects
}

/// Volumes of this build: as `entrepot init` proposes it, with files whole on one target, with every mechanism on.
pub const VOLUMES: [&str; 3] = ["striped", "single", "adapting"];
/// Volumes of the other build.
pub const BESIDE: [&str; 3] = ["striped'", "single'", "adapting'"];

/// Lines to add below the sections of the same name.
const ADAPTING: &str = "[layout] segment = \"64MiB\"
[tiering] policy = \"tuned\"
[stripes] mode = \"model\"
[burst] fast = \"fast\"";

/// Makes and mounts a volume as `entrepot init` proposes it, with these settings.
pub fn entrepot_volume(base: &Path, binary: &Path, name: &'static str, settings: &str) -> Subject {
    let home = base.join(format!("volume-{name}"));
    let at = base.join(format!("mount-{name}"));
    make(&at);
    ok(Command::new(binary).arg("init").arg(&home));
    let toml = home.join("volume.toml");
    let mut text = std::fs::read_to_string(&toml).expect("init wrote it");
    for (section, line) in settings.lines().filter_map(|line| line.split_once(' ')) {
        text = text.replace(&format!("\n{section}\n"), &format!("\n{section}\n{line}\n"));
    }
    std::fs::write(&toml, text).expect("it is ours");
    ok(Command::new(binary).arg("up").arg(&toml).arg("--at").arg(&at).arg("--detach"));
    Subject { name, dir: at, end: End::Entrepot(binary.to_path_buf(), toml) }
}

/// A directory whose files the user wants whole on one target.
fn single(base: &Path, binary: &Path, name: &'static str) -> Subject {
    let mut volume = entrepot_volume(base, binary, name, "");
    let dir = volume.dir.join("single");
    make(&dir);
    ok(Command::new(binary).args(["layout", "set"]).arg(&dir).arg("stripe_count=1"));
    volume.dir = dir;
    volume
}

fn mergerfs(base: &Path) -> Option<Subject> {
    let branches: Vec<PathBuf> = (0..4).map(|i| base.join(format!("branch{i}"))).collect();
    branches.iter().for_each(|b| make(b));
    let at = base.join("mount-mergerfs");
    make(&at);
    let list: Vec<_> = branches.iter().map(|b| b.display().to_string()).collect();
    let started = Command::new("mergerfs").args(["-o", "category.create=mfs"]).arg(list.join(":")).arg(&at).status();
    match started {
        Ok(status) if status.success() => Some(Subject { name: "mergerfs", dir: at, end: End::Mergerfs }),
        _ => {
            println!("bench: no mergerfs here (apt-get install mergerfs), its column is left out");
            None
        }
    }
}

fn make(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap_or_else(|e| panic!("cannot make {}: {e}", dir.display()));
}

/// Runs a command that must succeed.
pub fn ok(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(out.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
