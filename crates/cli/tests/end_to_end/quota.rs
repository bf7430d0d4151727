//! Quotas: refusals by payer and their exceptions, the grace of soft limits, and persistence.

use crate::real::{Volume, code, err, out, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Output};

/// The user `nobody` of `run_as_nobody`, and another one.
const MINE: u32 = 65534;
const OTHER: u32 = 65533;

/// A volume with a directory for everybody, if this is root, who alone can be several users.
fn volume() -> Option<Volume> {
    let volume = Volume::up()?;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to be other users");
        return None;
    }
    for at in [volume.at.clone(), volume.at.join("d")] {
        fs::create_dir_all(&at).expect("directory");
        fs::set_permissions(&at, PermissionsExt::from_mode(0o777)).expect("chmod");
    }
    Some(volume)
}

/// A shell script in the mount as a user, who is in a group of the same number alone.
fn sh(volume: &Volume, uid: u32, script: &str) -> Output {
    let id = uid.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--", "sh", "-ec", script]);
    command.current_dir(&volume.at).env("LC_ALL", "C").output().expect("setpriv runs")
}

fn does(volume: &Volume, uid: u32, script: &str) -> String {
    let done = sh(volume, uid, script);
    assert!(done.status.success(), "{script}: {}", err(&done));
    out(&done)
}

/// Checks that a script fails as every system call does beyond a quota.
fn is_refused(volume: &Volume, uid: u32, script: &str) {
    let done = sh(volume, uid, script);
    assert!(!done.status.success() && err(&done).contains("Disk quota exceeded"), "{script}: {}", err(&done));
}

/// Appends kibibytes in one write.
fn more(kib: u32, file: &str) -> String {
    format!("dd if=/dev/zero of={file} bs={kib}K count=1 oflag=append conv=notrunc status=none")
}

/// How something stands, of bytes or files.
fn row(volume: &Volume, of: &[&str], resource: &str) -> Value {
    volume.json(&[&["quota", "show"], of].concat())["rows"][0][resource].clone()
}

/// Waits until it is known what there is.
fn counted(volume: &Volume, of: &[&str]) {
    until("all names are looked at", || row(volume, of, "bytes")["state"] != "unknown");
}

fn set(volume: &Volume, of: &[&str], limits: &[&str]) {
    volume.ok(&[&["quota", "set"], of, limits].concat());
    counted(volume, of);
}

const USER: [&str; 2] = ["--user", "65534"];

/// [S-300] [S-374]
#[test]
fn beyond_a_hard_limit_nothing_grows_and_all_else_goes_on() {
    let Some(volume) = volume() else { return };
    does(&volume, MINE, &more(600, "d/old"));
    does(&volume, OTHER, &more(600, "d/others"));
    set(&volume, &USER, &["--hard", "1000KiB"]);
    assert_eq!(
        row(&volume, &USER, "bytes")["used"],
        600 << 10,
        "what was there before counts, and only the user's own"
    );
    does(&volume, MINE, &more(300, "d/new"));
    is_refused(&volume, MINE, &more(101, "d/new"));
    is_refused(&volume, MINE, &more(101, "d/another"));
    is_refused(&volume, MINE, "truncate -s 500K d/new");
    is_refused(&volume, MINE, "fallocate -l 500K d/new");
    let sizes = "stat -c %s d/old d/new d/another";
    assert_eq!(does(&volume, MINE, sizes), "614400\n307200\n0\n", "all of them are as they were");
    does(
        &volume,
        MINE,
        "cmp -n 614400 d/old /dev/zero; dd if=/dev/urandom of=d/old bs=600K count=1 conv=notrunc status=none",
    );
    does(&volume, OTHER, &more(5000, "d/others"));
    does(&volume, MINE, &more(100, "d/new"));
    assert_eq!(row(&volume, &USER, "bytes")["state"], "full");
    let told = out(&volume.run_as_nobody(&["quota"]));
    assert!(told.contains("user nobody has reached the hard limit of bytes"), "{told}");

    // Freed bytes make room: by truncation, by removal, and for an open file when it is closed.
    does(&volume, MINE, &format!("truncate -s 100K d/old; {}", more(500, "d/new")));
    does(&volume, MINE, &format!("rm d/new d/another; {}", more(900, "d/big")));
    is_refused(&volume, MINE, &format!("exec 3<d/big; rm d/big; {}", more(100, "d/late")));
    does(&volume, MINE, &more(900, "d/late"));
    assert_eq!(row(&volume, &USER, "bytes")["used"], 1000 << 10);
    let metrics = out(&volume.run(&["stats", "--prometheus"]));
    let now = |name: &str, label: &str| {
        let found = metrics.lines().find(|line| line.starts_with(name) && line.contains(label)).expect("a line");
        found.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok())
    };
    assert_eq!(now("entrepot_quota_full{", ""), Some(1.0), "{metrics}");
    assert_eq!(now("entrepot_quota_fullest_ratio{", "resource=\"bytes\""), Some(1.0), "{metrics}");
    assert!(out(&volume.run(&["status"])).contains("1 at a hard limit"));
    let refused = metrics.lines().find(|line| line.starts_with("entrepot_quota_refused_total{")).expect("a line");
    assert!(refused.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()) >= Some(5.0), "{refused}");
    does(&volume, MINE, "rm d/late d/old");
    assert_eq!(
        (row(&volume, &USER, "bytes")["used"].clone(), row(&volume, &USER, "files")["used"].clone()),
        (0.into(), 0.into())
    );
    // Space beyond the end has no length that could be counted.
    does(&volume, MINE, &more(100, "d/kept"));
    let beyond = "fallocate --keep-size -l 800K";
    let kept = sh(&volume, MINE, &format!("{beyond} d/kept"));
    assert!(!kept.status.success() && err(&kept).contains("support"), "{}", err(&kept));
    does(&volume, MINE, "fallocate --keep-size -l 100K d/kept; test $(stat -c %b d/kept) -le 400");
    does(&volume, OTHER, &format!("{beyond} d/others"));
}

/// [S-301]
#[test]
fn a_soft_limit_warns_and_after_the_grace_it_holds_until_one_is_below_it() {
    let Some(volume) = volume() else { return };
    set(&volume, &USER, &["--soft", "100KiB", "--hard", "1MiB", "--grace", "2s"]);
    does(&volume, MINE, &more(90, "d/a"));
    does(&volume, MINE, &more(90, "d/b"));
    until("it is seen", || row(&volume, &USER, "bytes")["state"] != "within");
    let told = volume.json(&["status"])["events"].to_string();
    assert!(
        told.contains("user 65534 has 180 KiB, more than the soft limit of 100 KiB, and may grow for 2 s"),
        "{told}"
    );
    let own = out(&volume.run_as_nobody(&["events"]));
    assert!(own.contains("more than the soft limit"), "the user is told, too: {own}");
    until("the grace is over", || row(&volume, &USER, "bytes")["state"] == "expired");
    is_refused(&volume, MINE, &more(1, "d/a"));
    does(&volume, MINE, "dd if=/dev/urandom of=d/a bs=90K count=1 conv=notrunc status=none; cat d/b > /dev/null");
    let shown = out(&volume.run_as_nobody(&["quota"]));
    assert!(shown.contains("for longer than the grace: remove some to be able to write again"), "{shown}");
    assert!(out(&volume.run(&["status"])).contains("1 quota, 1 over a soft limit, 1 of these refused"));
    // Below the limit everything is as before, at once.
    does(&volume, MINE, &format!("rm d/b; {}", more(100, "d/b")));
    until("the grace begins anew", || row(&volume, &USER, "bytes")["state"] == "over");
}

/// [S-302]
#[test]
fn a_directory_with_a_limit_is_like_a_file_system_of_its_own() {
    let Some(volume) = volume() else { return };
    let tree = ["--directory", "d"];
    does(&volume, OTHER, &format!("mkdir d/sub e; {}; {}", more(50, "d/sub/a"), more(50, "e/x")));
    set(&volume, &tree, &["--hard", "300KiB", "--files-hard", "6"]);
    let used =
        |volume: &Volume| (row(volume, &tree, "bytes")["used"].clone(), row(volume, &tree, "files")["used"].clone());
    assert_eq!(used(&volume), ((50 << 10).into(), 2.into()));
    does(&volume, MINE, &more(200, "d/m"));
    is_refused(&volume, OTHER, &more(100, "d/sub/a"));
    does(&volume, OTHER, &more(5000, "e/x"));
    let renamed = |from: &str, to: &str| rustix::fs::rename(volume.at.join(from), volume.at.join(to));
    assert_eq!(renamed("d/m", "m"), Err(rustix::io::Errno::XDEV), "as over the border of a file system");
    does(&volume, 0, "mv d/m e/m; mv e/m d/m");
    is_refused(&volume, 0, "mv e/x d/x");
    assert!(
        !volume.at.join("d/x").exists() || fs::metadata(volume.at.join("e/x")).expect("it is there").len() > 5_000_000
    );
    assert_eq!(renamed("d/m", "d/sub/m"), Ok(()), "inside it is a rename");
    assert_eq!(renamed("d", "d2"), Err(rustix::io::Errno::BUSY), "it has a limit");
    let link = rustix::fs::link(volume.at.join("d/sub/m"), volume.at.join("linked"));
    assert_eq!(link, Err(rustix::io::Errno::XDEV));
}

/// [S-303]
#[test]
fn limits_of_files_and_groups_count_all_that_has_an_inode() {
    let Some(volume) = volume() else { return };
    let group = ["--group", "65533"];
    set(&volume, &group, &["--files-hard", "4", "--hard", "1MiB"]);
    does(&volume, OTHER, "mkdir d/x; ln -s x d/link; mkfifo d/pipe; : > d/file; ln d/file d/again");
    for one in [": > d/five", "mkdir d/five", "ln -s x d/five", "mkfifo d/five"] {
        is_refused(&volume, OTHER, one);
    }
    does(&volume, OTHER, ": > d/file; rm d/again d/pipe; : > d/five");
    is_refused(&volume, OTHER, ": > d/six");
    does(&volume, OTHER, "mv d/five d/file; rmdir d/x; rm d/link");
    assert_eq!(row(&volume, &group, "files")["used"], 1);
    // A file that is given away counts for its new owner.
    set(&volume, &USER, &["--hard", "1MiB"]);
    does(&volume, OTHER, &more(700, "d/file"));
    chown(volume.at.join("d/file"), Some(MINE), Some(MINE)).expect("chown");
    let bytes = |of: &[&str]| row(&volume, of, "bytes")["used"].clone();
    assert_eq!((bytes(&group), bytes(&USER)), (0.into(), (700 << 10).into()));
    does(&volume, OTHER, &more(700, "d/mine"));
    is_refused(&volume, MINE, &more(700, "d/file"));
    chown(volume.at.join("d/mine"), Some(MINE), None).expect("root may give anything away");
    assert_eq!(bytes(&USER), 1400 << 10);
    is_refused(&volume, MINE, &more(1, "d/file"));
}

/// [S-304]
#[test]
fn a_restart_keeps_limits_and_what_is_used_and_a_backup_has_them() {
    let Some(volume) = volume() else { return };
    set(&volume, &USER, &["--soft", "100KiB", "--hard", "1MiB", "--grace", "1s"]);
    set(&volume, &["--directory", "d"], &["--files-hard", "7"]);
    does(&volume, MINE, &more(200, "d/a"));
    until("the grace is over", || row(&volume, &USER, "bytes")["state"] == "expired");
    let since = row(&volume, &USER, "bytes")["over_since_ms"].clone();
    volume.ok(&["down"]);
    volume.up_again();
    // From the first moment on, before any name is looked at.
    is_refused(&volume, MINE, &more(1, "d/a"));
    let again = row(&volume, &USER, "bytes");
    assert_eq!(
        (&again["used"], &again["hard"], &again["over_since_ms"]),
        (&(200 << 10).into(), &(1 << 20).into(), &since)
    );
    assert_eq!(row(&volume, &["--directory", "d"], "files")["hard"], 7);
    // A killed daemon lost its last counts; a look at all names restores them.
    volume.ok(&["quota", "set", "--user", "65534", "--soft", "none"]);
    does(&volume, MINE, &more(500, "d/b"));
    volume.kill();
    volume.up_again();
    until("all names are looked at", || row(&volume, &USER, "bytes")["used"] == 700 << 10);
    is_refused(&volume, MINE, &more(500, "d/b"));
    let backup = volume.dir.path().join("backup");
    volume.ok(&["state", "dump", backup.to_str().expect("UTF-8")]);
    let text = fs::read_to_string(&backup).expect("the backup");
    assert!(text.contains("user:65534") && text.contains("directory:d"), "{text}");
    volume.ok(&["quota", "remove", "--user", "65534"]);
    does(&volume, MINE, &more(2000, "d/b"));
    assert_eq!(code(&volume.run(&["quota", "show", "--user", "65534"])), 5);
}

/// [S-305]
#[test]
fn users_see_their_own_quota_and_set_none() {
    let Some(volume) = volume() else { return };
    fs::create_dir(volume.at.join("closed")).expect("directory");
    fs::set_permissions(volume.at.join("closed"), PermissionsExt::from_mode(0o700)).expect("chmod");
    fs::create_dir(volume.at.join("closed/in")).expect("directory");
    for of in [
        ["--user", "65534"],
        ["--user", "65533"],
        ["--group", "65533"],
        ["--directory", "d"],
        ["--directory", "closed/in"],
    ] {
        set(&volume, &of, &["--hard", "1MiB"]);
    }
    let refused = volume.run_as_nobody(&["quota", "set", "--user", "65534", "--hard", "none"]);
    assert_eq!(code(&refused), 4, "{}", err(&refused));
    assert_eq!(code(&volume.run_as_nobody(&["quota", "remove", "--user", "65534"])), 4);
    assert_eq!(code(&volume.run_as_nobody(&["quota", "list"])), 4);
    assert_eq!(code(&volume.run_as_nobody(&["quota", "show", "--user", "65533"])), 4);
    let own = volume.run_as_nobody(&["quota", "--output", "json"]);
    let own: Value = serde_json::from_slice(&own.stdout).expect("json");
    let named: Vec<_> = own["rows"].as_array().expect("rows").iter().map(|row| row["of"].as_str()).collect();
    assert_eq!(named, [Some("user"), Some("directory")], "{own}");
    assert_eq!(volume.json(&["quota", "list"])["rows"].as_array().map(Vec::len), Some(5));
    let wrong = |words: &[&str], expected: i32, word: &str| {
        let told = volume.run(&[&["quota", "set"], words].concat());
        assert!(code(&told) == expected && err(&told).contains(word), "{words:?}: {}", err(&told));
    };
    wrong(&["--user", "65534"], 2, "no limit is named");
    wrong(&["--user", "65534", "--soft", "2MiB"], 2, "above the hard one");
    wrong(&["--user", "65534", "--hard", "none"], 2, "no limit is left");
    wrong(&["--user", "65534", "--hard", "much"], 2, "give a size");
    wrong(&["--user", "no-such-user", "--hard", "1MiB"], 5, "there is no user");
    wrong(&["--directory", "nothere", "--hard", "1MiB"], 5, "there is no directory");
    assert_eq!(row(&volume, &USER, "bytes")["hard"], 1 << 20, "nothing was changed");
}

/// [S-306] [S-365]
#[test]
fn a_file_that_does_not_fit_is_refused_before_it_is_staged_in() {
    let Some(volume) = volume() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    fs::write(home.join("big"), vec![7; 3 << 20]).expect("write");
    fs::write(home.join("small"), vec![7; 1 << 20]).expect("write");
    for path in [home.clone(), home.join("big"), home.join("small")] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("chmod");
    }
    set(&volume, &USER, &["--hard", "2MiB"]);
    let uri = |name: &str| format!("file://{}/{name}", home.display());
    let refused = volume.run_as_nobody(&["stage", "in", &uri("big"), "d/big"]);
    assert_eq!(code(&refused), 1, "no wrong input: {}", err(&refused));
    let said = err(&refused);
    assert!(said.contains("the quota of user nobody") && !said.contains("--force"), "{said}");
    assert!(!volume.at.join("d/big").exists() && volume.counted("stage_in_bytes") == 0);
    let staged = volume.run_as_nobody(&["stage", "in", &uri("small"), "d/small"]);
    assert_eq!(code(&staged), 0, "{}", err(&staged));
    assert_eq!(row(&volume, &USER, "bytes")["used"], 1 << 20);
    let again = volume.run_as_nobody(&["stage", "in", &uri("small"), "d/small", "--force"]);
    assert_eq!((code(&again), row(&volume, &USER, "bytes")["used"].clone()), (0, (1 << 20).into()), "{}", err(&again));
    does(&volume, MINE, &format!("rm d/small; {}", more(2048, "d/x")));
}

/// [S-307]
#[test]
fn a_file_counts_once_however_many_mirrors_and_names_it_has_and_whoever_writes_it() {
    let Some(volume) = volume() else { return };
    // One object for the whole file: what the kernel could write without asking.
    volume.ok(&["layout", "set", "d", "stripe_count=1"]);
    set(&volume, &USER, &["--hard", "2MiB"]);
    does(&volume, MINE, &format!("{}; ln d/a d/b", more(1024, "d/a")));
    volume.ok(&["layout", "add-mirror", "d/a"]);
    assert_eq!(row(&volume, &USER, "bytes")["used"], 1 << 20);
    assert_eq!(row(&volume, &USER, "files")["used"], 1);
    does(&volume, MINE, &format!("{} & {} & wait", more(300, "d/c"), more(300, "d/e")));
    is_refused(&volume, MINE, "dd if=/dev/zero of=d/a bs=1M seek=1 count=1 conv=notrunc status=none");
    does(&volume, MINE, "rm d/a");
    assert_eq!(row(&volume, &USER, "files")["used"], 3, "it has a name left");
    does(&volume, MINE, "rm d/b d/c d/e");
    assert_eq!(row(&volume, &USER, "bytes")["used"], 0);
}
