//! Hostile names, links, scripts, URIs and users: nothing outside the mount is touched, and nothing that is not theirs.

use crate::programs;
use crate::real::{Volume, code, err, noise, out};
use crate::server::{self, Nginx};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

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
    // A manifest cannot contain a name with a line's end, and neither can a URI.
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
    // Files of the volume itself are no source and no destination.
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
        let listed = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", "ls"])
            .arg(&dir)
            .output()
            .expect("setpriv");
        assert_ne!(code(&listed), 0, "{} is open to others: {}", dir.display(), out(&listed));
    }
}

/// Runs `work` on a thread of user and group 65534.
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let run = move || {
        let (uid, gid) = (rustix::process::Uid::from_raw(65534), rustix::process::Gid::from_raw(65534));
        rustix::thread::set_thread_groups(&[]).expect("groups");
        rustix::thread::set_thread_res_gid(gid, gid, gid).expect("group");
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("user");
        work()
    };
    std::thread::spawn(run).join().expect("no panic")
}

/// Results of setting a file's source through the attribute, over threads of the mount that have created something.
fn set_by_attribute(open: &Path, uri: &str) -> Vec<Option<i32>> {
    let (open, uri) = (open.to_path_buf(), uri.to_owned());
    let set = move || {
        let path = open.join("probe");
        let file = fs::File::create(&path).expect("created");
        file.set_len(SECRET_BYTES.len() as u64).expect("length");
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(&path, "user.entrepot.source", uri.as_bytes(), flags);
        fs::remove_file(&path).expect("removed");
        set.err().map(|error| error.raw_os_error())
    };
    // More rounds than the mount has threads.
    as_nobody(move || (0..64).map(|_| set()).collect())
}

/// Mounts it with the capabilities that systemd's unit leaves to the daemon.
fn up_bounded(volume: &Volume) {
    let unit = include_str!("../../../../packaging/entrepot@.service");
    let lines = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = lines.flat_map(str::split_whitespace);
    let names: String = names.map(|name| name.to_lowercase().replace("cap_", ",+")).collect();
    let mut command = Command::new("setpriv");
    command.arg(format!("--bounding-set=-all{names}")).arg(&volume.binary);
    command.args(["up", volume.toml.to_str().expect("UTF-8"), "--detach", "--at"]).arg(&volume.at).current_dir("/");
    let up = command.output().expect("setpriv runs");
    assert_eq!(code(&up), 0, "{}", err(&up));
}

const SECRET_BYTES: &[u8] = b"hush, hush!";

/// [S-340]
#[test]
fn no_thread_of_the_daemon_lends_its_rights_to_a_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let Some(volume) = Volume::up() else { return };
    volume.ok(&["down"]);
    up_bounded(&volume);
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    let (open, closed) = (volume.at.join("open"), volume.dir.path().join("closed"));
    for (dir, mode) in [(&open, 0o1777), (&closed, 0o700)] {
        fs::create_dir(dir).expect("directory");
        chmod(dir, mode);
    }
    fs::write(closed.join("secret"), SECRET_BYTES).expect("write");
    chmod(&closed.join("secret"), 0o600);
    let uri = |name: &str| format!("file://{}/{name}", closed.display());

    let refused = vec![Some(rustix::io::Errno::INVAL.raw_os_error()); 64];
    assert_eq!(set_by_attribute(&open, &uri("missing")), refused);
    assert_eq!(set_by_attribute(&open, &uri("secret")), refused, "it does not show that there is such a file");

    let hers = open.join("hers");
    as_nobody(move || fs::write(hers, [0; SECRET_BYTES.len()]).expect("written"));
    let said = |name: &str| {
        let set = volume.run_as_nobody(&["source", "set", "open/hers", &uri(name)]);
        (code(&set), err(&set).replace(name, "NAME"))
    };
    assert_eq!(said("secret"), said("missing"));
    assert_ne!(said("secret").0, 0);

    // A job's command has no more than its user, and may use setuid programs as she may.
    let script = open.join("job.sh");
    fs::write(&script, "#!/bin/sh\n#ENTREPOT -n 1 -t 00:01:00\ncat /proc/self/status\n").expect("script");
    let done = volume.run_as_nobody(&["job", "submit", "--wait", "open/job.sh"]);
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let status = out(&volume.run_as_nobody(&["job", "log", "1"]));
    let has = |line: &str| status.lines().any(|said| said == line);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(has(&format!("{set}:\t0000000000000000")), "{set}: {status}");
    }
    assert!(has("NoNewPrivs:\t0") && has("Uid:\t65534\t65534\t65534\t65534"), "{status}");
}

/// [S-341]
#[test]
fn a_daemon_of_another_user_gets_no_byte() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let Some(volume) = Volume::up() else { return };
    let open = volume.dir.path().join("open");
    fs::create_dir(&open).expect("directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).expect("chmod");
    let theirs = open.join("socket");
    let bound = theirs.clone();
    let listener = as_nobody(move || UnixListener::bind(bound).expect("bound"));
    let socket = volume.toml.with_file_name("state/control.sock");
    let aside = socket.with_file_name("aside");
    fs::rename(&socket, &aside).expect("renamed");
    fs::rename(&theirs, &socket).expect("renamed");

    let mut clients = vec![volume.run_in(Path::new("/"), &["job", "list"]), volume.run(&["down", "--force"])];
    if let Some(python) = programs::python() {
        let ask = "import sys\nfrom entrepot.control import find\nfind(sys.argv[1]).ask('status', {}, 60)";
        let mut command = Command::new(python);
        command.args(["-B", "-c", ask]).arg(&volume.at).env("PYTHONPATH", programs::sources().join("python"));
        clients.push(command.current_dir("/").output().expect("python3"));
    }
    if let Some(calls) = programs::built("cc", "calls", volume.dir.path()) {
        let mut command = Command::new(calls);
        command.args(["interval", "wave"]).arg(&volume.at).current_dir("/");
        clients.push(command.output().expect("it runs"));
    }
    listener.set_nonblocking(true).expect("a listener");
    let (mut connections, mut bytes) = (0, Vec::new());
    while let Ok((mut stream, _)) = listener.accept() {
        connections += 1;
        stream.set_nonblocking(false).expect("a stream");
        stream.read_to_end(&mut bytes).expect("its client has ended");
    }
    fs::rename(&aside, &socket).expect("renamed");
    for client in &clients {
        let said = out(client) + &err(client);
        assert!(said.contains("user 65534 listens on") && !client.status.success(), "{said}");
    }
    assert_eq!((connections, bytes.len()), (clients.len(), 0), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!((code(&clients[0]), code(&clients[1])), (4, 4));
    volume.ok(&["status"]);
}
