//! A volume that autofs mounts at the first access and unmounts when it is idle.

use crate::real::{code, err, out};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// In mounts of its own, where `mount.entrepot` is beside the system's programs. The automounter's own group of
/// processes is let through while a place is being mounted, so it is not that of this shell.
const SCRIPT: &str = r#"
mount -t overlay -o "lowerdir=$1/sbin:/usr/sbin" overlay /usr/sbin || { echo no overlay; exit 77; }
mkdir "$1/auto"
echo "$1/auto file:$1/map --timeout=2" >"$1/master"
echo "scratch -fstype=entrepot :$1/link.toml" >"$1/map"
setsid automount --foreground --pid-file "$1/pid" "$1/master" &
automount=$!
for _ in $(seq 300); do ! grep -q " $1/auto autofs " /proc/self/mounts || break; sleep 0.1; done
grep -q " $1/auto autofs " /proc/self/mounts || { echo no automounter; kill $automount; exit 77; }
timeout 120 sh -c "echo data >'$1/auto/scratch/f' && cat '$1/auto/scratch/f'" || echo not mounted
for _ in $(seq 600); do grep -q " $1/auto/scratch fuse.entrepot " /proc/self/mounts || break; sleep 0.1; done
! grep " $1/auto/scratch fuse.entrepot " /proc/self/mounts || echo still mounted
timeout 120 cat "$1/auto/scratch/f" || echo not mounted again
umount "$1/auto/scratch"
kill $automount
wait
"#;

/// [S-322]
#[test]
fn autofs_mounts_and_unmounts_a_volume_on_demand() {
    let has = |program: &str| Command::new("which").arg(program).output().is_ok_and(|found| found.status.success());
    if !rustix::process::geteuid().is_root() || !has("automount") || !fs::exists("/dev/autofs").is_ok_and(|there| there)
    {
        return eprintln!("skipped: needs root, automount and /dev/autofs");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let at = dir.path();
    let binary = env!("CARGO_BIN_EXE_entrepot");
    let volume = Command::new(binary).arg("init").arg(at.join("v")).output().expect("runs");
    assert_eq!(code(&volume), 0, "{}", err(&volume));
    fs::create_dir(at.join("sbin")).expect("directory");
    symlink(binary, at.join("sbin/mount.entrepot")).expect("link");
    symlink(at.join("v/volume.toml"), at.join("link.toml")).expect("link");
    let mut script = Command::new("unshare");
    script.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]).arg(at);
    let done = script.output().expect("runs");
    if code(&done) == 77 {
        return eprintln!("skipped: {}{}", out(&done), err(&done));
    }
    assert_eq!(out(&done), "data\ndata\n", "{}", err(&done));
}
