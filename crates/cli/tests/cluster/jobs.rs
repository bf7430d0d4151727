//! Jobs on any node: submitted on one, seen, waited for and cancelled on the others; what they need is kept for them by
//! all.

use crate::hosts::{USER, hosts};
use crate::real::{code, err, until_within};
use crate::volume::{Node, Shared, leading};
use serde_json::Value;

const SCRIPT: &str = "/tmp/entrepot-job.sh";
const INPUT: &str = "/tmp/entrepot-input";

/// Submits a script; the job's number.
fn submitted(node: &Node<'_>, text: &str) -> String {
    std::fs::write(node.host.path(SCRIPT), text).expect("a script");
    let done = node.run(&["job", "submit", SCRIPT]);
    assert!(done.status.success(), "{}", err(&done));
    String::from_utf8_lossy(&done.stdout).trim().trim_start_matches("job ").to_owned()
}

fn jobs(node: &Node<'_>) -> Vec<(String, String)> {
    let list = node.entrepot(&["job", "list"]);
    let row = |job: &Value| (job["id"].to_string(), job["host"].as_str().unwrap_or("?").to_owned());
    list.as_array().expect("rows").iter().map(row).collect()
}

/// [S-214]
#[test]
fn a_job_is_seen_waited_for_and_cancelled_on_any_node() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let (here, other, third) = (&nodes[0], &nodes[1], &nodes[2]);
    let id = submitted(here, "#!/bin/sh\necho hello from $(hostname)\n");
    let waited = other.run(&["job", "wait", &id]);
    assert!(code(&waited) == 0, "{}", err(&waited));
    let log = third.run(&["job", "log", &id]);
    assert_eq!(String::from_utf8_lossy(&log.stdout), format!("hello from {}\n", here.name()), "{}", err(&log));
    let show = other.entrepot(&["job", "show", &id]);
    assert_eq!(show["summary"]["host"], *here.name());
    let text = String::from_utf8(other.run(&["job", "show", &id]).stdout).expect("text");
    assert!(text.trim_end().ends_with(&format!(" on {}", here.name())), "where its logs are: {text}");
    let failing = submitted(here, "#!/bin/sh\nexit 3\n");
    let waited = third.run(&["job", "wait", &failing]);
    assert_eq!(code(&waited), 1, "{}", err(&waited));

    let long = submitted(here, "#!/bin/sh\nexec sleep 600\n");
    let beside = submitted(third, "#!/bin/sh\nexec sleep 600\n");
    let both = [(long.clone(), here.name()), (beside.clone(), third.name())];
    for node in &nodes {
        assert_eq!(jobs(node).as_slice(), both, "as {} sees it", node.name());
    }
    let text = String::from_utf8(other.run(&["job", "list"]).stdout).expect("text");
    assert!(text.contains("host") && text.contains(&third.name()), "{text}");
    let as_user = other.run_as(USER, &["job", "show", &long]);
    assert!(code(&as_user) == 5 && err(&as_user).contains("no job"), "{}: {}", code(&as_user), err(&as_user));
    assert_eq!(code(&other.run_as(USER, &["job", "cancel", &long])), 5, "another user's");
    other.ok(&["job", "cancel", &long]);
    assert_eq!(code(&third.run(&["job", "wait", &long])), 1, "it was cancelled");

    // A node that stands still is named, and others' jobs are shown all the same.
    {
        let _frozen = third.freeze();
        let list = other.run(&["job", "list"]);
        assert!(code(&list) == 0 && err(&list).contains(&format!("{} did not answer", third.name())), "{}", err(&list));
        let show = other.run(&["job", "show", &beside]);
        assert!(code(&show) != 0 && err(&show).contains(&third.name()), "{}", err(&show));
    }
    until_within(60, "it answers again", || jobs(other) == [(beside.clone(), third.name())]);
    here.ok(&["job", "cancel", &beside]);
    until_within(30, "it has ended", || jobs(here).is_empty());
}

/// [S-215]
#[test]
fn what_a_job_of_another_node_needs_is_not_purged() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(
        &hosts,
        "kept",
        crate::volume::State::Redis,
        "[purge]\nage = \"1s\"\n[health]\ndeadline = \"30s\"\n",
    );
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    let led = leading(&nodes);
    let (leads, has_job) = (&nodes[led], &nodes[(led + 1) % 3]);
    std::fs::write(has_job.host.path(INPUT), vec![7; 100_000]).expect("a source");
    let source = format!("file://{INPUT}");
    for name in ["wanted", "idle"] {
        has_job.ok(&["stage", "in", &source, &format!("{}/{name}", has_job.at)]);
    }
    let at = format!("{}/wanted", has_job.at);
    let text = format!("#!/bin/sh\n#STAGEIN entrepot stage in --keep {source} {at}\nexec sleep 600\n");
    let id = submitted(has_job, &text);
    std::thread::sleep(std::time::Duration::from_secs(2));
    // A file that another node has open stays, too.
    let open = std::fs::File::open(nodes[(led + 2) % 3].path("idle")).expect("opens");
    let purged = leads.entrepot(&["purge"]);
    assert_eq!(purged["files"].as_array().map(Vec::len), Some(0), "{purged:#}");
    drop(open);
    let purged = leads.entrepot(&["purge"]);
    let files: Vec<&str> =
        purged["files"].as_array().expect("files").iter().filter_map(|f| f["path"].as_str()).collect();
    assert_eq!(files, ["idle"], "{purged:#}");
    leads.ok(&["job", "cancel", &id]);
    let over = || nodes.iter().all(|node| jobs(node).is_empty());
    until_within(30, "it has ended", over);
    let purged = leads.entrepot(&["purge"]);
    assert_eq!(purged["files"][0]["path"], "wanted", "{purged:#}\n{}", leads.log());
    nodes.iter().for_each(Node::down);
}
