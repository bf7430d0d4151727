//! Everything as an ordinary user for themselves: `fusermount3` mounts, and nothing needs root.

use crate::real::{code, err, out};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// Commands of the user; the script ends at the first failure, and takes the volume down in any case.
const DEEDS: &str = r#"
set -eu
cd "$DIR"
E="$DIR/entrepot"
export HOME="$DIR/home" ENTREPOT_VOLUME="$DIR/vol/volume.toml"
test "$(id -u)" != 0
trap 'cd /; "$E" down --force >/dev/null 2>&1 || true' EXIT
"$E" init vol
"$E" up vol/volume.toml --at mnt --detach
grep -q "$DIR/mnt fuse.entrepot" /proc/mounts
cd mnt
head -c 9000000 /dev/urandom > a
cp a ../a.copy
mkdir d; ln a d/link; ln -s a s; mv d/link b; chmod 600 b
cmp b ../a.copy
cmp s ../a.copy
"$E" stage in "file://$DIR/a.copy" in
T=$("$E" layout in --output json | grep -m 1 '"target":' | cut -d '"' -f 4)
"$E" target fail "$T"
cmp in ../a.copy
"$E" status | grep -q 'repair   [1-9][0-9]* stripes lost'
"$E" target restore "$T"
"$E" check --repair
cat > ../job.sh <<JOB
#!/bin/bash
#ENTREPOT -n 1 -t 00:01:00
#STAGEIN entrepot stage in file://$DIR/a.copy $DIR/mnt/input
#STAGEOUT entrepot stage out $DIR/mnt/result file://$DIR/home/result
id -u > $DIR/mnt/result
JOB
"$E" job submit ../job.sh
"$E" job wait 1 || { "$E" job show 1; exit 1; }
test "$(cat "$HOME/result")" = "$(id -u)"
cd ..
"$E" down
! grep -q "$DIR/mnt" /proc/mounts
"$E" up vol/volume.toml --at mnt --detach
cmp mnt/in a.copy
"$E" down
echo all is well
"#;

/// Makes `/dev/fuse` accessible to all users, as on a real Debian, in this mount namespace alone.
const OPEN_DEVICE: &str = r#"
set -eu
mknod "$DIR/fuse" c 10 229
chmod 666 "$DIR/fuse"
mount --bind "$DIR/fuse" /dev/fuse
exec "$@"
"#;

#[test]
fn an_ordinary_user_has_everything() {
    if !["/usr/bin/fusermount3", "/bin/fusermount3"].iter().any(|p| Path::new(p).exists()) {
        eprintln!("skipped: fusermount3 is not installed");
        return;
    }
    let Ok(device) = fs::metadata("/dev/fuse") else {
        eprintln!("skipped: there is no /dev/fuse");
        return;
    };
    let root = rustix::process::geteuid().is_root();
    let open = device.permissions().mode() & 0o006 == 0o006;
    if !root && !open {
        eprintln!("skipped: /dev/fuse is closed to ordinary users");
        return;
    }
    let dir = tempfile::Builder::new().prefix("entrepot-user").tempdir().expect("temp dir");
    for name in ["home", "mnt"] {
        fs::create_dir(dir.path().join(name)).expect("directory");
    }
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_entrepot")).arg(dir.path().join("entrepot")).status();
    assert!(copied.expect("cp").success());
    let deeds = ["sh", "-c", DEEDS];
    let mut command = if root {
        for path in [dir.path().to_path_buf(), dir.path().join("home"), dir.path().join("mnt")] {
            chown(path, Some(65534), Some(65534)).expect("chown");
        }
        let become_her = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"];
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]);
        if !open {
            command.args(["sh", "-c", OPEN_DEVICE, "sh"]);
        }
        command.args(become_her).args(deeds);
        command
    } else {
        let mut command = Command::new(deeds[0]);
        command.args(&deeds[1..]);
        command
    };
    let done = command.env("DIR", dir.path()).env_remove("ENTREPOT_VOLUME").output().expect("it runs");
    if root && (err(&done).starts_with("unshare:") || err(&done).starts_with("mknod:")) {
        eprintln!("skipped: {}", err(&done));
        return;
    }
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    assert!(out(&done).ends_with("all is well\n"), "{}", out(&done));
}
