//! What `make deb` makes: from a root without it to a mounted volume, over an upgrade, and back to a root without it.

use crate::real::{code, err, out};
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging(script: &str) -> Command {
    Command::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging")).join(script))
}

/// The programs of this build as a package.
fn package(dir: &Path, version: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_entrepot")).parent().expect("a directory");
    let mut build = packaging("deb.sh");
    build.arg(dir).env("ENTREPOT_BUILT", built).env("ENTREPOT_DEB_VERSION", version);
    let done = build.env("ENTREPOT_DEB_COMPRESSION", "none").output().expect("runs");
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let mut names = std::fs::read_dir(dir).expect("packages").map(|entry| entry.expect("entry").path());
    let of_version = |path: &PathBuf| path.to_string_lossy().contains(&format!("/entrepot_{version}_"));
    names.find(of_version).expect("the package has its version in its name")
}

/// [S-228]
/// [S-260]
#[test]
fn three_commands_after_its_installation_a_volume_is_mounted_and_stays_so() {
    if let Err(error) = Command::new("dpkg-deb").arg("--version").output() {
        return eprintln!("skipped: dpkg-deb: {error}");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let (one, two) = (package(dir.path(), "1.0-1"), package(dir.path(), "1.1-1"));
    let fields = Command::new("dpkg-deb").arg("--field").arg(&one).args(["Depends", "Recommends"]).output();
    let fields = out(&fields.expect("runs"));
    assert!(fields.contains("Depends: libc6 (>= 2.") && fields.contains("Recommends: fuse3"), "{fields}");
    let done = packaging("deb-test.sh").args([&one, &two]).output().expect("runs");
    if code(&done) == 77 {
        return eprintln!("{}", out(&done).trim_end());
    }
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let said = out(&done);
    let stays = said.matches("entrepot: /mnt/scratch stays mounted, ").count();
    assert_eq!((stays, said.ends_with("nothing but what the operator made\n")), (2, true), "{said}");
}
