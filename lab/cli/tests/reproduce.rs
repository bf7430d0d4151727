//! `entrepot-lab reproduce` as a user runs it: verdicts, a report without references, a second run from kept cases.

use std::path::Path;
use std::process::{Command, Output};

fn reproduce(at: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
    command.current_dir(at).env_remove("ENTREPOT_DATA").arg("reproduce").args(arguments);
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn experiments_are_judged_once_and_taken_from_there_again() {
    let at = tempfile::tempdir().unwrap();
    let chosen = ["R01", "R06", "Z01", "S08", "W05", "W11", "--quick"];
    let first = reproduce(at.path(), &[&chosen[..], &["--html", "report.html"]].concat());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let table = text(&first.stdout);
    for part in ["R01  Scale factor", "reproduced", "needs MPI on a mounted volume", "is missing"] {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    let page = std::fs::read_to_string(at.path().join("report.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http") && !page.contains("<script"), "{page}");
    let again = reproduce(at.path(), &[&chosen[..], &["--json", "--csv", "cases.csv"]].concat());
    assert!(text(&again.stderr).contains("and 0 run"), "{}", text(&again.stderr));
    let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let csv = std::fs::read_to_string(at.path().join("cases.csv")).unwrap();
    assert!(csv.starts_with("run,case,figure,value,command\n") && csv.contains(",sim stripe model "), "{csv}");
    assert!(
        csv.lines().filter(|line| line.contains(",,trace stats ")).count() > 0,
        "without its input a case has no value"
    );
    let verdicts: Vec<_> = report["rows"].as_array().unwrap().iter().map(|row| row["verdict"].clone()).collect();
    assert!(verdicts.contains(&"reproduced".into()) && verdicts.contains(&"not possible here".into()));
}

#[test]
fn the_list_has_every_paper_and_unknown_experiments_are_refused() {
    let at = tempfile::tempdir().unwrap();
    let list = text(&reproduce(at.path(), &["--list"]).stdout);
    for part in ["Z15  PFC in 96 cases", "Sung", "Wang", "Simitci", "WS-ROS", "entrepot-lab sim burst"] {
        assert!(list.contains(part), "{part}");
    }
    let unknown = reproduce(at.path(), &["Z99"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("Z99"));
}

/// Two cases of a run; a figure compares them, and one does so for the data that judge.
const OWN: &str = r#"
    [run.pairs]
    command = "sim cache --generate oltp:scale={scale} --check --l1 {pair} --l1-size {size} --l2 {pair} --coordinator {coordinator}"
    fixed = { scale = 0.001 }
    axes = { pair = ["ra", "amp"], size = ["5%"], coordinator = ["none", "pfc"] }
    split = { axis = "pair", tuning = ["amp"] }
    [[experiment]]
    id = "own"
    title = "PFC under two prefetchers"
    source = "none"
    input = "generated"
    cause = "It is an example."
    [[experiment.figure]]
    name = "improvement"
    unit = "%"
    run = "pairs"
    value = "100 * (1 - report.reads.mean_ms[coordinator=pfc] / report.reads.mean_ms[coordinator=none])"
    words = "open"
    [[experiment.figure]]
    name = "judging cases"
    unit = "cases"
    run = "pairs"
    where = { data = "judging" }
    value = "count(report.reads.mean_ms > 0)"
    words = "open"
"#;

#[test]
fn descriptions_of_ones_own_are_run_and_their_cases_are_written() {
    let at = tempfile::tempdir().unwrap();
    std::fs::create_dir(at.path().join("own")).unwrap();
    std::fs::write(at.path().join("own/pairs.toml"), OWN).unwrap();
    let run = reproduce(at.path(), &["--descriptions", "own", "--csv", "cases.csv"]);
    assert!(run.status.success() && text(&run.stdout).contains("improvement"), "{}", text(&run.stderr));
    let table = text(&run.stdout);
    assert!(table.contains("pairs: tuned on amp; judged by ra\n") && table.contains(" 2 cases "), "{table}");
    let csv = std::fs::read_to_string(at.path().join("cases.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
    assert!(csv.contains("\npairs,coordinator=none data=tuning pair=amp size=5%,report.reads.mean_ms,"), "{csv}");
    let report = reproduce(at.path(), &["--descriptions", "own", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["runs"]["pairs"]["split"]["judging"], serde_json::json!(["ra"]));
}

/// A live command that prints a table, one that cannot run here, and one that takes long.
const LIVE: &str = r#"
    [run.measured]
    command = "bench/measured.sh {entrepot}"
    live = { minutes = 2, minutes_max = 5 }
    [run.skipped]
    command = "bench/skipped.sh"
    live = { minutes = 3, minutes_max = 5 }
    [run.long]
    command = "bench/long.sh"
    live = { minutes = 90, minutes_max = 600 }
    [[experiment]]
    id = "A1"
    title = "A speed-up"
    source = "none"
    cause = "It is an example."
    impossible = "it needs a real volume"
    [[experiment.figure]]
    name = "live: speed-up"
    unit = "times"
    run = "measured"
    value = "tables.0.tiered.speed_up"
    published = 3.0
    [[experiment]]
    id = "A2"
    title = "One that cannot run here"
    source = "none"
    cause = "It is an example."
    [[experiment.figure]]
    name = "live: connections"
    run = "skipped"
    value = "tables.0.a.x"
    published = 1.0
    [[experiment]]
    id = "A3"
    title = "One that takes long"
    source = "none"
    cause = "It is an example."
    [[experiment.figure]]
    name = "live: long"
    run = "long"
    value = "tables.0.a.x"
    published = 1.0
"#;

/// A folder with the live commands and their descriptions.
fn live() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let at = tempfile::tempdir().unwrap();
    ["own", "bench"].iter().for_each(|name| std::fs::create_dir(at.path().join(name)).unwrap());
    std::fs::write(at.path().join("own/live.toml"), LIVE.replace("{entrepot}", "own/live.toml")).unwrap();
    let scripts = [
        ("measured", "echo x >>ran; printf '| | speed-up |\\n|---|---|\\n| tiered | 2.90x |\\n'; exit 1"),
        ("skipped", "echo 'skipped: glusterd is missing' >&2"),
        ("long", "trap 'echo x >cleaned; exit 1' TERM\necho x >began\nsleep 3600 &\nwait"),
    ];
    for (name, script) in scripts {
        let path = at.path().join(format!("bench/{name}.sh"));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    at
}

#[test]
fn live_commands_run_once_and_their_figures_are_judged() {
    let at = live();
    let without = text(&reproduce(at.path(), &["A1", "--descriptions", "own"]).stdout);
    assert!(without.contains("it needs a real volume") && !without.contains("live:"), "{without}");
    let list = text(&reproduce(at.path(), &["--live", "--list", "--descriptions", "own"]).stdout);
    assert!(list.contains("     bench/long.sh (about 1 h 30 min)\n"), "{list}");
    for _ in 0..2 {
        let run = reproduce(at.path(), &["A1", "A2", "--live", "--descriptions", "own"]);
        let table = text(&run.stdout);
        for part in ["A1  A speed-up: reproduced", "2.90 times", "A2  One that cannot run here: not possible"] {
            assert!(table.contains(part), "{part} is missing in\n{table}\n{}", text(&run.stderr));
        }
        assert!(table.contains("no number: skipped: glusterd is missing\n"), "{table}");
        assert!(!table.contains("it needs a real volume"), "{table}");
    }
    assert_eq!(std::fs::read_to_string(at.path().join("ran")).unwrap(), "x\n", "its answer was kept");
}

#[test]
fn an_interrupt_ends_a_live_command_which_cleans_up() {
    let at = live();
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
    command.current_dir(at.path()).args(["reproduce", "A3", "--live", "--descriptions", "own"]);
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("the binary runs");
    let began = std::time::Instant::now();
    while !at.path().join("began").exists() {
        assert!(began.elapsed().as_secs() < 60, "it has begun");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(at.path().join("cleaned").exists());
    assert_eq!(std::fs::read_to_string(at.path().join("reproduction/1-of-1.jsonl")).unwrap(), "");
}

/// The cases under way are not waited for; results lie where the command was given.
#[test]
fn an_interrupt_ends_a_run_at_once_and_finished_cases_are_kept() {
    use std::io::{BufRead, BufReader};
    let at = tempfile::tempdir().unwrap();
    std::fs::create_dir(at.path().join("own")).unwrap();
    let sizes = "\"1%\", \"2%\", \"3%\", \"4%\", \"5%\", \"6%\", \"7%\", \"8%\"";
    let long = OWN.replace("0.001", "0.01").replace("\"5%\"", sizes);
    std::fs::write(at.path().join("own/pairs.toml"), long).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot-lab"));
    command.current_dir(at.path()).args(["reproduce", "--descriptions", "own", "--threads", "1"]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("the binary runs");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.starts_with("cases      32, 1 at a time")));
    let (kept, began) = (at.path().join("reproduction/1-of-1.jsonl"), std::time::Instant::now());
    let lines = || std::fs::read_to_string(&kept).unwrap_or_default().lines().count();
    while lines() == 0 {
        assert!(began.elapsed().as_secs() < 60, "it has begun and keeps results");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert!(said.any(|line| line.starts_with("interrupted: ") && line.contains("cases are left")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!((1..32).contains(&lines()), "{}", lines());
}
