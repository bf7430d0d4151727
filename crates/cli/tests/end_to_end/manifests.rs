//! Many files from a real server: by checksum manifests as coreutils write them, its listings, and records in Zenodo's
//! shape.

use crate::real::{Volume, code, err, out};
use crate::server::{self, Nginx};
use std::fs;
use std::process::Command;

/// Publishes files below `set/` of the server, with the sums that a tool computes.
fn publish(nginx: &Nginx, tool: &[&str], to: &str) {
    let set = nginx.root().join("set");
    fs::create_dir_all(set.join("sub dir")).expect("directories");
    fs::write(set.join("large"), server::data(6_000_000, 1)).expect("write");
    fs::write(set.join("sub dir/50%"), b"small").expect("write");
    let summed = Command::new(tool[0]).args(&tool[1..]).args(["large", "sub dir/50%"]).current_dir(&set).output();
    fs::write(set.join(to), summed.expect("coreutils").stdout).expect("write");
}

/// [S-266]
#[test]
fn what_a_portal_publishes_is_compared_and_wrong_files_are_not_put_in_place() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    publish(&nginx, &["sha256sum"], "SHA256SUMS");
    publish(&nginx, &["md5sum", "--tag"], "CHECKSUMS");
    let (set, sums) = (nginx.uri("set"), nginx.uri("set/SHA256SUMS"));
    volume.ok(&["stage", "in", "--manifest", &sums, &set, "right"]);
    assert!(fs::read(volume.at.join("right/large")).expect("there") == server::data(6_000_000, 1));
    assert_eq!(fs::read(volume.at.join("right/sub dir/50%")).expect("there"), b"small");

    fs::write(nginx.root().join("set/large"), server::data(6_000_000, 2)).expect("write");
    let file = nginx.root().join("set/CHECKSUMS").display().to_string();
    let wrong = volume.run(&["stage", "in", "--manifest", &file, &set, "wrong"]);
    assert_eq!(code(&wrong), 7, "{}", err(&wrong));
    assert!(err(&wrong).contains("1 of 2 files are not in place") && err(&wrong).contains("wrong/large: "));
    assert!(!volume.at.join("wrong/large").exists() && volume.at.join("wrong/sub dir/50%").exists());
    fs::remove_file(nginx.root().join("set/large")).expect("removed");
    let gone = volume.run(&["stage", "in", "--keep", "--manifest", &file, &set, "wrong"]);
    assert!(code(&gone) == 7 && err(&gone).contains("wrong/large: ") && err(&gone).contains("404"), "{}", err(&gone));
    fs::write(nginx.root().join("set/large"), server::data(6_000_000, 1)).expect("write");
    volume.ok(&["stage", "in", "--keep", "--manifest", &file, &set, "wrong"]);
    assert!(volume.at.join("wrong/large").exists());
}

/// [S-265]
#[test]
fn a_bad_manifest_changes_nothing_and_names_all_its_lines() {
    let Some(volume) = Volume::up() else { return };
    let manifest = volume.dir.path().join("manifest-md5.txt");
    fs::write(&manifest, "nonsense\n900150983cd24fb0d6963f7d28e17f72  ../up\nabc  short\n").expect("write");
    let manifest = manifest.to_str().expect("UTF-8");
    let bad = volume.run(&["stage", "in", "--manifest", manifest, "file:///usr", "in"]);
    assert_eq!(code(&bad), 2, "{}", err(&bad));
    for line in ["manifest line 1: ", "manifest line 2: ", "manifest line 3: "] {
        assert!(err(&bad).contains(line), "{}", err(&bad));
    }
    assert!(!volume.at.join("in").exists());
    let no_sum = volume.run(&["stage", "in", "--md5", "abc", "file:///bin/sh", "sh"]);
    assert!(code(&no_sum) == 2 && err(&no_sum).contains("MD5 has 32 hexadecimal digits"), "{}", err(&no_sum));
}

/// [S-266]
#[test]
fn a_job_whose_input_is_not_what_the_manifest_says_does_not_run() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    publish(&nginx, &["sha512sum"], "sums.txt");
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    fs::copy(nginx.root().join("set/sums.txt"), home.join("sums.txt")).expect("copied");
    let script = home.join("job.sh");
    let at = volume.at.display();
    let set = nginx.uri("set");
    let text =
        format!("#!/bin/sh\n#STAGEIN entrepot stage in --manifest sums.txt {set} {at}/in\nwc -c {at}/in/large\n");
    fs::write(&script, text).expect("write");
    let submit = || volume.run_in(&home, &["job", "submit", "--wait", script.to_str().expect("UTF-8")]);
    let ran = submit();
    assert_eq!(code(&ran), 0, "{}{}", out(&ran), err(&ran));
    fs::write(nginx.root().join("set/large"), server::data(6_000_001, 3)).expect("write"); // another size: nginx tells no more than that within a second
    let refused = submit();
    assert_eq!(code(&refused), 1, "{}{}", out(&refused), err(&refused));
    let log = volume.run(&["job", "log", "2", "--part", "stage-in", "--stderr"]);
    assert!(out(&log).contains("in/large"), "{}{}", out(&log), err(&log));
}

/// [S-267]
#[test]
fn a_directory_that_a_server_lists_comes_whole_or_not_at_all() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    publish(&nginx, &["sha256sum"], "SHA256SUMS");
    fs::create_dir(nginx.root().join("set/empty")).expect("directory");
    volume.ok(&["stage", "in", &nginx.uri("listed/set/"), "page"]);
    volume.ok(&["stage", "in", "--directory", &nginx.uri("json/set"), "json"]);
    for at in ["page", "json"] {
        assert!(fs::read(volume.at.join(at).join("large")).expect("there") == server::data(6_000_000, 1));
        assert_eq!(fs::read(volume.at.join(at).join("sub dir/50%")).expect("there"), b"small");
        assert!(volume.at.join(at).join("empty").is_dir());
    }
    let refused = volume.run(&["stage", "in", &nginx.uri("set/"), "none"]);
    assert_eq!(code(&refused), 4, "{}", err(&refused));
    assert!(err(&refused).contains("403") && err(&refused).contains("--manifest"), "{}", err(&refused));
    assert!(!volume.at.join("none").exists());
}

/// [S-268]
#[test]
fn a_record_comes_compared_with_its_checksums() {
    let Some(nginx) = Nginx::start() else { return };
    let base = nginx.uri("").trim_end_matches('/').to_string();
    let zenodo = r#"# zenodo = "https://zenodo.org""#;
    let Some(volume) = Volume::up_with(|toml| toml.replace(zenodo, &format!("zenodo = {base:?}"))) else { return };
    publish(&nginx, &["md5sum"], "MD5SUMS");
    let sum = fs::read_to_string(nginx.root().join("set/MD5SUMS")).expect("sums")[..32].to_string();
    fs::create_dir_all(nginx.root().join("api/records")).expect("directory");
    let record = |sum: &str| {
        let at = nginx.uri("set/large");
        let file = format!(r#"{{"key":"large.nc","size":6000000,"checksum":"md5:{sum}","links":{{"self":"{at}"}}}}"#);
        fs::write(nginx.root().join("api/records/77"), format!(r#"{{"id":77,"files":[{file}]}}"#)).expect("write");
    };
    record(&sum);
    volume.ok(&["stage", "in", "zenodo:77", "right"]);
    assert!(fs::read(volume.at.join("right/large.nc")).expect("there") == server::data(6_000_000, 1));
    let source = volume.json(&["source", "get", "right/large.nc"]);
    assert_eq!(source["sources"][0]["uri"], nginx.uri("set/large"), "where the file really is");
    record("900150983cd24fb0d6963f7d28e17f72");
    let wrong = volume.run(&["stage", "in", "doi:10.5281/zenodo.77", "wrong"]);
    assert!(code(&wrong) == 7 && err(&wrong).contains("wrong/large.nc: the MD5 checksum"), "{}", err(&wrong));
    assert!(!volume.at.join("wrong/large.nc").exists());
    let none = volume.run(&["stage", "in", "zenodo:78", "none"]);
    assert!(code(&none) == 5 && !volume.at.join("none").exists(), "{}", err(&none));
}

/// [S-269]
#[test]
fn some_of_the_files_and_what_would_come() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    publish(&nginx, &["sha256sum"], "SHA256SUMS");
    for name in ["set/sub dir/more.nc", "set/top.nc", "set/not.nc"] {
        fs::write(nginx.root().join(name), b"12345").expect("write");
    }
    fs::create_dir(nginx.root().join("set/empty")).expect("directory");
    let uri = nginx.uri("listed/set/");
    let words = ["stage", "in", "--include", "*.nc", "--include", "large", "--exclude", "not*", "--keep", &uri, "some"];
    let dry = || volume.json(&[&words[..2], &["--dry-run"], &words[2..]].concat());
    let before = dry();
    assert_eq!((&before["files"], &before["bytes"], &before["there_files"]), (&3.into(), &6_000_010.into(), &0.into()));
    assert!(!volume.at.join("some").exists(), "nothing was changed");
    fs::remove_file(nginx.root().join("set/top.nc")).expect("removed");
    volume.ok(&words);
    fs::write(nginx.root().join("set/top.nc"), b"12345").expect("write");
    let there = |name: &str| volume.at.join("some").join(name).exists();
    assert!(there("sub dir/more.nc") && there("large") && !there("not.nc") && !there("sub dir/50%") && !there("empty"));
    let after = dry();
    assert_eq!((&after["there_files"], &after["there_bytes"]), (&2.into(), &6_000_005.into()), "{after}");
    assert_eq!(after["list"][2]["path"], "some/top.nc");
    assert_eq!(after["list"][2]["there"], "nothing");
    let text = volume.run(&[&words[..2], &["--dry-run"], &words[2..]].concat());
    assert!(out(&text).contains("would stage in 3 files") && out(&text).contains("there already, with this size"));

    // Patterns select lines of a manifest too; patterns that select nothing are an error.
    let (sums, set) = (nginx.uri("set/SHA256SUMS"), nginx.uri("set"));
    volume.ok(&["stage", "in", "--manifest", &sums, "--include", "sub dir/", &set, "listed"]);
    assert!(volume.at.join("listed/sub dir/50%").exists() && !volume.at.join("listed/large").exists());
    let slip = volume.run(&["stage", "in", "--include", "*.h5", &uri, "slip"]);
    assert!(code(&slip) == 5 && !volume.at.join("slip").exists(), "{}", err(&slip));
    let one = volume.run(&["stage", "in", "--include", "*", &nginx.uri("set/large"), "one"]);
    assert_eq!(code(&one), 2, "{}", err(&one));
}
