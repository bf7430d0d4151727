//! `entrepot find`: each criterion, and the visibility of files by user.

use crate::real::{Volume, code, err, noise, out};
use std::fs;

fn found(volume: &Volume, words: &[&str]) -> Vec<String> {
    let told = volume.run(&[&["find"], words].concat());
    assert_eq!(code(&told), 0, "{words:?}: {}{}", out(&told), err(&told));
    let mut lines: Vec<_> = out(&told).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// [S-240]
#[test]
fn files_are_found_by_where_they_lie_and_how_they_are_used() {
    let Some(volume) = Volume::up() else { return };
    fs::create_dir_all(volume.at.join("d/e")).expect("directories");
    fs::write(volume.at.join("d/small"), b"a few bytes").expect("write");
    fs::write(volume.at.join("d/e/one"), noise(300_000)).expect("write");
    fs::write(volume.at.join("two"), noise(300_000)).expect("write");
    volume.ok(&["layout", "add-mirror", "two"]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    fs::File::options().write(true).open(volume.at.join("two")).expect("open").set_times(times).expect("times");

    assert_eq!(found(&volume, &[]), ["d/e/one", "d/small", "two"]);
    assert_eq!(found(&volume, &["d"]), ["d/e/one", "d/small"]);
    assert_eq!(found(&volume, &["--larger", "100K"]), ["d/e/one", "two"]);
    assert_eq!(found(&volume, &["--older", "30d"]), ["two"]);
    assert_eq!(found(&volume, &["--newer", "30d"]), ["d/e/one", "d/small"]);
    assert_eq!(found(&volume, &["--state", "unmirrored"]), ["d/e/one"], "what lies in its stub has no mirrors");
    assert_eq!(found(&volume, &["--user", "65533"]), Vec::<String>::new());
    let json = volume.run(&["find", "--older", "30d", "--output", "json"]);
    let line: serde_json::Value = serde_json::from_str(out(&json).trim()).expect("one line");
    assert_eq!((line["path"].as_str(), line["bytes"].as_u64()), (Some("two"), Some(300_000)));
    assert_eq!(volume.run(&["find", "--older", "30d", "--print0"]).stdout, b"two\0");

    let layout = volume.json(&["layout", "d/e/one"]);
    let target = layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("target").to_owned();
    let on_it = found(&volume, &["--target", &target]);
    assert!(on_it.contains(&"d/e/one".to_owned()) && !on_it.contains(&"d/small".to_owned()), "{on_it:?}");
    assert_eq!(found(&volume, &["--state", "away"]), Vec::<String>::new());
    let told = volume.json(&["target", "fail", &target]);
    assert!(told["text"].as_str().is_some_and(|text| text.contains(&target)), "{told}");
    assert_eq!(found(&volume, &["--state", "away"]), ["d/e/one"], "the other has a second mirror");
    crate::real::until("the status counts it", || volume.count_if_any("away", "files") == Some(1));
    let status = out(&volume.run(&["status"]));
    assert!(
        status.contains("1 file cannot be read now") && status.contains("`entrepot find --state away`"),
        "{status}"
    );
    let metrics = out(&volume.run(&["stats", "--prometheus"]));
    let away = metrics.lines().find(|line| line.starts_with("entrepot_files_away{")).expect("the metric");
    assert_eq!(away.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()), Some(1.0), "{away}");
    let checked = out(&volume.run(&["check"]));
    assert!(checked.contains("until it is back") && !checked.contains("lost"), "{checked}");
    let checked = out(&volume.run(&["check", "--output", "json"]));
    let checked: serde_json::Value = serde_json::from_str(&checked).expect("json");
    let finding = checked["findings"].as_array().and_then(|all| all.iter().find(|f| f["path"] == "d/e/one"));
    assert_eq!(finding.expect("a finding")["outcome"], "away", "{checked}");
    let wrong = volume.run(&["find", "--target", "nobody"]);
    assert!(code(&wrong) == 5 && err(&wrong).contains("there is no target \"nobody\""), "{}", err(&wrong));
}

/// [S-241]
#[test]
fn users_find_their_own_files_and_no_others() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    let own = |name: &str| {
        fs::write(volume.at.join(name), b"mine").expect("write");
        std::os::unix::fs::chown(volume.at.join(name), Some(65534), Some(65534)).expect("chown");
    };
    fs::create_dir(volume.at.join("closed")).expect("directory");
    own("mine");
    own("closed/hidden");
    fs::write(volume.at.join("roots"), b"not mine").expect("write");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(volume.at.join("closed"), mode).expect("chmod");
    let told = volume.run_as_nobody(&["find"]);
    assert_eq!((out(&told).as_str(), code(&told)), ("mine\n", 0), "{}", err(&told));
    let others = volume.run_as_nobody(&["find", "--user", "0"]);
    assert!(code(&others) == 4 && err(&others).contains("your own files only"), "{}", err(&others));
    assert_eq!(found(&volume, &["--user", "65534"]), ["closed/hidden", "mine"]);
}
