//! Notices of the end of a job: the operator's command and mail to the owner, each with the permissions of its user.

use crate::world::{World, me};
use jobs::request::*;
use std::os::unix::fs::PermissionsExt;

/// A world with these programs, each of which writes to a fifo of its name.
fn world(programs: &[&str]) -> World {
    let mut world = World::new();
    for name in programs {
        let heard = format!("{name}.heard");
        world.fifo(&heard);
        std::fs::set_permissions(world.home().join(&heard), PermissionsExt::from_mode(0o666)).unwrap();
        let script = format!(
            "#!/bin/sh\nexec > '{}'\nid -u\necho \"$@\"\nenv | grep ^ENTREPOT | sort\ncat\n",
            world.home().join(&heard).display()
        );
        let program = world.home().join(name);
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    world.restart();
    world
}

/// Another user, if the tests may change users.
fn owner() -> Caller {
    if me().uid == 0 { Caller { uid: 65534, gid: 65534 } } else { me() }
}

/// [S-314]
#[test]
fn the_owner_hears_by_mail_of_their_own_rights_where_results_are_and_what_is_next() {
    let world = world(&["sendmail"]);
    let result = world.dir.path().join("mnt/out.nc");
    let script = format!(
        "#!/bin/sh\n#ENTREPOT --mail-type=STAGE_OUT --mail-user=ann+x@example.org\n#STAGEOUT entrepot stage out {} file:///x\nexit 3\n",
        result.display()
    );
    let mut request = world.request(&script);
    request.file_name = "na\u{ef}ve; touch owned".into();
    let id = world.runner.submit(owner(), request).unwrap().id;
    let mail = world.hear("sendmail.heard");
    let lines: Vec<_> = mail.lines().collect();
    assert_eq!(lines[..2], [owner().uid.to_string().as_str(), "-i -- ann+x@example.org"], "{mail}");
    let text = mail.split_once("To: ann+x@example.org\n").expect(&mail).1;
    assert!(text.starts_with(&format!("Subject: job {id} (na?ve; touch owned): failed\n")), "{mail}");
    for line in [&format!("  {}", result.display()), &format!("Once the cause is gone: entrepot job retry {id}")] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{mail}");
    }
    assert!(text.contains("kept at:") && world.read("owned").is_none());
}

/// [S-314]
#[test]
fn the_operators_command_hears_of_each_end_in_its_environment() {
    let world = world(&["on_end"]);
    let id = world.runner.submit(owner(), world.request("#!/bin/sh\n#ENTREPOT -J $(id)\ntrue\n")).unwrap().id;
    let heard = world.hear("on_end.heard");
    let lines: Vec<_> = heard.lines().collect();
    assert_eq!(lines[..2], [me().uid.to_string().as_str(), "a b"], "as the operator: {heard}");
    for line in [
        format!("ENTREPOT_JOB_ID={id}"),
        "ENTREPOT_JOB_NAME=$(id)".into(),
        "ENTREPOT_JOB_STATE=completed".into(),
        format!("ENTREPOT_JOB_UID={}", owner().uid),
    ] {
        assert!(lines.iter().any(|l| *l == line), "{line} is not in\n{heard}");
    }
}

/// [S-316]
#[test]
fn a_mail_that_cannot_be_sent_is_said_at_submission_and_an_event_and_changes_nothing() {
    let world = World::new();
    let submitted = world.runner.submit(me(), world.request("#!/bin/sh\n#SBATCH --mail-type=END\ntrue\n")).unwrap();
    assert!(submitted.warnings.iter().any(|w| w.contains("no mail will be sent")), "{:?}", submitted.warnings);
    assert_eq!(world.end(submitted.id).summary.state, JobState::Completed);
    let said = world.hear_of("not told");
    assert!(said.starts_with(&format!("not told job {}: its owner got no mail: ", submitted.id)), "{said}");
}

#[test]
fn an_address_that_is_none_is_refused_with_its_line() {
    let world = World::new();
    let request = world.request("#!/bin/sh\n#ENTREPOT --mail-type=END --mail-user=-f\ntrue\n");
    let Err(jobs::Error::Script(complaints)) = world.runner.submit(me(), request) else { panic!("taken") };
    assert!(complaints[0].line == 2 && complaints[0].cause.contains("--mail-user"), "{complaints:?}");
}
