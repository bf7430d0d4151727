//! Results that leave while the script runs, and the removal of what is safe elsewhere.

use crate::real::{Volume, code, out, until};
use crate::server::{self, Nginx};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

fn volume() -> Option<Volume> {
    Volume::up_with(|toml| {
        let set = |toml: String, from: &str, to: &str| {
            assert!(toml.contains(from), "{from}");
            toml.replace(from, to)
        };
        let toml = set(toml, "# offload = \"at-end\"", "offload = \"on-close\"");
        // Everything that may go is old enough.
        set(toml, "# age = \"0s\"", "age = \"1ms\"")
    })
}

fn submit(volume: &Volume, home: &Path, text: &str) {
    let script = home.join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
    let submitted = volume.run_in(home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert!(submitted.status.success(), "{}", crate::real::err(&submitted));
}

fn purge(volume: &Volume, words: &[&str]) -> serde_json::Value {
    volume.json(&[&["purge"], words].concat())
}

fn paths(report: &serde_json::Value) -> Vec<String> {
    let files = report["files"].as_array().expect("files");
    let mut paths: Vec<String> = files.iter().map(|f| f["path"].as_str().expect("path").to_string()).collect();
    paths.sort();
    paths
}

/// [S-073] [S-074]
#[test]
fn results_leave_when_closed_and_only_what_is_safe_is_purged() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = volume() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let (input, result) = (server::data(8 << 20, 1), server::data(8 << 20, 2));
    fs::write(nginx.root().join("input"), &input).expect("write");
    fs::write(home.join("made"), &result).expect("write");
    let at = volume.at.display();
    let (go, more) = (home.join("go"), home.join("more"));
    let text = format!(
        "#STAGEIN entrepot stage in {uri} {at}/input\n\
         #STAGEOUT entrepot stage out {at}/result file://{home}/taken\n\
         #STAGEOUT entrepot stage out {at}/late file://{home}/late\n\
         cp {home}/made {at}/result\n\
         until [ -e {more} ]; do sleep 0.05; done\n\
         printf more >> {at}/result\n\
         until [ -e {go} ]; do sleep 0.05; done\n\
         cp {home}/made {at}/late\n",
        uri = nginx.uri("input"),
        home = home.display(),
        more = more.display(),
        go = go.display()
    );
    submit(&volume, &home, &text);

    // The result is at the other end while the script still runs.
    until("the result has left", || out(&volume.run(&["job", "show", "1"])).contains("result left early"));
    assert_eq!(volume.json(&["job", "show", "1"])["summary"]["state"], "running");
    assert!(fs::read(home.join("taken")).expect("taken home") == result);

    // The job needs its input and its results; a file that was not staged out stays as well.
    fs::write(volume.at.join("scratch"), &result).expect("write");
    let dry = purge(&volume, &["--dry-run"]);
    assert_eq!(paths(&dry), Vec::<String>::new(), "{dry}");
    assert_eq!((dry["kept_for_jobs"].as_u64(), dry["kept_unsaved"].as_u64()), (Some(2), Some(1)), "{dry}");

    // The file is written again: the version sent is not the one here, so it is sent again.
    fs::write(&more, "").expect("write");
    let longer = [&result[..], b"more"].concat();
    until("the newer version has left", || fs::read(home.join("taken")).is_ok_and(|there| there == longer));
    fs::write(&go, "").expect("write");
    assert_eq!(code(&volume.run(&["job", "wait", "1"])), 0, "{}", out(&volume.run(&["job", "show", "1"])));
    assert!(fs::read(home.join("late")).expect("taken home") == result);
    let log = out(&volume.run(&["job", "log", "1", "--part", "stage-out"]));
    assert!(log.contains("is there already"), "the stage-out part sends it no third time: {log}");

    // Now all but the file that is nowhere else may go, unless it is open or was changed since.
    let open = fs::File::open(volume.at.join("input")).expect("open");
    fs::write(volume.at.join("late"), &input).expect("write");
    let dry = purge(&volume, &["--dry-run"]);
    assert_eq!(paths(&dry), ["result"], "{dry}");
    assert_eq!((dry["kept_open"].as_u64(), dry["kept_unsaved"].as_u64()), (Some(1), Some(2)), "{dry}");
    assert!(volume.at.join("result").exists(), "a dry run removes nothing");
    drop(open);
    until("it is closed", || paths(&purge(&volume, &["--dry-run"])).len() == 2);
    let done = purge(&volume, &[]);
    assert_eq!(paths(&done), ["input", "result"], "{done}");
    assert!(!volume.at.join("input").exists() && !volume.at.join("result").exists());
    assert!(fs::read(volume.at.join("scratch")).expect("kept") == result);
    assert!(fs::read(volume.at.join("late")).expect("kept") == input);
    assert_eq!(fs::read_dir(&volume.at).expect("ls").count(), 2, "no odd names are left");
    // As after a purge that was killed before its last check.
    fs::rename(volume.at.join("scratch"), volume.at.join(".entrepot-purged-scratch")).expect("rename");
    assert_eq!(paths(&purge(&volume, &[])), Vec::<String>::new());
    assert!(fs::read(volume.at.join("scratch")).expect("its name is back") == result);
    if rustix::process::geteuid().is_root() {
        assert_eq!(code(&volume.run_as_nobody(&["purge", "--dry-run"])), 4, "the operator's alone");
    }
    volume.ok(&["check"]);
}

/// [S-074] A job that only waits, and never ran.
#[test]
fn the_input_of_a_queued_job_is_not_purged() {
    let Some(nginx) = Nginx::start() else { return };
    let one_core = |toml: String| {
        let toml = toml.replace("# age = \"0s\"", "age = \"1ms\"");
        toml.replace("[jobs]", "[jobs]\ncores = 1")
    };
    let Some(volume) = Volume::up_with(one_core) else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    fs::write(nginx.root().join("input"), server::data(2 << 20, 1)).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("input"), "input"]);
    assert_eq!(paths(&purge(&volume, &["--dry-run"])), ["input"], "nobody needs it yet");
    submit(&volume, &home, &format!("until [ -e {}/go ]; do sleep 0.05; done\n", home.display()));
    submit(
        &volume,
        &home,
        &format!("#STAGEIN entrepot stage in --keep {} {}/input\ntrue\n", nginx.uri("input"), volume.at.display()),
    );
    until("it waits for the core", || out(&volume.run(&["job", "show", "2"])).contains("stage-in succeeded; waits"));
    let dry = purge(&volume, &[]);
    assert_eq!((paths(&dry), dry["kept_for_jobs"].as_u64()), (Vec::new(), Some(1)), "{dry}");
    // Also after a restart of the daemon.
    volume.kill();
    volume.up_again();
    let dry = purge(&volume, &[]);
    assert_eq!((paths(&dry), dry["kept_for_jobs"].as_u64()), (Vec::new(), Some(1)), "{dry}");
    volume.ok(&["job", "cancel", "2"]);
    until("nobody needs it any more", || paths(&purge(&volume, &[])) == ["input"]);
    fs::write(home.join("go"), "").expect("write");
    assert_eq!(code(&volume.run(&["job", "wait", "1"])), 0);
}

/// Names and rules of the files in a report.
fn by_rule(report: &serde_json::Value) -> Vec<(String, String)> {
    let text = |file: &serde_json::Value, key: &str| file[key].as_str().unwrap_or_default().to_string();
    let files = report["files"].as_array().expect("files");
    let mut taken: Vec<_> = files.iter().map(|file| (text(file, "path"), text(file, "rule"))).collect();
    taken.sort();
    taken
}

/// [S-250] [S-251]
#[test]
fn rules_take_what_they_say_and_the_only_copy_only_where_they_say_so() {
    let Some(nginx) = Nginx::start() else { return };
    let ruled = |toml: String| {
        toml + "\n[[purge.rule]]\nname = \"safe\"\npath = \"**\"\nolder = \"1ms\"\n\
                [[purge.rule]]\nname = \"tmp\"\npath = \"tmp/**\"\nkeep = [\"tmp/shared\"]\nolder = \"1ms\"\n\
                even_if_only_here = true\n\
                [[purge.rule]]\nname = \"nobody\"\npath = \"run/**\"\nolder = \"1ms\"\nuser = [\"4294967294\", \"no one\"]\n\
                even_if_only_here = true\n\
                [[purge.rule]]\nname = \"old\"\npath = \"run/**\"\nolder = \"30d\"\neven_if_only_here = true\n"
    };
    let kept = |toml: String| {
        assert!(toml.contains("# keep = []"), "the template");
        ruled(toml.replace("# keep = []", "keep = [\"tmp/precious\"]"))
    };
    let Some(volume) = Volume::up_with(kept) else { return };
    fs::write(nginx.root().join("input"), server::data(2 << 20, 1)).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("input"), "input"]);
    for dir in ["tmp/shared", "tmp/precious", "run"] {
        fs::create_dir_all(volume.at.join(dir)).expect("directory");
    }
    // Large and small: what lies in its stub goes as well.
    let large = server::data(6 << 20, 2);
    for (name, bytes) in
        [("large", &large[..]), ("small", b"few"), ("shared/x", b"x"), ("precious/x", b"x"), ("open", b"o")]
    {
        fs::write(volume.at.join("tmp").join(name), bytes).expect("write");
    }
    // Copied with old times, it is new here all the same; times to come keep nothing.
    for (name, time) in [("run/old-times", "2001-01-01"), ("tmp/to\ncome", "2099-01-01")] {
        fs::write(volume.at.join(name), b"new").expect("write");
        let mut touch = Command::new("touch");
        assert!(touch.args(["-d", time]).arg(volume.at.join(name)).status().expect("touch").success());
    }
    let open = fs::File::open(volume.at.join("tmp/open")).expect("open");

    let expected = |names: &[(&str, &str)]| -> Vec<(String, String)> {
        names.iter().map(|(path, rule)| (path.to_string(), rule.to_string())).collect()
    };
    let dry = purge(&volume, &["--dry-run"]);
    let takes = expected(&[("input", "safe"), ("tmp/large", "tmp"), ("tmp/small", "tmp"), ("tmp/to\ncome", "tmp")]);
    assert_eq!(by_rule(&dry), takes, "{dry}");
    assert_eq!((dry["kept_by_exception"].as_u64(), dry["kept_open"].as_u64()), (Some(1), Some(1)), "{dry}");
    assert_eq!(dry["kept_unsaved"], 2, "tmp/shared/x and run/old-times: {dry}");
    let sum = &dry["rules"][1];
    assert_eq!((sum["only_here_files"].as_u64(), sum["only_here_bytes"].as_u64()), (Some(3), Some((6 << 20) + 6)));
    assert!(dry["notes"][0].as_str().is_some_and(|note| note.contains("no one")), "{dry}");
    let told = out(&volume.run(&["purge", "--dry-run"]));
    assert!(told.contains("nowhere else") && told.contains("rule tmp: unused for"), "{told}");
    assert!(told.contains("tmp/to\\ncome "), "a name writes no line of its own: {told}");
    assert!(volume.at.join("tmp/large").exists(), "a dry run removes nothing");

    assert_eq!(by_rule(&purge(&volume, &[])), takes);
    drop(open);
    until("it is closed", || by_rule(&purge(&volume, &[])) == expected(&[("tmp/open", "tmp")]));
    for (name, is_there) in
        [("tmp/large", false), ("tmp/shared/x", true), ("tmp/precious/x", true), ("run/old-times", true)]
    {
        assert_eq!(volume.at.join(name).exists(), is_there, "{name}");
    }
    assert_eq!(volume.counted("purged_files"), 5);
    volume.ok(&["check"]);
}

/// [S-250] While it is taken home.
#[test]
fn what_is_on_its_way_home_is_not_purged() {
    let rule = "\n[[purge.rule]]\nname = \"all\"\npath = \"**\"\nolder = \"1ms\"\neven_if_only_here = true\n";
    let Some(volume) = Volume::up_with(|toml| toml + rule) else { return };
    fs::write(volume.at.join("result"), server::data(2 << 20, 3)).expect("write");
    assert_eq!(by_rule(&purge(&volume, &["--dry-run"])).len(), 1);
    // A server that takes connections and sends nothing.
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!("webdav://{}/result", server.local_addr().expect("an address"));
    let mut sending = Command::new(&volume.binary);
    sending.env("ENTREPOT_VOLUME", &volume.toml).args(["stage", "out", "result", &uri]).current_dir(&volume.at);
    let mut sending = sending.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let asked = server.accept().expect("it is asked");
    let report = purge(&volume, &[]);
    assert_eq!((by_rule(&report).len(), report["kept_open"].as_u64()), (0, Some(1)), "{report}");
    sending.kill().expect("kill");
    sending.wait().expect("wait");
    drop((asked, server));
    until("it is given up", || by_rule(&purge(&volume, &["--dry-run"])).len() == 1);
    assert!(volume.at.join("result").exists());
}
