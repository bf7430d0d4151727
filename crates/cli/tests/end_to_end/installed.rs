//! Files that `make install` installs: a line of fstab mounts a volume, and systemd accepts the units.

use crate::real::{Volume, code, err};
use std::path::Path;
use std::process::{Command, Output};

fn install(built: &Path, to: &Path) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/install.sh");
    let done = Command::new(script).arg(to).arg("/usr").env("ENTREPOT_BUILT", built).output().expect("runs");
    assert_eq!(code(&done), 0, "{}", err(&done));
}

#[test]
fn a_line_of_fstab_mounts_it_by_the_link_that_is_installed() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root, since mount(8) looks for its helpers in /sbin alone");
    }
    let Some(volume) = Volume::up() else { return };
    let at = volume.at.to_str().expect("UTF-8");
    assert_eq!(code(&volume.run(&["down"])), 0);
    let root = volume.dir.path().join("installed");
    install(volume.binary.parent().expect("a directory"), &root);
    assert_eq!(
        std::fs::read_link(root.join("usr/sbin/mount.entrepot")).expect("a link"),
        Path::new("/usr/bin/entrepot")
    );
    let fstab = volume.dir.path().join("fstab");
    let line = |options: &str| format!("{} {at} entrepot {options} 0 0\n", volume.toml.display());
    // In mounts of its own, where /usr/sbin and /usr/bin have what is installed besides what is there.
    let mounted = |options: &str, then: &str| -> Output {
        std::fs::write(&fstab, line(options)).expect("fstab");
        let script = format!(
            "mount -t overlay overlay -o lowerdir={root}/usr/sbin:/usr/sbin /usr/sbin
             mount -t overlay overlay -o lowerdir={root}/usr/bin:/usr/bin /usr/bin
             mount -a -T {fstab}
             {then}",
            root = root.display(),
            fstab = fstab.display()
        );
        Command::new("unshare").args(["-m", "sh", "-ec", &script]).output().expect("unshare")
    };
    let file = format!(
        "echo written >{at}/f; mount -a -T {}; cat {at}/f; grep ' {at} ' /proc/self/mountinfo; ",
        fstab.display()
    );
    let done = mounted("nosuid,nofail,_netdev", &format!("{file} entrepot down {at}"));
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(code(&done), 0, "{said}{}", err(&done));
    let lines: Vec<_> = said.lines().filter(|line| line.contains("fuse.entrepot")).collect();
    assert!(said.contains("\nwritten\n") && matches!(lines[..], [line] if line.contains("nosuid")), "{said}");
    let refused = mounted("stripes=4", "true");
    assert!(code(&refused) != 0 && err(&refused).contains("`stripes=4` is not understood"), "{}", err(&refused));
    volume.up_again();
}

#[test]
fn systemd_understands_the_units() {
    let dir = tempfile::tempdir().expect("temp dir");
    let built = Path::new(env!("CARGO_BIN_EXE_entrepot")).parent().expect("a directory");
    install(built, dir.path());
    for of in ["system", "user"] {
        let unit = dir.path().join(format!("usr/lib/systemd/{of}/entrepot@.service"));
        let text = std::fs::read_to_string(&unit).expect("a unit");
        assert!(text.contains("ExecStart=/usr/bin/entrepot up "), "{text}");
        // systemd checks that programs exist, and nothing is installed here.
        let here = text.replace("/usr/bin/entrepot", env!("CARGO_BIN_EXE_entrepot"));
        let instance = dir.path().join("entrepot@scratch.service");
        std::fs::write(&instance, here).expect("write");
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", if of == "user" { "--user" } else { "--system" }]).arg(&instance);
        match verify.env("XDG_RUNTIME_DIR", dir.path()).output() {
            Ok(done) => assert!(code(&done) == 0 && err(&done).is_empty(), "{of}: {}", err(&done)),
            Err(error) => return eprintln!("skipped: systemd-analyze: {error}"),
        }
    }
}

#[test]
fn rules_and_boards_are_installed_and_their_tests_are_not() {
    let dir = tempfile::tempdir().expect("temp dir");
    install(Path::new(env!("CARGO_BIN_EXE_entrepot")).parent().expect("a directory"), dir.path());
    let installed = dir.path().join("usr/share/entrepot/monitoring");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    let names = |dir: &Path| -> Vec<_> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).expect("a folder").flatten().map(|file| file.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&installed), ["alerts.yml", "boards"]);
    assert_eq!(names(&installed.join("boards")), names(&from.join("boards")));
    let rules = |folder: &Path| std::fs::read(folder.join("alerts.yml")).expect("rules");
    assert!(rules(&installed) == rules(&from), "as they were tested");
}
