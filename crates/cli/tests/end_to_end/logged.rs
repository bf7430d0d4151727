//! The log in the forms that programs read: json, and what systemd's journal takes.

use crate::real::{Volume, noise};
use serde_json::Value;
use std::fs;

fn up_with_log(form: &str) -> Option<Volume> {
    Volume::up_in(vec![("ENTREPOT_LOG_FORMAT".into(), form.into())], |toml| toml)
}

/// [S-295]
#[test]
fn every_line_is_an_object_also_for_names_that_try_to_end_it() {
    let Some(volume) = up_with_log("json") else { return };
    let name = "a\"}\n{\"level\":\"error\"";
    fs::write(volume.at.join(name), noise(300_000)).expect("write");
    let layout = volume.json(&["layout", name]);
    let target = layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("a target");
    volume.ok(&["target", "fail", target]);
    assert!(fs::read(volume.at.join(name)).is_err(), "one copy, on a failed target");
    let log = volume.log();
    let lines: Vec<Value> =
        log.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    let said = |word: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains(word)));
    assert!(said(target), "{log}");
    assert!(lines.iter().all(|line| line["time"].is_string() && line["module"].is_string()), "{log}");
}

#[test]
fn lines_for_the_journal_have_priorities() {
    let Some(volume) = up_with_log("journal") else { return };
    let log = volume.log();
    assert!(!log.is_empty() && log.lines().all(|line| line.starts_with('<')), "{log}");
}
