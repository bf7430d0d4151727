//! The dashboard of a real volume: its contents about files, jobs and moves, by access.

use crate::real::{Volume, noise, until};
use crate::server::port::free_port;
use crate::watched::{TOKEN, get, with};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Answer of an address of the dashboard, with or without the token.
fn asked(port: u16, path: &str, token: bool) -> (u16, Value) {
    let header = if token { format!("Authorization: Bearer {TOKEN}\r\n") } else { String::new() };
    let (code, text) = get(port, path, &header);
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The lines in `[endpoint]` of a volume that listens at that port, with a token in that directory.
fn section(dir: &Path, port: u16) -> String {
    let token = dir.join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).expect("written");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("mode");
    format!("listen = \"127.0.0.1:{port}\"\ntoken_file = \"{}\"\n", token.display())
}

fn submit(volume: &Volume, name: &str, command: &str) {
    let script = volume.dir.path().join(name);
    std::fs::write(&script, format!("#!/bin/bash\n#ENTREPOT -n 1 -t 00:10:00\n{command}\n")).expect("written");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
}

/// Writes a file, has it moved off a target, and gives the target's name.
fn moved(volume: &Volume, file: &str) -> String {
    std::fs::write(volume.at.join(file), noise(3 << 20)).expect("write");
    let layout = volume.json(&["layout", file]);
    let target = layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("a target").to_owned();
    volume.ok(&["target", "drain", &target]);
    target
}

/// [S-229]
/// [S-323]
/// [S-425]
#[test]
fn who_has_the_token_sees_what_moves_and_why_jobs_and_files() {
    let (dir, port) = (tempfile::tempdir().expect("dir"), free_port());
    let Some(volume) = Volume::up_with(|toml| with(&toml, &section(dir.path(), port))) else { return };
    submit(&volume, "wave.sh", "sleep 600");
    submit(&volume, "fails.sh", "exit 3");
    let target = moved(&volume, "secret-name");
    let own = rustix::process::geteuid().as_raw();
    for path in ["/api/volume", "/api/jobs", "/api/space", "/api/file?path=secret-name"] {
        assert_eq!(asked(port, path, false).0, 401, "{path}");
    }
    until("the volume says what moved", || {
        let (code, glance) = asked(port, "/api/volume", true);
        let events = glance["events"].as_array().cloned().unwrap_or_default();
        let of_target = glance["targets"].as_array().and_then(|all| all.iter().find(|t| t["name"] == *target).cloned());
        code == 200
            && of_target.is_some_and(|of_target| of_target["state"] == "draining")
            && events.iter().any(|event| {
                event["path"] == "secret-name"
                    && event["from"][0] == *target
                    && event["why"] == format!("target {target} was being emptied")
            })
    });
    until("the job runs", || {
        let jobs = asked(port, "/api/jobs?find=wave", true).1;
        jobs["found"] == 1 && jobs["jobs"][0]["state"] == "running" && jobs["users"][0]["cores"] == 1
    });
    until("the job's failure is told with its reason", || {
        let events = asked(port, "/api/volume", true).1["events"].as_array().cloned().unwrap_or_default();
        events.iter().any(|event| {
            event["job"] == 2
                && event["what"] == "job 2: failed"
                && event["why"].as_str().is_some_and(|why| why.contains("status 3"))
        })
    });
    until("the failed job is shown", || {
        let jobs = asked(port, "/api/jobs?find=fails", true).1;
        jobs["found"] == 1 && jobs["jobs"][0]["state"] == "failed"
    });
    volume.ok(&["quota", "set", "--user", "48000", "--hard", "1GiB"]);
    until("the quota is shown", || asked(port, "/api/volume", true).1["quotas"]["limits"] == 1);
    until("whose files take the space is known", || {
        let (code, space) = asked(port, "/api/space", true);
        let mine = space["users"].as_array().and_then(|users| users.iter().find(|user| user["uid"] == own).cloned());
        code == 200
            && mine.is_some_and(|mine| {
                mine["bytes"] == 3 << 20 && mine["on_targets_bytes"] == 3 << 20 && mine["name"].is_string()
            })
    });
    let (code, file) = asked(port, "/api/file?path=secret-name", true);
    assert!(code == 200 && file["size"] == 3 << 20, "{file}");
    let objects = file["mirrors"][0]["segments"][0]["objects"].as_array().cloned().unwrap_or_default();
    assert!(!objects.is_empty() && objects.iter().all(|object| object["target"] != *target), "{file}");
    let whole = format!("/api/file?path={}/secret-name", volume.at.display());
    assert_eq!(asked(port, &whole, true).1["path"], "secret-name");
    for (path, code) in [("nothing", 404), ("..%2F..%2Fetc%2Fpasswd", 404), (".", 400)] {
        let (status, answer) = asked(port, &format!("/api/file?path={path}"), true);
        assert!(status == code && answer["error"].is_string(), "{path}: {status} {answer}");
    }
    volume.ok(&["job", "cancel", "1"]);
}

/// [S-229]
#[test]
fn without_a_token_the_dashboard_names_no_file_and_no_user() {
    let port = free_port();
    let Some(volume) = Volume::up_with(|toml| with(&toml, &format!("listen = \"127.0.0.1:{port}\"\n"))) else { return };
    submit(&volume, "secret-job.sh", "sleep 600");
    let target = moved(&volume, "secret-name");
    until("the target is told of", || {
        let (code, glance) = asked(port, "/api/volume", false);
        let text = glance.to_string();
        assert!(code == 200 && !text.contains("secret") && !text.contains("\"uid\""), "{text}");
        assert!(!text.contains(&volume.at.display().to_string()), "{text}");
        text.contains(&format!("target {target} is empty"))
    });
    for path in ["/api/jobs", "/api/space", "/api/file?path=secret-name"] {
        assert_eq!(asked(port, path, true).0, 403, "{path}");
    }
    volume.ok(&["job", "cancel", "1"]);
}
