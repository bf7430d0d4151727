//! The command line by itself: help, completions, manual pages, and what wrong input is answered.

#[path = "command_line/words.rs"]
mod words;

use std::path::Path;
use std::process::{Command, Output};
use words::{CLOSED, Words, text};

const WORDS: Words = Words {
    binary: env!("CARGO_BIN_EXE_entrepot"),
    commands: &[
        &[],
        &["init"],
        &["up"],
        &["down"],
        &["doctor"],
        &["state"],
        &["state", "dump"],
        &["state", "load"],
        &["state", "rebuild"],
        &["state", "adopt"],
        &["status"],
        &["stats"],
        &["top"],
        &["trace"],
        &["trace", "record"],
        &["target"],
        &["target", "list"],
        &["target", "add"],
        &["target", "remove"],
        &["target", "fail"],
        &["target", "restore"],
        &["target", "drain"],
        &["accounting"],
        &["balance"],
        &["balance", "start"],
        &["balance", "status"],
        &["balance", "pause"],
        &["balance", "resume"],
        &["balance", "stop"],
        &["tiering"],
        &["tiering", "pause"],
        &["tiering", "resume"],
        &["layout"],
        &["layout", "set"],
        &["layout", "add-mirror"],
        &["layout", "drop-mirror"],
        &["layout", "replace"],
        &["layout", "move"],
        &["layout", "merge"],
        &["layout", "split"],
        &["layout", "resync"],
        &["explain"],
        &["stage"],
        &["stage", "in"],
        &["stage", "out"],
        &["source"],
        &["source", "get"],
        &["source", "set"],
        &["check"],
        &["df"],
        &["find"],
        &["events"],
        &["purge"],
        &["quota"],
        &["quota", "show"],
        &["quota", "list"],
        &["quota", "set"],
        &["quota", "remove"],
        &["scrub"],
        &["job"],
        &["job", "plan"],
        &["job", "submit"],
        &["job", "list"],
        &["job", "show"],
        &["job", "cancel"],
        &["job", "retry"],
        &["job", "log"],
        &["job", "wait"],
        &["job", "watch"],
        &["slurm"],
        &["slurm", "install"],
        &["slurm", "list"],
        &["slurm", "watch"],
        &["slurm", "show"],
        &["slurm", "forget"],
        &["slurm", "retry"],
        &["slurm", "log"],
        &["checkpoint"],
        &["checkpoint", "advise"],
        &["checkpoint", "begin"],
        &["checkpoint", "commit"],
        &["checkpoint", "list"],
        &["checkpoint", "restart"],
        &["checkpoint", "status"],
        &["completions"],
        &["man"],
        &["node"],
        &["node", "list"],
        &["node", "drain"],
        &["node", "restore"],
        &["node", "forget"],
        &["connect"],
    ],
};

fn entrepot(args: &[&str]) -> Output {
    WORDS.run(args)
}

fn refused(args: &[&str], code: i32, cause: &str) {
    WORDS.refused(args, code, cause);
}

#[test]
fn every_command_has_help_with_an_example() {
    WORDS.every_command_has_help_with_an_example();
}

#[test]
fn no_command_is_missing_from_this_test() {
    WORDS.no_command_is_missing();
}

#[test]
fn the_reference_has_every_command() {
    WORDS.the_reference_has_every_command();
}

#[test]
fn exit_codes_are_documented() {
    WORDS.exit_codes_are_documented();
}

#[test]
fn completions_and_manual_pages_are_complete() {
    WORDS.completions_and_manual_pages_are_complete(&["add-mirror", "stripe-count"]);
}

#[test]
fn a_command_of_the_laboratory_is_answered_with_its_binary() {
    for name in ["sim", "tune", "rules", "patterns", "bench", "emulate-disk"] {
        let next = format!("`entrepot-lab {name}`");
        refused(&[name], 2, &next);
        refused(&[name, "--help"], 2, &next);
        refused(&["help", name], 2, &next);
    }
    assert!(text(&entrepot(&["statsu"]).stderr).contains("'stats'"), "a slip of the pen gets a hint");
}

/// [S-194]
#[test]
fn the_same_cause_has_the_same_exit_code_in_all_commands() {
    for missing in [
        &["job", "plan", "/nonexistent/x"][..],
        &["job", "submit", "/nonexistent/x"],
        &["stage", "in", "--manifest", "/nonexistent/x"],
        &["layout", "/nonexistent/x"],
        &["check", "/nonexistent/x"],
        &["up", "/nonexistent/x", "--at", "/mnt"],
    ] {
        refused(missing, 5, "/nonexistent/x");
    }
    WORDS.denied(&[
        &["init", CLOSED],
        &["up", CLOSED, "--at", "/mnt"],
        &["job", "plan", CLOSED],
        &["man", CLOSED],
        &["--volume", CLOSED, "status"],
    ]);
}

#[test]
fn a_log_that_is_asked_for_in_wrong_words_is_refused() {
    let dir = volume();
    let toml = dir.path().join("vol/volume.toml");
    let log = "ENTREPOT_LOG";
    for (variable, wrong, said) in [
        (log, "inof", "`inof` is no level"),
        (log, "garbage=zzz", "`zzz` is no level"),
        (log, "stroe=debug", "stroe"),
        ("ENTREPOT_LOG_FORMAT", "xml", "forms are text, json, journal"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot"));
        command.arg("up").arg(&toml).args(["--at", "/nonexistent"]).env(variable, wrong);
        let output = command.env_remove("ENTREPOT_VOLUME").output().expect("the binary runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(said) && told.contains("nothing was started"), "{told}");
    }
}

#[test]
fn a_volume_that_is_not_there_is_said_so() {
    refused(&["--volume", "/nonexistent/volume.toml", "status"], 5, "/nonexistent/volume.toml");
    refused(&["up", "/nonexistent/volume.toml", "--at", "/nonexistent"], 5, "/nonexistent/volume.toml");
    refused(&["/nonexistent/volume.toml", "/", "-o", "rw"], 5, "/nonexistent/volume.toml");
}

#[test]
fn a_volume_without_daemon_is_said_so() {
    let dir = volume();
    let toml = dir.path().join("vol/volume.toml");
    let toml = toml.to_str().expect("UTF-8");
    for command in
        [&["status"][..], &["stats", "--count", "1"], &["top"], &["target", "list"], &["job", "list"], &["down"]]
    {
        refused(&[&["--volume", toml], command].concat(), 3, "no daemon answers");
    }
}

#[test]
fn bad_configuration_is_refused_before_anything_is_touched() {
    let dir = volume();
    let file = dir.path().join("vol/volume.toml");
    let good = std::fs::read_to_string(&file).expect("volume.toml");
    let mnt = dir.path().join("mnt");
    std::fs::create_dir(&mnt).expect("mount point");
    let before = listing(&dir.path().join("vol"));
    let cases = [
        (format!("unheard_of = 1\n{good}"), "unheard_of"),
        (good.replace("[[target]]", "[[target"), "volume.toml"),
        (good.replacen("targets/fast0", "targets/nowhere", 1), "nowhere"),
        (good.replacen("\"fast1\"", "\"fast0\"", 1), "fast0"),
    ];
    for (bad, named) in &cases {
        assert_ne!(bad, &good, "the case for {named} changes nothing");
        std::fs::write(&file, bad).expect("write");
        for detach in [&[][..], &["--detach"]] {
            let up = ["up", file.to_str().expect("UTF-8"), "--at", mnt.to_str().expect("UTF-8")];
            refused(&[&up, detach].concat(), 2, named);
            let said = text(&entrepot(&up).stderr);
            assert!(said.contains("volume.toml:"), "no line for {named}: {said}");
        }
        assert_eq!(listing(&dir.path().join("vol")), before, "something was touched: {named}");
    }
}

#[test]
fn a_mount_point_that_cannot_be_one_is_refused_before_anything_is_touched() {
    let dir = volume();
    let before = listing(&dir.path().join("vol"));
    let toml = dir.path().join("vol/volume.toml");
    let up = ["up", toml.to_str().expect("UTF-8"), "--at"];
    let inside = dir.path().join("vol/namespace");
    let none = dir.path().join("none");
    let make = format!("`mkdir -p {}`", none.display());
    let cases = [(none, 5, &*make), (toml.clone(), 2, "no directory"), (inside, 2, "lie in each other")];
    for (at, code, named) in cases {
        refused(&[&up[..], &[at.to_str().expect("UTF-8")]].concat(), code, named);
        assert_eq!(listing(&dir.path().join("vol")), before, "something was touched: {named}");
    }
}

#[test]
fn init_overwrites_nothing() {
    let dir = volume();
    let at = dir.path().join("vol");
    let before = listing(&at);
    refused(&["init", at.to_str().expect("UTF-8")], 2, "volume.toml");
    assert_eq!(listing(&at), before);
}

#[test]
fn a_script_that_cannot_be_planned_is_refused_with_its_line() {
    let dir = tempfile::tempdir().expect("temp dir");
    let script = dir.path().join("job.sh");
    std::fs::write(&script, "#!/bin/bash\n#STAGEIN -retry many\n#STAGEIN cp a b\ntrue\n").expect("script");
    refused(&["job", "plan", script.to_str().expect("UTF-8")], 2, "line 2");
    let told = entrepot(&["job", "plan", script.to_str().expect("UTF-8"), "--output", "json"]);
    let said: serde_json::Value = serde_json::from_slice(&told.stdout).expect("an object");
    assert_eq!((told.status.code(), &said["complaints"][0]["line"]), (Some(2), &2.into()), "{said}");
    assert!(told.stderr.is_empty() && said["complaints"][0]["mend"].as_str().is_some_and(|mend| !mend.is_empty()));
    refused(&["job", "plan", "/nonexistent.sh"], 5, "/nonexistent.sh");
}

/// [S-344]
#[test]
fn a_script_does_not_steer_the_terminal_that_shows_its_plan() {
    let dir = tempfile::tempdir().expect("temp dir");
    let script = dir.path().join("job.sh");
    std::fs::write(&script, "#!/bin/sh \u{1b}[2J\u{202e}\n#ENTREPOT -n 1 -t 00:01:00\ntrue\n").expect("script");
    let path = script.to_str().expect("UTF-8");
    for words in [&["job", "plan", path][..], &["job", "plan", path, "--output", "json"]] {
        let told = entrepot(words);
        let said = text(&told.stdout);
        assert!(told.status.success(), "{}", text(&told.stderr));
        assert!(said.contains("[2J") && !said.contains(['\u{1b}', '\u{202e}']), "{said}");
    }
}

/// A new volume in a directory of its own.
fn volume() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temp dir");
    let at = dir.path().join("vol");
    let output = entrepot(&["init", at.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    dir
}

/// Everything below a directory except the configuration.
fn listing(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).expect("directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                todo.push(path.clone());
            }
            names.push(path.display().to_string());
        }
    }
    names.sort();
    names
}
