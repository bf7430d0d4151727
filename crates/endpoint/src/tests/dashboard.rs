//! The dashboard: data per kind of client, their amount per request, and behaviour while a query hangs.

use super::*;
use node::control::answers::{SpaceRow, Sum};
use serde_json::json;

/// A volume with `targets` targets, the last of them failed.
pub fn glance(targets: u64, with_names: bool) -> Value {
    let target = |n| {
        json!({"name": format!("t{n:03}"), "tier": "fast", "state": if n + 1 == targets { "failed" } else { "ok" },
            "total_bytes": 1_u64 << 40, "free_bytes": (1_u64 << 33) * (n + 1)})
    };
    let mut shown = json!({"name": "vol", "with_names": with_names, "host": "n1", "now_ms": 1_700_000_000_000_u64, "uptime_s": 7000,
        "problems": ["target t099 is failed"], "total_bytes": targets << 40, "free_bytes": targets << 39,
        "tiers": [{"name": "fast", "total_bytes": targets << 40, "free_bytes": targets << 39}],
        "targets": (0..targets).map(target).collect::<Vec<_>>(), "nodes": [], "drains": [],
        "mover": {"running": 1, "changes_done": 5, "changes_failed": 0, "bytes_copied": 1_u64 << 30},
        "rates": [{"from_s": 20, "to_s": 10, "read_bytes_s": 2 << 20, "written_bytes_s": 0, "staged_bytes_s": 0},
            {"from_s": 10, "to_s": 0, "read_bytes_s": 1 << 20, "written_bytes_s": 0, "staged_bytes_s": 0}],
        "moves": [{"number": 1, "what": "replace target", "by": "drain", "done_bytes": 1_u64 << 20, "total_bytes": 4_u64 << 20, "left_s": 3}],
        "events": [{"number": 1, "at_ms": 1_700_000_000_000_u64, "kind": "target", "what": "target t099 failed", "why": "it gave errors"}]});
    if with_names {
        shown["moves"][0]["path"] = json!("secret/<img src=x onerror=alert(1)>");
        shown["moves"][0]["why"] = json!("target t099 was being emptied");
    }
    shown
}

pub fn job(n: u64) -> Job {
    let staging = (n % 1000 == 7).then_some(Staging { done_bytes: 1 << 30, total_bytes: 4 << 30, left_s: Some(90) });
    let state = if staging.is_some() {
        "staging-in"
    } else if n % 100 == 3 {
        "running"
    } else {
        "queued"
    };
    Job {
        id: n,
        name: format!("job {n} {}", "x".repeat(4000)),
        user: format!("user{}", n % 50),
        host: None,
        scheduler: None,
        state: state.into(),
        detail: "waits for its turn".into(),
        cores: 4,
        since_ms: 1_700_000_000_000,
        staging,
    }
}

pub fn space() -> Users {
    let sum = |files, bytes, on_targets| Sum { files, bytes, on_targets };
    let of = |user: &str, uid, bytes| SpaceRow { name: user.into(), uid: Some(uid), sum: sum(1200, bytes, 2 * bytes) };
    let users = vec![of("ann", 1000, 1 << 40), of("bob", 1001, 1 << 38)];
    Users { users, users_count: 22, unread: 1, others: sum(9, 1 << 20, 1 << 20) }
}

pub fn file(path: &str) -> Value {
    let object = |n| json!({"target": format!("t{n:03}"), "target_state": "ok", "object": format!("{n:016x}"), "state": "complete"});
    let segment = json!({"start": 0, "end": null, "stripe_size": 1 << 20, "objects_count": 4, "objects": (0..4).map(object).collect::<Vec<_>>()});
    json!({"path": path, "size": 9 << 20, "inline": false, "uid": 0, "sentences": ["Mirror 0 of 1 is in sync."], "history": [],
        "heat": {"mirror": 0, "segments": [{"reads": 12, "writes": 3, "tier": "fast", "moving": false}]},
        "mirrors": [{"state": "in_sync", "segments_count": 1, "segments": [segment]}]})
}

fn with_token(dir: &Path, config: &mut volume::Endpoint) {
    config.token_file = Some(super::file(dir, "token", TOKEN));
}

fn body(text: &str) -> Value {
    serde_json::from_str(text.split_once("\r\n\r\n").expect("a head").1).expect("JSON")
}

/// [S-229]
#[test]
fn files_and_jobs_are_shown_to_who_has_the_token_and_to_nobody_else() {
    let daemon = || Daemon { targets: 3, jobs: 3, ..Daemon::default() };
    // Without a token every user of the machine has access, so data of other users are not shown, whatever token is
    // sent.
    let open = serve(daemon(), |_, _| ());
    for token in ["", TOKEN] {
        for path in ["/api/jobs", "/api/jobs?find=x", "/api/space", "/api/file?path=a", "/api/file"] {
            let (code, text) = get(open.at, path, token);
            assert!(code == 403 && text.contains("token_file") && !text.contains("user0"), "{path}: {text}");
        }
        let (code, text) = get(open.at, "/api/volume", token);
        assert!(code == 200 && text.contains("\"with_names\":false") && !text.contains("secret"), "{text}");
    }
    let closed = serve(daemon(), with_token);
    for path in ["/api/volume", "/api/jobs", "/api/space", "/api/file?path=a", "/api/nothing"] {
        for token in ["", "wrong-wrong-wrong-wrong", &TOKEN[1..]] {
            let (code, text) = get(closed.at, path, token);
            assert!(code == 401 && !text.contains("user0") && !text.contains("t000"), "{path}: {text}");
        }
    }
    assert!(get(closed.at, "/api/volume", TOKEN).1.contains("secret/"));
    assert_eq!(body(&get(closed.at, "/api/jobs", TOKEN).1)["total"], 3);
    assert_eq!(body(&get(closed.at, "/api/file?path=a%20b%2F%C3%A4", TOKEN).1)["path"], "a b/ä");
    let (code, text) = get(closed.at, "/api/file?path=gone", TOKEN);
    assert_eq!((code, body(&text)), (404, json!({"error": "gone: No such file or directory"})));
    assert_eq!([get(closed.at, "/api/file", TOKEN).0, get(closed.at, "/api/nothing", TOKEN).0], [400, 404]);
}

/// [S-230]
#[test]
fn the_pages_hold_no_data_and_load_nothing_from_elsewhere() {
    let served = serve(Daemon::default(), with_token);
    for (path, kind) in [
        ("/", "text/html"),
        ("/file", "text/html"),
        ("/style.css", "text/css"),
        ("/parts.js", "text/javascript"),
        ("/app.js", "text/javascript"),
        ("/file.js", "text/javascript"),
    ] {
        let (code, text) = get(served.at, path, "");
        assert!(code == 200 && text.contains(&format!("content-type: {kind}")), "{path}");
        assert!(
            text.contains("content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}"
        );
        assert!(
            !text.contains("http:") && !text.contains("https:") && !text.contains("//cdn"),
            "{path} names another place"
        );
        for markup in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\"", " onclick="]
        {
            assert!(!text.contains(markup), "{path}: {markup}");
        }
        let (code, head) = ask(TcpStream::connect(served.at).expect("connects"), &format!("HEAD {path} HTTP/1.1"));
        assert!(code == 200 && head.ends_with("\r\n\r\n"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        for path in ["/", "/api/volume", "/api/jobs", "/api/file?path=a"] {
            assert_eq!(
                ask(TcpStream::connect(served.at).expect("connects"), &format!("{method} {path} HTTP/1.1")).0,
                405
            );
        }
    }
}

/// [S-231]
#[test]
fn of_ten_thousand_jobs_a_page_is_sent_those_whose_data_move_first() {
    let served = serve(Daemon { targets: 100, jobs: 10_000, ..Daemon::default() }, with_token);
    let ask = |query: &str| {
        let text = get(served.at, &format!("/api/jobs{query}"), TOKEN).1;
        assert!(text.len() < 128 << 10, "{} bytes", text.len());
        body(&text)
    };
    let first = ask("");
    assert_eq!((&first["total"], &first["found"], &first["from"]), (&json!(10_000), &json!(10_000), &json!(0)));
    assert_eq!(first["states"], json!({"queued": 9890, "running": 100, "staging-in": 10}));
    let states = |page: &Value| {
        page["jobs"].as_array().expect("jobs").iter().map(|job| job["state"].clone()).collect::<Vec<_>>()
    };
    assert!(states(&first)[..10].iter().all(|state| state == "staging-in") && states(&first)[10] == "running");
    assert_eq!((first["users_count"].clone(), first["users"].as_array().map(Vec::len)), (json!(50), Some(20)));
    // All pages together contain all jobs, each once.
    let mut seen = std::collections::BTreeSet::new();
    for from in (0..10_000).step_by(100) {
        let page = ask(&format!("?from={from}"));
        seen.extend(page["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_u64()));
    }
    assert_eq!(seen.len(), 10_000);
    let some = ask("?find=USER7+staging");
    assert!(some["found"] == 10 && some["jobs"][0]["user"] == "user7", "{}", some["found"]);
    assert_eq!(ask("?from=99999999")["from"], 0);
    assert_eq!(ask("?from=-1&find=nothing%20of%20the%20kind")["jobs"], json!([]));
    assert!(get(served.at, "/api/volume", TOKEN).1.len() < 128 << 10);
}

/// [S-231]
#[test]
fn a_look_is_for_all_and_one_that_hangs_holds_up_nothing_else() {
    let daemon = Arc::new(Daemon::default());
    let served = serve_shared(daemon.clone(), with_token);
    let began = Instant::now();
    (0..50).for_each(|_| assert_eq!(get(served.at, "/api/volume", TOKEN).0, 200));
    assert!(daemon.glances.load(Ordering::Relaxed) <= 1 + began.elapsed().as_secs(), "once a second");
    let many: Vec<_> =
        (0..8).map(|_| std::thread::spawn(move || get(served.at, "/api/file?path=hangs", TOKEN))).collect();
    for one in many {
        let (code, text) = one.join().expect("no panic");
        assert!(code == 503 && text.contains("does not answer"), "{text}");
    }
    let (code, text) = get(served.at, "/api/file?path=another", TOKEN);
    assert!(code == 503 && text.contains("the namespace does not answer"), "{text}");
    assert_eq!(daemon.files.load(Ordering::Relaxed), 1, "nothing can end it, so no other is begun");
    for path in ["/healthz", "/metrics", "/api/volume", "/api/jobs", "/"] {
        assert_eq!(get(served.at, path, TOKEN).0, 200, "{path}");
    }
}
