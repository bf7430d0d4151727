//! Quotas of a volume on several nodes: one limit for what all of them write, whichever leads.

use crate::hosts::hosts;
use crate::real::{err, until_within};
use crate::volume::{Node, Shared, State, leading};
use serde_json::Value;

/// Root, whose files have limits as anybody's.
const MINE: &str = "0";

/// A shell script in the mount of a node as root. Whether it succeeded; no if a quota refused it.
fn does(node: &Node, script: &str) -> bool {
    let mut command = node.host.command("sh");
    command.arg("-ec").arg(format!("cd {}/d; {script}", node.at)).env("LC_ALL", "C");
    let done = command.output().expect("nsenter");
    let refused = err(&done).contains("Disk quota exceeded");
    assert!(done.status.success() || refused, "{script}: {}\n{}", err(&done), node.log());
    done.status.success()
}

fn more(kib: u32, file: &str) -> String {
    format!("dd if=/dev/zero of={file} bs={kib}K count=1 oflag=append conv=notrunc status=none")
}

fn used(node: &Node) -> Value {
    node.entrepot(&["quota", "show", "--user", MINE])["rows"][0]["bytes"]["used"].clone()
}

/// The node refuses so much more; what it still took is taken back.
fn comes_to_refuse(node: &Node, kib: u32) {
    until_within(30, "it refuses", || !does(node, &more(kib, "extra")) || !does(node, "rm extra"));
    assert!(does(node, "rm -f extra"));
}

/// [S-309] Of several nodes.
#[test]
fn nodes_have_one_limit_together_and_go_on_when_another_leads() {
    let Some(hosts) = hosts() else { return };
    let shared = Shared::new(&hosts, "quotas", State::Redis, "[health]\ndeadline = \"30s\"\n");
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    std::fs::create_dir(nodes[0].path("d")).expect("directory");
    assert!(does(&nodes[2], &more(500, "before")));
    let lead = leading(&nodes);
    let (one, other) = (&nodes[(lead + 1) % 3], &nodes[(lead + 2) % 3]);
    one.ok(&["quota", "set", "--user", MINE, "--hard", "2000KiB"]);
    until_within(30, "all names are looked at", || used(other) == 500 << 10);

    // Bytes that one node adds are missing on the others.
    assert!(does(one, &more(700, "one")) && does(&nodes[lead], &more(600, "lead")));
    until_within(30, "it adds up", || used(other) == 1800 << 10);
    comes_to_refuse(other, 300);
    comes_to_refuse(one, 300);
    assert!(!does(&nodes[lead], &more(300, "extra")), "the one that leads knows at once");
    assert!(does(&nodes[lead], "rm -f extra") && does(other, "rm one; cat before > /dev/null"));
    until_within(30, "room is there for all", || does(one, &more(700, "again")));
    until_within(30, "it adds up", || used(one) == 1800 << 10);

    // The one that leads goes, and another adds up.
    nodes[lead].down();
    until_within(60, "another leads", || one.run(&["quota", "list"]).status.success());
    until_within(60, "it has added up", || used(other) == 1800 << 10);
    comes_to_refuse(one, 300);
    comes_to_refuse(other, 300);
    assert!(does(other, "rm before lead again"));
    until_within(30, "nothing is left", || used(one) == 0);
    [one, other].into_iter().for_each(Node::down);
}
