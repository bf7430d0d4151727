//! The store of the state forgets a volume of several nodes altogether, and there is no backup.

use crate::hosts::{Hosts, hosts};
use crate::real::{code, err, noise, out, until_within};
use crate::volume::{Node, PATIENT, Shared, State, are_in_order, is_well};

/// Takes away all that the server has of a volume.
fn forgets(hosts: &Hosts, name: &str) {
    let id = hosts.hosts[0].must("cat", &[&format!("{}/namespace/volume.id", hosts.directory(name))]);
    let (ask, id) = (format!("redis-cli -h {}", hosts.server.address()), id.trim());
    let all = format!("{ask} --scan --pattern 'entrepot:{id}:*'");
    hosts.server.must("sh", &["-c", &format!("{all} | xargs -r {ask} del")]);
    assert_eq!(hosts.server.must("sh", &["-c", &all]).trim(), "");
}

/// [S-220] [S-221]
#[test]
fn a_store_that_forgot_the_volume_is_made_anew_by_one_node_for_all() {
    let Some(hosts) = hosts() else { return };
    let name = "rebuilt";
    let shared = Shared::new(&hosts, name, State::Redis, PATIENT);
    let nodes: Vec<Node<'_>> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    is_well(&nodes);
    let data = noise(6 << 20);
    let file = |round: usize, n: usize| (format!("{round}-{n}"), &data[round + n..]);
    for n in 0..9 {
        let (name, bytes) = file(0, n);
        std::fs::write(nodes[n % 3].path(&name), bytes).expect("write");
    }
    let rebuild = |node: &Node<'_>| node.run(&["state", "rebuild"]);
    let refused = |done: &std::process::Output, why: &str| {
        assert!(code(done) == 2 && err(done).contains(why), "{}{}", out(done), err(done));
    };
    // One dies while it moves files, one ends in order, one is still there.
    nodes[0].ok(&["target", "drain", "target1", "--no-wait"]);
    let pid = nodes[0].pid();
    nodes[0].kill(&pid);
    nodes[1].down();
    refused(&rebuild(&nodes[1]), "open already");
    let frozen = nodes[2].freeze();
    refused(&rebuild(&nodes[1]), "open already");
    nodes[2].kill(&frozen.pid);
    refused(&rebuild(&nodes[1]), "in use already");
    forgets(&hosts, name);
    refused(&nodes[1].try_up(), "entrepot state rebuild");
    let done = rebuild(&nodes[1]);
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert!(out(&done).contains("that stood still are over"), "{}", out(&done));
    drop(frozen);

    nodes.iter().for_each(Node::up);
    is_well(&nodes);
    let are_there = |round: usize| {
        for (n, node) in (0..9).flat_map(|n| nodes.iter().map(move |node| (n, node))) {
            let (name, bytes) = file(round, n);
            assert!(std::fs::read(node.path(&name)).expect("read") == bytes, "{name}\n{}", node.log());
        }
    };
    are_there(0);
    for n in 0..9 {
        let (name, bytes) = file(1, n);
        std::fs::write(nodes[n % 3].path(&name), bytes).expect("write");
    }
    are_there(1);
    // What the move left is nobody's once the operator says that no name is missing. It may lie on the target that was
    // to be emptied, too; the order to empty it is forgotten.
    until_within(30, "what is left over is removed", || {
        nodes[0].run(&["check", "--repair", "--drop-unknown"]).status.success()
    });
    nodes[2].empties("target1");
    nodes[2].ok(&["target", "restore", "target1"]);
    are_in_order(&nodes);
    are_there(0);
    are_there(1);
    nodes.iter().for_each(Node::down);
}
