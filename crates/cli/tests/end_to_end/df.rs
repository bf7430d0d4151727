//! `entrepot df`: devices and tiers add up, and files by user, age and directory are those that are there.

use crate::real::{Volume, code, err, noise, out};
use serde_json::Value;
use std::fs;

fn rows(volume: &Volume, words: &[&str]) -> Vec<(String, u64, u64, u64)> {
    let told = volume.json(&[&["df"], words].concat());
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_u64().expect("a number");
        (row["name"].as_str().expect("a name").to_owned(), number("files"), number("bytes"), number("on_targets_bytes"))
    };
    told["rows"].as_array().expect("rows").iter().map(row).collect()
}

/// [S-242]
#[test]
fn files_are_summed_by_user_age_and_directory_with_each_of_their_mirrors() {
    let Some(volume) = Volume::up() else { return };
    fs::create_dir_all(volume.at.join("d/e")).expect("directories");
    fs::write(volume.at.join("d/small"), b"ten bytes.").expect("write");
    fs::write(volume.at.join("d/e/one"), noise(300_000)).expect("write");
    fs::write(volume.at.join("two"), noise(200_000)).expect("write");
    volume.ok(&["layout", "add-mirror", "two"]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 86_400);
    let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
    fs::File::options().write(true).open(volume.at.join("two")).expect("open").set_times(times).expect("times");

    // A file inside its stub is on no target, and a second mirror takes space once more.
    let row = |name: &str, files, bytes, on_targets| (name.to_owned(), files, bytes, on_targets);
    assert_eq!(rows(&volume, &["--by", "dir"]), [row(".", 1, 200_000, 400_000), row("d", 2, 300_010, 300_000)]);
    assert_eq!(rows(&volume, &["--by", "dir", "d"]), [row("e", 1, 300_000, 300_000), row(".", 1, 10, 0)]);
    let ages = [row("30 to 90 days", 1, 200_000, 400_000), row("below 7 days", 2, 300_010, 300_000)];
    assert_eq!(rows(&volume, &["--by", "age"]), ages);
    let all: Vec<_> =
        rows(&volume, &["--by", "user"]).into_iter().map(|(_, files, bytes, on)| (files, bytes, on)).collect();
    assert_eq!(all, [(3, 500_010, 700_000)]);
    let told = out(&volume.run(&["df", "--by", "age"]));
    let last: Vec<_> = told.lines().last().expect("a line").split_whitespace().collect();
    assert_eq!(last, ["all", "3", "488", "KiB", "684", "KiB"], "{told}");
    let wrong = volume.run(&["df", "d"]);
    assert!(code(&wrong) == 2 && err(&wrong).contains("--by"), "{}", err(&wrong));
}

/// [S-243]
#[test]
fn users_see_what_their_own_files_take_and_all_targets() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    fs::write(volume.at.join("mine"), noise(100_000)).expect("write");
    std::os::unix::fs::chown(volume.at.join("mine"), Some(65534), Some(65534)).expect("chown");
    fs::write(volume.at.join("roots"), noise(100_000)).expect("write");
    let told = volume.run_as_nobody(&["df", "--by", "user", "--output", "json"]);
    let told: Value = serde_json::from_str(&out(&told)).expect("json");
    let uids: Vec<_> = told["rows"].as_array().expect("rows").iter().map(|row| row["uid"].as_u64()).collect();
    assert_eq!(uids, [Some(65534)], "{told}");
    let table = out(&volume.run_as_nobody(&["df"]));
    let named = |name: &str| table.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(
        (named("fast"), named("capacity"), named("all of the tier"), named("the volume")),
        (3, 3, 2, 1),
        "{table}"
    );
    let told = volume.json(&["df"]);
    assert!(told["total_bytes"].as_u64() >= told["tiers"][0]["total_bytes"].as_u64(), "{told}");
}
