//! Hostile names, links, scripts, URIs and users: nothing outside the mount is touched, and nothing that is not theirs.

use crate::real::{Volume, code, err, noise, out};
use crate::server::{self, Nginx};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("dir");
    let mut names: Vec<_> = entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_manifest_does_not_climb_out() {
    let Some(volume) = Volume::up() else { return };
    let source = volume.dir.path().join("source");
    fs::write(&source, b"x").expect("write");
    let uri = format!("file://{}", source.display());
    let outside = volume.dir.path().join("outside");
    let manifest = volume.dir.path().join("manifest");
    for path in ["../outside", "a/../../outside", outside.to_str().expect("UTF-8"), "a\u{7}b", "..", "dir/"] {
        fs::write(&manifest, format!("{uri} fine\n{uri} {path}\n")).expect("write");
        let refused = volume.run(&["stage", "in", "--manifest", manifest.to_str().expect("UTF-8")]);
        assert_eq!(code(&refused), 2, "{path:?}: {}", err(&refused));
        assert!(err(&refused).contains("manifest line 2"), "{path:?}: {}", err(&refused));
        assert!(!outside.exists() && names_in(&volume.at).is_empty(), "{path:?}: nothing was changed");
    }
    // A name with a line's end in it cannot be said in a manifest, and not in a URI either.
    fs::write(&manifest, format!("{uri}%0Aevil fine\n")).expect("write");
    assert_ne!(code(&volume.run(&["stage", "in", "--manifest", manifest.to_str().expect("UTF-8")])), 0);
    assert!(names_in(&volume.at).is_empty());
}

#[test]
fn links_do_not_lead_out() {
    let Some(volume) = Volume::up() else { return };
    let (outside, source) = (volume.dir.path().join("outside"), volume.dir.path().join("source"));
    fs::create_dir(&outside).expect("directory");
    fs::write(outside.join("secret"), b"secret").expect("write");
    fs::write(&source, b"x").expect("write");
    let uri = format!("file://{}", source.display());
    symlink(&outside, volume.at.join("way")).expect("link");
    symlink(outside.join("secret"), volume.at.join("leak")).expect("link");
    symlink("../../outside", volume.at.join("climb")).expect("link");

    for to in ["way/new", "climb/new"] {
        assert_ne!(code(&volume.run(&["stage", "in", &uri, to])), 0, "{to}");
    }
    assert_eq!(names_in(&outside), ["secret"], "nothing was written there");
    let home = volume.dir.path().join("home");
    for from in ["leak", "way/secret"] {
        let refused = volume.run(&["stage", "out", from, &format!("file://{}", home.display())]);
        assert_ne!(code(&refused), 0, "{from}: {}", out(&refused));
        assert!(!home.exists(), "{from}");
    }
    let replaced = volume.run(&["stage", "in", "--force", &uri, "leak"]);
    assert!(err(&replaced).contains("is not in the volume"), "{}", err(&replaced));
    assert_eq!(fs::read(outside.join("secret")).expect("read"), b"secret");
    // What is the volume's own is no source and no destination.
    volume.ok(&["stage", "in", &uri, "fine"]);
    let object = fs::canonicalize(volume.dir.path().join("vol/state/state.db")).expect("path");
    assert_ne!(code(&volume.run(&["stage", "in", &format!("file://{}", object.display()), "state"])), 0);
    assert_ne!(code(&volume.run(&["stage", "out", "fine", &format!("file://{}", object.display())])), 0);
}

#[test]
fn a_script_is_not_a_shell_line() {
    let Some(volume) = Volume::up() else { return };
    let marker = volume.dir.path().join("marker");
    let script = volume.dir.path().join("job.sh");
    let mark = marker.display();
    let directives = [
        format!("cp $(touch {mark}) {}/x", volume.at.display()),
        format!("cp /etc/hostname {}/x; touch {mark}", volume.at.display()),
        format!("cp /etc/hostname {}/x | touch {mark}", volume.at.display()),
        format!("cp /etc/hostname {}/x && touch {mark}", volume.at.display()),
        format!("cp `touch {mark}` {}/x", volume.at.display()),
        format!("cp /etc/hostname {}/x > {mark}", volume.at.display()),
    ];
    for directive in &directives {
        fs::write(&script, format!("#!/bin/bash\n#STAGEIN {directive}\ntrue\n")).expect("write");
        let submitted = volume.run(&["job", "submit", "--name", "$(touch x);", script.to_str().expect("UTF-8")]);
        if code(&submitted) == 0 {
            // Taken as words, it runs as words: and then it fails, for there are no such files.
            let id = out(&submitted).trim().trim_start_matches("job ").to_string();
            volume.run(&["job", "wait", &id]);
        }
        assert!(!marker.exists(), "{directive}");
    }
}

/// Whether the bytes are anywhere in the files below a directory, or in their attributes.
fn is_anywhere(secret: &[u8], dir: &Path) -> Option<std::path::PathBuf> {
    for entry in fs::read_dir(dir).expect("dir") {
        let path = entry.expect("entry").path();
        let kind = fs::symlink_metadata(&path).expect("stat").file_type();
        let mut bytes = if kind.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
        for name in ["user.entrepot.source", "user.entrepot.layout"] {
            let mut value = vec![0; 65536];
            let len = rustix::fs::lgetxattr(&path, name, &mut value[..]).unwrap_or(0);
            bytes.extend_from_slice(&value[..len]);
        }
        if bytes.windows(secret.len()).any(|w| w == secret) {
            return Some(path);
        }
        if kind.is_dir()
            && let Some(found) = is_anywhere(secret, &path)
        {
            return Some(found);
        }
    }
    None
}

#[test]
fn secrets_are_nowhere() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    fs::write(nginx.root().join("f"), server::data(5 << 20, 1)).expect("write");
    let secret = "hush-hush-7461";
    let uri = nginx.uri("f").replace("//", &format!("//user:{secret}@"));
    for words in [&["stage", "in", &uri, "f"][..], &["source", "set", "g", &uri], &["stage", "out", "g", &uri]] {
        fs::write(volume.at.join("g"), b"x").expect("write");
        let refused = volume.run(words);
        assert_ne!(code(&refused), 0, "{words:?}");
        assert!(!err(&refused).contains(secret) && !out(&refused).contains(secret), "{}", err(&refused));
    }
    // The right way: a file of hers. It is used, also at recovery, and what is in it goes nowhere.
    let credentials = volume.dir.path().join("credentials.toml");
    fs::write(&credentials, format!("[\"*\"]\nuser = \"user\"\npassword = \"{secret}\"\n")).expect("write");
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o644)).expect("chmod");
    let words = ["stage", "in", &nginx.uri("f"), "f", "--credentials", credentials.to_str().expect("UTF-8")];
    let refused = volume.run(&words);
    assert!(err(&refused).contains("chmod 600"), "{}", err(&refused));
    fs::set_permissions(&credentials, fs::Permissions::from_mode(0o600)).expect("chmod");
    volume.ok(&words);
    volume.ok(&["target", "fail", "fast0"]);
    volume.ok(&["check", "--repair"]);
    let vol = volume.dir.path().join("vol");
    assert_eq!(is_anywhere(secret.as_bytes(), &vol), None);
    assert_eq!(is_anywhere(secret.as_bytes(), &volume.at), None);
    assert!(is_anywhere(b"entrepot", &vol).is_some(), "the search finds what is there");
}

#[test]
fn a_user_reaches_only_what_is_hers() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let Some(volume) = Volume::up() else { return };
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    let (closed, open) = (volume.at.join("closed"), volume.at.join("open"));
    for (dir, mode) in [(&closed, 0o755), (&open, 0o1777)] {
        fs::create_dir(dir).expect("directory");
        chmod(dir, mode);
    }
    fs::write(closed.join("mine"), noise(1 << 20)).expect("write");
    chmod(&closed.join("mine"), 0o600);
    let (source, home) = (volume.dir.path().join("source"), volume.dir.path().join("home"));
    fs::write(&source, noise(200_000)).expect("write");
    fs::create_dir(&home).expect("directory");
    chmod(&home, 0o777);
    let uri = format!("file://{}", source.display());

    let denied = volume.run_as_nobody(&["stage", "in", &uri, "closed/new"]);
    assert_ne!(code(&denied), 0, "she may not write there: {}", err(&denied));
    assert_eq!(names_in(&closed), ["mine"]);
    let denied = volume.run_as_nobody(&["stage", "in", "--force", &uri, "closed/mine"]);
    assert_ne!(code(&denied), 0, "nor replace there");
    let shadow = volume.run_as_nobody(&["stage", "in", "file:///etc/shadow", "open/shadow"]);
    assert_ne!(code(&shadow), 0, "nor read what she may not read");
    let stolen = format!("file://{}/stolen", home.display());
    assert_ne!(code(&volume.run_as_nobody(&["stage", "out", "closed/mine", &stolen])), 0);
    assert!(names_in(&home).is_empty() && names_in(&open).is_empty());
    let denied = volume.run_as_nobody(&["source", "set", "closed/mine", &uri]);
    assert_ne!(code(&denied), 0, "{}", out(&denied));

    let staged = volume.run_as_nobody(&["stage", "in", &uri, "open/hers"]);
    assert_eq!(code(&staged), 0, "{}", err(&staged));
    let stat = fs::metadata(open.join("hers")).expect("stat");
    assert_eq!((stat.uid(), stat.gid()), (65534, 65534), "what she stages in is hers");

    let vol = volume.dir.path().join("vol");
    for dir in ["state", "namespace", "targets/fast0", "targets/fast0/objects"].map(|d| vol.join(d)) {
        let listed = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", "ls"])
            .arg(&dir)
            .output()
            .expect("setpriv");
        assert_ne!(code(&listed), 0, "{} is open to others: {}", dir.display(), out(&listed));
    }
}
