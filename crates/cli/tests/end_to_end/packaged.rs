//! Products of `make deb` and `make rpm`. The deb: from a root without it to a mounted volume, over an upgrade, and
//! back to a root without it.

use crate::real::{code, err, out};
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging(script: &str) -> Command {
    Command::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging")).join(script))
}

/// [S-264]
#[test]
fn the_program_needs_no_library_but_that_of_c() {
    let shown = |flag: &str| {
        let objdump = Command::new("objdump").args([flag, env!("CARGO_BIN_EXE_entrepot")]).output();
        out(&objdump.expect("binutils are there: what is linked here needs them"))
    };
    let private = shown("-p");
    let needed: Vec<_> = private.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim).collect();
    let of_c =
        |name: &&str| ["libc.so.", "libm.so.", "libgcc_s.so.", "ld-linux"].iter().any(|lib| name.starts_with(lib));
    assert!(!needed.is_empty() && needed.iter().all(of_c), "{needed:?}");
    // The required C library is that of the build machine, so the guide's number can only be checked on Debian 12.
    let here = out(&Command::new("getconf").arg("GNU_LIBC_VERSION").output().expect("runs"));
    if here.trim() != "glibc 2.36" {
        return eprintln!("skipped: {} is not that of Debian 12", here.trim());
    }
    let symbols = shown("-T");
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let number = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?.strip_prefix("2.")?;
        number.split('.').next()?.parse::<u32>().ok()
    });
    assert_eq!(versions.max(), Some(34), "the guide says on which C library what Debian 12 builds runs");
}

/// [S-263]
/// [S-299]
#[test]
fn the_rpm_has_what_the_deb_has_and_starts_enables_and_ends_nothing() {
    if let Err(error) = Command::new("rpmbuild").arg("--version").output() {
        return eprintln!("skipped: rpmbuild: {error}");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let built = Path::new(env!("CARGO_BIN_EXE_entrepot")).parent().expect("a directory");
    let mut build = packaging("rpm.sh");
    build.arg(dir.path()).env("ENTREPOT_BUILT", built).env("ENTREPOT_RPM_VERSION", "1.0-1");
    let done = build.env("ENTREPOT_RPM_COMPRESSION", "w0.gzdio").output().expect("runs");
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let package = PathBuf::from(out(&done).trim());
    let root = dir.path().join("root");
    std::fs::create_dir(&root).expect("mkdir");
    let rpm = |words: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&root).args(["--define", "_dbpath /database"]);
        let done = rpm.args(words).output().expect("runs");
        assert_eq!(code(&done), 0, "{words:?}: {}{}", out(&done), err(&done));
        out(&done)
    };
    let shown = package.to_str().expect("UTF-8");
    let needed = rpm(&["-qp", "--requires", shown]);
    assert!(needed.contains("libc.so.6(GLIBC_2."), "{needed}");
    // Scripts of the package: units are reloaded, and at removal the user reads about mounted volumes.
    let scripts = rpm(&["-qp", "--scripts", shown]);
    let called: Vec<_> = scripts.lines().filter(|line| line.contains("systemctl")).collect();
    assert!(matches!(called[..], [one] if one.contains("systemctl daemon-reload")), "{scripts}");
    assert!(!scripts.contains("kill") && scripts.contains("stays mounted"), "{scripts}");
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root, to install it into a root of its own");
    }
    // There is no shell in that root, so its scripts are not run there.
    rpm(&["--nodeps", "--noscripts", "-i", shown]);
    scripts_for_slurm(&root, &package.with_file_name("entrepot-slurm-1.0-1.noarch.rpm"), rpm);
    for file in [
        "usr/bin/entrepot",
        "usr/sbin/mount.entrepot",
        "usr/lib/systemd/system/entrepot@.service",
        "usr/lib/systemd/user/entrepot@.service",
        "usr/share/man/man1/entrepot-up.1.gz",
        "usr/share/man/man8/mount.entrepot.8.gz",
        "usr/share/bash-completion/completions/entrepot",
        "usr/share/entrepot/monitoring/alerts.yml",
        "usr/share/entrepot/python/entrepot/checkpoint.py",
        "usr/share/entrepot/c/entrepot_checkpoint.h",
        "usr/share/doc/entrepot/guide/operate/set-up.md",
        "etc/entrepot",
    ] {
        assert!(root.join(file).symlink_metadata().is_ok(), "{file}");
    }
    let said = Command::new(root.join("usr/bin/entrepot")).arg("--version").output().expect("runs");
    assert!(out(&said).starts_with("entrepot "), "{}", err(&said));
    assert!(!root.join("etc/systemd").exists(), "a unit is enabled");
    std::fs::write(root.join("etc/entrepot/scratch.toml"), "mine").expect("write");
    rpm(&["--nodeps", "--noscripts", "-e", "entrepot"]);
    assert!(!root.join("usr/bin/entrepot").exists() && root.join("etc/entrepot/scratch.toml").exists());
}

/// Checks that the scripts are those that Slurm's plug-ins read, and replace nothing.
fn scripts_for_slurm(root: &Path, package: &Path, rpm: impl Fn(&[&str]) -> String) {
    let conf = root.join("etc/slurm");
    std::fs::create_dir_all(&conf).expect("mkdir");
    std::fs::write(conf.join("burst_buffer.lua"), "-- mine").expect("write");
    let shown = package.to_str().expect("UTF-8");
    assert_eq!(rpm(&["-qp", "--configfiles", shown]).lines().count(), 3);
    assert_eq!(rpm(&["-qp", "--scripts", shown]), "");
    rpm(&["--nodeps", "-i", shown]);
    assert_eq!(std::fs::read_to_string(conf.join("burst_buffer.lua")).expect("read"), "-- mine");
    let script = std::fs::read_to_string(conf.join("burst_buffer.lua.rpmnew")).expect("ours is beside it");
    assert!(script.contains("\"/etc/entrepot/slurm.toml\"") && !script.contains('@'), "{script}");
    assert!(conf.join("entrepot_submit.lua").exists() && !conf.join("job_submit.lua").exists());
    rpm(&["--nodeps", "-e", "entrepot-slurm"]);
    // A modified file stays, as rpm keeps it.
    assert_eq!(std::fs::read_to_string(conf.join("burst_buffer.lua.rpmsave")).expect("kept"), "-- mine");
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
/// [S-299]
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
