//! Space for data of jobs, promised by all nodes together: also when Redis forgets, and when a node dies.

use crate::hosts::{Hosts, LOCAL, SHARED, hosts};
use crate::real::{err, until_within};
use crate::volume::{Node, Shared, State};

/// Free space for promises: enough for the bytes of one job.
const ROOM: u64 = 100 << 20;
const BYTES: u64 = 60 << 20;
/// So slow that nothing of it is over before it is looked at: two minutes.
const SLOW: &str = "512KiB/s";
const SCRIPT: &str = "promised.sh";
const INPUT: &str = "promised.input";

fn free(hosts: &Hosts) -> u64 {
    let told = hosts.hosts[0].must("df", &["--output=avail", "-B1", SHARED]);
    told.lines().last().and_then(|line| line.trim().parse().ok()).expect("free bytes")
}

/// Submits a job that brings its data at that rate; its number.
fn submitted(node: &Node<'_>, name: &str, limit: &str) -> String {
    let (script, input) = (format!("{LOCAL}/{SCRIPT}"), format!("{LOCAL}/{INPUT}"));
    std::fs::File::create(node.host.path(&input)).and_then(|file| file.set_len(BYTES)).expect("a source");
    let stage = format!("entrepot stage in --limit {limit} file://{input} {}/{name}", node.at);
    std::fs::write(node.host.path(&script), format!("#!/bin/sh\n#STAGEIN {stage}\ntrue\n")).expect("a script");
    let done = node.run(&["job", "submit", &script]);
    assert!(done.status.success(), "{}", err(&done));
    String::from_utf8_lossy(&done.stdout).trim().trim_start_matches("job ").to_owned()
}

/// The state of a job and of its data, from any node.
fn stands(node: &Node<'_>, job: &str) -> (String, String) {
    let shown = node.entrepot(&["job", "show", job]);
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (word(&shown["summary"]["state"]), word(&shown["arrival"]["standing"]))
}

fn comes(node: &Node<'_>, job: &str) -> bool {
    stands(node, job).0 == "staging-in"
}

/// Whether the job waits and reports that all promises are of other nodes.
fn waits_for_another(node: &Node<'_>, job: &str) -> bool {
    let (state, standing) = stands(node, job);
    let told = standing.split_once("of which ").and_then(|(_, rest)| rest.split_once(" are promised to other jobs ("));
    state == "queued" && told.is_some_and(|(all, rest)| rest.starts_with(&format!("{all} of them by other nodes)")))
}

/// Bytes that the node has promised.
fn promised(node: &Node<'_>) -> u64 {
    let metrics = String::from_utf8_lossy(&node.run(&["stats", "--prometheus"]).stdout).into_owned();
    let line = metrics.lines().find(|line| line.starts_with("entrepot_staging_promised_bytes{"));
    let bytes: Option<f64> = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    bytes.unwrap_or_else(|| panic!("{metrics}")) as u64
}

/// [S-332] [S-333] [S-334] [S-335]
#[test]
fn jobs_of_several_nodes_are_not_promised_the_same_space_whatever_dies() {
    let Some(hosts) = hosts() else { return };
    let kept = free(&hosts).checked_sub(ROOM).expect("more room than that");
    let more = format!("[health]\ndeadline = \"30s\"\n[jobs]\nkeep_free = \"{kept}\"\nqueue_poll = \"1s\"\n");
    let shared = Shared::new(&hosts, "promised", State::Redis, &more);
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    // No promise is made yet: the table's content is not trusted at once.
    let two = [&nodes[0], &nodes[1]];
    let jobs = [submitted(two[0], "a", SLOW), submitted(two[1], "b", SLOW)];
    hosts.keep_redis();
    for (node, job) in two.iter().zip(&jobs) {
        until_within(10, "it waits", || {
            let (state, standing) = stands(node, job);
            assert_eq!(state, "queued", "{standing}: {}", node.entrepot(&["job", "show", job]));
            standing.contains("space is promised again in")
        });
    }

    // Both may from the same moment on, and one of them does.
    until_within(60, "one begins", || (0..2).any(|n| comes(two[n], &jobs[n])));
    let first = usize::from(comes(two[1], &jobs[1]));
    let second = 1 - first;
    until_within(30, "the other waits", || waits_for_another(two[second], &jobs[second]));
    assert!(!comes(two[second], &jobs[second]) && comes(two[first], &jobs[first]));

    // Redis is away, and comes back as it was before.
    hosts.kill_redis();
    until_within(30, "it says why it waits", || stands(two[second], &jobs[second]).1.contains("the state is away"));
    hosts.put_redis_back();
    until_within(30, "nobody is trusted", || stands(two[second], &jobs[second]).1.contains("promised again in"));
    until_within(60, "it waits as before", || waits_for_another(two[second], &jobs[second]));
    assert!(comes(two[first], &jobs[first]), "which went on all the while");

    // Bytes of the transfer that have arrived are no longer promised.
    assert!((1..BYTES).contains(&promised(two[first])), "{}", promised(two[first]));

    // The first gives its space back, and the second begins.
    two[first].ok(&["job", "cancel", &jobs[first]]);
    until_within(30, "the second begins", || comes(two[second], &jobs[second]));

    // The node dies. Its promises go to another node after a while, and not before.
    let third = submitted(&nodes[2], "c", "100MiB/s");
    until_within(30, "the third waits", || waits_for_another(&nodes[2], &third));
    let began = std::time::Instant::now();
    two[second].kill(&two[second].pid());
    until_within(90, "the third is through", || stands(&nodes[2], &third).0 == "completed");
    println!("a dead node's promise was another's {:.1?} after its end", began.elapsed());

    // The data take the space, and are promised no more.
    let fourth = submitted(two[first], "d", "100MiB/s");
    until_within(30, "the fourth waits", || stands(two[first], &fourth).1.contains("0 B are promised to other jobs;"));
    std::fs::remove_file(nodes[2].path("c")).expect("removed");
    until_within(30, "the fourth is through", || stands(two[first], &fourth).0 == "completed");
    nodes[2].down();
    two[first].down();
}
