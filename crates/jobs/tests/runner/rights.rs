//! Permissions of users, and hostile scripts: a command gets only its own words.

use crate::world::{World, me};
use engine::stage::Stop;
use jobs::Error;
use jobs::request::*;
use node::control::{Handler, Responder};
use std::sync::Arc;

/// [S-051]
#[test]
fn directives_are_words_and_nothing_else() {
    let world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#STAGEIN sh -c 'printf \"<%s>\" \"$@\" > words' x '; touch owned' '$(touch owned)' '`touch owned`' '*' '' -rf 'é \\'\ntrue\n",
    );
    assert_eq!(world.end(id).summary.why, None);
    assert_eq!(world.read("words").unwrap(), "<; touch owned><$(touch owned)><`touch owned`><*><><-rf><é \\>");
    assert_eq!(world.read("owned"), None);
}

/// [S-051]
#[test]
fn what_asks_for_a_shell_is_refused_and_nothing_is_queued() {
    let world = World::new();
    for directive in ["cp a b; touch owned", "cp $(touch owned) b", "cp `touch owned` b", "cp a > owned", "cp a\0b c"] {
        let request = world.request(&format!("#!/bin/sh\n#STAGEIN {directive}\ntrue\n"));
        match world.runner.submit(me(), request) {
            Err(Error::Script(complaints)) => assert_eq!(complaints[0].line, 2),
            other => panic!("{directive}: {other:?}"),
        }
    }
    assert!(world.runner.list(me(), List { all: true }).is_empty());
    assert_eq!(world.read("owned"), None);
}

#[test]
fn names_are_for_display_only() {
    let world = World::new();
    for name in ["-rf /", "a b;touch owned", "../../etc/x", "", "\u{1b}[2J\n"] {
        let mut request = world.request("#!/bin/sh\necho \"$ENTREPOT_JOB_NAME\"\n");
        request.file_name = name.into();
        let id = world.runner.submit(me(), request).unwrap().id;
        let detail = world.end(id);
        assert_eq!(detail.summary.state, JobState::Completed, "{name:?}");
        assert!(!detail.summary.name.contains(char::is_control) && !detail.summary.name.is_empty());
    }
    assert_eq!(world.read("owned"), None);
}

#[test]
fn a_script_runs_as_it_is_whatever_its_bytes() {
    let world = World::new();
    let mut request = world.request("");
    request.script = Script::from(b"#!/bin/sh\n# \xff\xfe\nprintf 'caf\xe9' > out\nexit 0\n\0\xff binary".to_vec());
    let sent = serde_json::to_string(&request).unwrap();
    let id = world.runner.submit(me(), serde_json::from_str(&sent).unwrap()).unwrap().id;
    assert_eq!(world.end(id).summary.why, None);
    assert_eq!(std::fs::read(world.home().join("out")).unwrap(), b"caf\xe9");
}

#[test]
fn what_is_submitted_is_what_runs() {
    let world = World::tuned(1, |_| {});
    world.fifo("go");
    let holds = world.submit("#!/bin/sh\nread line < go\n");
    let copied = world.submit("#!/bin/sh\necho first > out\n");
    let copy = world.runner.show(me(), copied).unwrap().log_dir.join("script");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(copy).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o500);
    world.tell("go");
    world.end(holds);
    world.end(copied);
    assert_eq!(world.read("out").unwrap(), "first\n");
}

#[test]
fn the_environment_is_the_users_and_clean() {
    let world = World::new();
    let mut request = world.request("#!/bin/sh\nenv > out\numask >> out\n");
    request.umask = 0o027;
    for (name, value) in
        [("MINE", "1"), ("LD_PRELOAD", "/x.so"), ("BASH_ENV", "x"), ("ENTREPOT_JOB_ID", "9"), ("HOME", "/x")]
    {
        request.environment.insert(name.into(), value.into());
    }
    let id = world.runner.submit(me(), request).unwrap().id;
    world.end(id);
    let out = world.read("out").unwrap();
    assert!(
        out.contains("MINE=1\n") && out.contains(&format!("ENTREPOT_JOB_ID={id}\n")) && out.ends_with("0027\n"),
        "{out}"
    );
    for absent in ["LD_PRELOAD", "BASH_ENV", "HOME=/x", "CARGO"] {
        assert!(!out.contains(absent), "{absent} in {out}");
    }
}

#[test]
fn a_directory_where_the_user_may_not_go_stops_the_job() {
    let world = World::new();
    let mut request = world.request("#!/bin/sh\ntrue\n");
    request.cwd = world.home().join("absent");
    let id = world.runner.submit(me(), request).unwrap().id;
    assert!(world.end(id).summary.why.unwrap().contains("cannot start in"));
    let mut request = world.request("#!/bin/sh\ntrue\n");
    request.cwd = "relative".into();
    assert!(matches!(world.runner.submit(me(), request), Err(Error::Refused { .. })));
}

/// [S-050]
#[test]
fn others_see_and_touch_nothing() {
    let world = World::new();
    let id = world.submit("#!/bin/sh\necho secret\n");
    world.end(id);
    let other = Caller { uid: 4_000_000, gid: 4_000_000 };
    let log = Log { id, part: PartKind::Compute, stream: Stream::Out, offset: 0 };
    assert!(matches!(world.runner.show(other, id), Err(Error::NoJob(_))));
    assert!(matches!(world.runner.log(other, &log), Err(Error::NoJob(_))));
    assert!(matches!(world.runner.cancel(other, id), Err(Error::NoJob(_))));
    assert!(matches!(world.runner.watch(other, id, &mut |_| true), Err(Error::NoJob(_))));
    assert!(world.runner.list(other, List { all: true }).is_empty());
    assert!(world.runner.show(Caller { uid: 0, gid: 0 }, id).is_ok(), "root sees all");
    assert!(
        matches!(world.runner.submit(other, world.request("#!/bin/sh\n")), Err(Error::Refused { .. })),
        "no account"
    );
}

#[test]
fn requests_come_as_json() {
    let world = World::new();
    let caller = me();
    let ask = |command: &str, args| {
        let mut listen = |_| true;
        world.runner.handle(&caller, command, args, &mut Responder::new(&mut listen, Arc::new(Stop::default())))
    };
    let request = serde_json::to_value(world.request("#!/bin/sh\necho hi\n")).unwrap();
    let submitted: Submitted = serde_json::from_value(ask("job.submit", request).unwrap()).unwrap();
    let one = serde_json::to_value(OneJob { id: submitted.id }).unwrap();
    let last: Watched = serde_json::from_value(ask("job.watch", one.clone()).unwrap()).unwrap();
    assert_eq!(last.summary.state, JobState::Completed);
    let log = serde_json::json!({ "id": submitted.id, "part": "compute" });
    let piece: LogPiece = serde_json::from_value(ask("job.log", log).unwrap()).unwrap();
    assert_eq!(piece.data, Script::Text("hi\n".into()));
    assert_eq!(ask("job.list", serde_json::json!({})).unwrap(), serde_json::json!([]));
    assert!(ask("job.show", one).is_ok());
    assert!(ask("job.show", serde_json::json!({ "id": "x" })).is_err());
    assert!(ask("job.nonsense", serde_json::json!({})).is_err());
}

/// [S-051]
#[test]
fn run_by_root_the_job_is_its_submitters() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can run jobs as somebody else");
        return;
    }
    let nobody = Caller { uid: 65_534, gid: 65_534 };
    let world = World::new();
    let script = "#!/bin/sh\n#STAGEIN sh -c 'id -u > in-uid'\nid -u; id -g; id -G; id -un\nkill -0 1 || echo cannot; cat $SPEC || echo cannot\n";
    let mut request = world.request(script);
    let spec = world.dir.path().join("jobs/1/compute.spec");
    request.environment.insert("SPEC".into(), spec.to_str().unwrap().into());
    let id = world.runner.submit(nobody, request).unwrap().id;
    let detail = world.end(id);
    assert_eq!(detail.summary.why, None);
    assert_eq!(detail.summary.user, "nobody");
    assert_eq!(world.log(id, PartKind::Compute, Stream::Out), "65534\n65534\n65534\nnobody\ncannot\ncannot\n");
    assert_eq!(world.read("in-uid").unwrap(), "65534\n");
    let log = std::fs::metadata(detail.log_dir.join("compute.out")).unwrap();
    assert_eq!(
        (std::os::unix::fs::MetadataExt::uid(&log), std::os::unix::fs::MetadataExt::mode(&log) & 0o777),
        (65_534, 0o600)
    );
    assert!(world.runner.show(nobody, id).is_ok());
}
