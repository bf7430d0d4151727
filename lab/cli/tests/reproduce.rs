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
    let again = reproduce(at.path(), &[&chosen[..], &["--json"]].concat());
    assert!(text(&again.stderr).contains("and 0 run"), "{}", text(&again.stderr));
    let report: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
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
