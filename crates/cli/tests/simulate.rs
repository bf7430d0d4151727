//! `entrepot sim` as a user runs it: the census first, the same bytes twice, mistakes named, a grid that goes on.

use std::path::Path;
use std::process::{Command, Output};

fn sim(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot"));
    command.current_dir(at).arg("sim").args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_shows_its_census_and_is_the_same_twice() {
    let at = tempfile::tempdir().unwrap();
    let arguments =
        ["cache", "--generate", "oltp:scale=0.001", "--l1", "linux", "--l2", "sarc", "--coordinator", "pfc"];
    let first = sim(at.path(), &arguments);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["records", "skipped", "span", "footprint", "response   mean", "L1    linux", "L2    sarc"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(first.stdout, sim(at.path(), &arguments).stdout);
}

#[test]
fn mistakes_are_named_with_what_would_be_right() {
    let at = tempfile::tempdir().unwrap();
    let lunix = sim(at.path(), &["cache", "--generate", "oltp:scale=0.001", "--l1", "lunix"]);
    assert_eq!(lunix.status.code(), Some(2));
    assert!(text(&lunix.stderr).contains("linux-2.6.18"));
    let alone = sim(at.path(), &["cache", "--generate", "oltp:scale=0.001", "--coordinator", "pfc"]);
    assert!(text(&alone.stderr).contains("--l2"));
    std::fs::write(at.path().join("bad.trace"), "R Hit 1 1 1\n").unwrap();
    let measured = sim(at.path(), &["disk", "validate", "bad.trace", "--model", "atlas10k"]);
    assert_eq!(measured.status.code(), Some(2));
    assert!(text(&measured.stderr).contains("line 1"));
}

#[test]
fn a_grid_goes_on_where_it_was_and_compares() {
    let at = tempfile::tempdir().unwrap();
    let grid = r#"
        name = "small"
        [[trace]]
        name = "oltp"
        generate = "oltp:scale=0.001"
        [axes]
        pair = ["ra", "amp"]
        coordinator = ["none", "pfc"]
        [compare]
        axis = "coordinator"
        baseline = "none"
    "#;
    std::fs::write(at.path().join("grid.toml"), grid).unwrap();
    let first = sim(at.path(), &["cache", "--grid", "grid.toml", "--threads", "2"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).contains("of 2 cases"), "{}", text(&first.stdout));
    let results = std::fs::read_to_string(at.path().join("grid.results.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 4);
    let again = sim(at.path(), &["cache", "--grid", "grid.toml", "--threads", "1"]);
    assert_eq!(first.stdout, again.stdout);
    assert_eq!(std::fs::read_to_string(at.path().join("grid.results.jsonl")).unwrap(), results);
}

#[test]
fn tiers_are_compared_with_the_plain_hybrid_and_the_optimum() {
    let at = tempfile::tempdir().unwrap();
    let zipf = "zipf:footprint=64,requests=4000";
    let run = ["tier", "--generate", zipf, "--fast-size", "25%", "--check", "--threads", "2"];
    let first = sim(at.path(), &run);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{}", text(&first.stderr));
    for part in ["footprint", "speed-up", "round-robin", "lru", "lfu", "ws-ros", "tuned", "optimum"] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    let alone = [&run[..6], &["--threads", "1"]].concat();
    assert_eq!(first.stdout, sim(at.path(), &alone).stdout, "the same on any number of threads");
    let sweep = ["tier", "--generate", zipf, "--schemes", "ws-ros", "--sweep", "hot=1,3", "--output", "csv"];
    let said = text(&sim(at.path(), &sweep).stdout);
    assert!(said.contains("ws-ros hot=1,") && said.contains("ws-ros hot=3,"), "{said}");
}

#[test]
fn mistakes_about_tiers_are_named() {
    let at = tempfile::tempdir().unwrap();
    for (option, value, right) in [
        ("--schemes", "arc", "ws-ros"),
        ("--fast-speed", "fast", "1000/500"),
        ("--sweep", "colour=red", "busy-share"),
        ("--window", "0s", "longer"),
        ("--stripe", "1000", "stripe"),
    ] {
        let run = sim(at.path(), &["tier", "--generate", "scan:requests=10", option, value]);
        assert_eq!(run.status.code(), Some(2), "{option} {value}");
        let said = text(&run.stderr);
        assert!(said.contains(right), "{option} {value}: {said}");
    }
}
