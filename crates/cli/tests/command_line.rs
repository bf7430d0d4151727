//! The command line by itself: help, completions, manual pages, and what wrong input is answered.

use std::path::Path;
use std::process::{Command, Output};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["init"],
    &["up"],
    &["down"],
    &["state"],
    &["state", "dump"],
    &["state", "load"],
    &["state", "adopt"],
    &["status"],
    &["stats"],
    &["target"],
    &["target", "list"],
    &["target", "add"],
    &["target", "remove"],
    &["target", "fail"],
    &["target", "restore"],
    &["target", "drain"],
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
    &["purge"],
    &["job"],
    &["job", "plan"],
    &["job", "submit"],
    &["job", "list"],
    &["job", "show"],
    &["job", "cancel"],
    &["job", "retry"],
    &["job", "log"],
    &["job", "wait"],
    &["slurm"],
    &["slurm", "install"],
    &["slurm", "list"],
    &["slurm", "show"],
    &["slurm", "retry"],
    &["slurm", "log"],
    &["checkpoint"],
    &["checkpoint", "advise"],
    &["checkpoint", "begin"],
    &["checkpoint", "commit"],
    &["checkpoint", "list"],
    &["checkpoint", "status"],
    &["bench"],
    &["bench", "device"],
    &["patterns"],
    &["patterns", "train"],
    &["patterns", "eval"],
    &["rules"],
    &["rules", "show"],
    &["rules", "check"],
    &["rules", "plot"],
    &["trace"],
    &["trace", "stats"],
    &["trace", "convert"],
    &["trace", "generate"],
    &["trace", "generate", "streams"],
    &["trace", "generate", "vod"],
    &["trace", "generate", "copy"],
    &["trace", "generate", "downloads"],
    &["trace", "generate", "oltp"],
    &["trace", "generate", "web"],
    &["trace", "generate", "workload"],
    &["trace", "generate", "multi"],
    &["sim"],
    &["sim", "cache"],
    &["sim", "disk"],
    &["sim", "disk", "validate"],
    &["sim", "disk", "models"],
    &["sim", "burst"],
    &["sim", "center"],
    &["sim", "stripe"],
    &["sim", "stripe", "model"],
    &["sim", "stripe", "validate"],
    &["sim", "stripe", "run"],
    &["sim", "tier"],
    &["completions"],
    &["man"],
    &["emulate-disk"],
    &["connect"],
];

fn entrepot(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot"));
    // Whatever is mounted on this machine is not what these tests are about.
    command.args(args).env_remove("ENTREPOT_VOLUME").env("NO_COLOR", "1").current_dir("/");
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// An error has its three parts, and the exit code that is documented for it.
fn refused(args: &[&str], code: i32, cause: &str) {
    let output = entrepot(args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    for part in ["error: ", "  so:   ", "  next: ", cause] {
        assert!(said.contains(part), "{args:?} lacks {part:?}: {said}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in COMMANDS {
        for flag in ["--help", "-h"] {
            let output = entrepot(&[command, &[flag][..]].concat());
            let help = text(&output.stdout);
            assert!(output.status.success(), "{command:?}");
            assert!(help.contains("EXAMPLES:\n  entrepot"), "{command:?} has no example:\n{help}");
            assert!(help.contains("Usage: entrepot"), "{command:?}:\n{help}");
        }
    }
}

#[test]
fn no_command_is_missing_from_this_test() {
    for command in COMMANDS {
        let help = text(&entrepot(&[command, &["--help"][..]].concat()).stdout);
        let Some((_, list)) = help.split_once("\nCommands:\n") else { continue };
        for line in list.lines().take_while(|l| !l.is_empty()).filter(|l| l.starts_with("  ") && !l.starts_with("   "))
        {
            let name = line.split_whitespace().next().expect("a name");
            let full = [command, &[name][..]].concat();
            assert!(name == "help" || COMMANDS.contains(&full.as_slice()), "{full:?} is not tested");
        }
    }
}

#[test]
fn exit_codes_are_documented() {
    let help = text(&entrepot(&["--help"]).stdout);
    for code in ["0 done", "1 failed", "2 wrong input", "3 no daemon", "4 not allowed", "5 not found", "6 in use", "7 "]
    {
        assert!(help.contains(code), "{code} is not in the help");
    }
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
        &["bench", "device", "/nonexistent/x", "--size", "16MiB", "--time", "100ms"],
        &["rules", "check", "/nonexistent/x"],
        &["trace", "stats", "/nonexistent/x"],
        &["sim", "cache", "--grid", "/nonexistent/x"],
        &["sim", "center", "--grid", "/nonexistent/x"],
        &["up", "/nonexistent/x", "--at", "/mnt"],
    ] {
        refused(missing, 5, "/nonexistent/x");
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be somebody who may not");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(dir.path(), open(0o755)).expect("chmod");
    let (binary, closed) = (dir.path().join("entrepot"), dir.path().join("closed"));
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_entrepot")).arg(&binary).status();
    assert!(copied.expect("cp").success());
    std::fs::create_dir(&closed).expect("directory");
    std::fs::set_permissions(&closed, open(0o700)).expect("chmod");
    let inner = closed.join("x").display().to_string();
    for denied in [
        &["init", &inner][..],
        &["up", &inner, "--at", "/mnt"],
        &["job", "plan", &inner],
        &["man", &inner],
        &["rules", "check", &inner],
        &["trace", "stats", &inner],
        &["--volume", &inner, "status"],
    ] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(&binary).args(denied);
        let output = command.env_remove("ENTREPOT_VOLUME").current_dir("/").output().expect("setpriv runs");
        assert_eq!(output.status.code(), Some(4), "{denied:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_log_that_is_asked_for_in_wrong_words_is_refused() {
    let dir = volume();
    let toml = dir.path().join("vol/volume.toml");
    for (wrong, said) in
        [("inof", "`inof` is no level"), ("garbage=zzz", "`zzz` is no level"), ("stroe=debug", "stroe")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot"));
        command.arg("up").arg(&toml).args(["--at", "/nonexistent"]).env("ENTREPOT_LOG", wrong);
        let output = command.env_remove("ENTREPOT_VOLUME").output().expect("the binary runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(said) && told.contains("nothing was started"), "{told}");
    }
}

#[test]
fn completions_and_manual_pages_are_complete() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&entrepot(&["completions", shell]).stdout);
        assert!(script.contains("add-mirror") && script.contains("stripe-count"), "{shell}");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let at = dir.path().to_str().expect("UTF-8");
    assert!(entrepot(&["man", at]).status.success());
    for command in COMMANDS {
        let page = dir.path().join(format!("{}.1", [&["entrepot"], *command].concat().join("-")));
        let page = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(page.contains("EXAMPLES"), "{command:?}");
    }
    assert!(!dir.path().join("entrepot-job-exec.1").exists(), "what is hidden has no page");
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
    for command in [&["status"][..], &["stats", "--count", "1"], &["target", "list"], &["job", "list"], &["down"]] {
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
    refused(&["job", "plan", "/nonexistent.sh"], 5, "/nonexistent.sh");
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
