//! Targets that one host alone reaches, on a disk of its own: its users' files go there first, and others leave them
//! alone.

use crate::hosts::{LOCAL, hosts};
use crate::real::{code, err, noise, until_within};
use crate::volume::{Node, Shared, State, are_in_order};
use serde_json::Value;

/// Number of objects on the disk of a host.
fn objects(node: &Node<'_>) -> usize {
    let said = node.host.must("find", &[&format!("{LOCAL}/disk/objects"), "-type", "f"]);
    said.lines().count()
}

fn state(node: &Node<'_>, target: &str) -> String {
    let targets = node.entrepot(&["target", "list"]);
    let found = targets["targets"].as_array().expect("targets").iter().find(|t| t["name"] == target);
    found.map_or(String::new(), |t| t["state"].as_str().unwrap_or_default().to_owned())
}

/// [S-208]
#[test]
fn a_target_of_one_host_is_used_there_first_and_left_alone_by_others() {
    let Some(hosts) = hosts() else { return };
    let own = |n: usize| format!("[[target]]\nname = \"own{n}\"\npath = \"{LOCAL}/disk\"\nonly_on = [\"host{n}\"]\n");
    let more = format!("{}{}[layout]\nprefer = \"local\"\n", own(1), own(2));
    let shared = Shared::new(&hosts, "local", State::Redis, &more);
    let nodes = [shared.node(0), shared.node(1)];
    for node in &nodes {
        node.host.must("mkdir", &["-p", &format!("{LOCAL}/disk")]);
        node.up();
    }
    let [first, second] = &nodes;
    until_within(30, "the first hears of the second's", || state(first, "own2") == "elsewhere");
    assert_eq!(
        (state(first, "own1"), state(second, "own1"), state(second, "own2")),
        ("ok".into(), "elsewhere".into(), "ok".into())
    );

    let data = noise(3 << 20);
    std::fs::write(first.path("a"), &data).expect("write");
    std::fs::write(second.path("b"), &data).expect("write");
    assert_eq!((objects(first), objects(second)), (1, 1), "each on its own");
    assert!(std::fs::read(first.path("a")).expect("read") == data);
    let error = std::fs::read(second.path("a")).expect_err("it is out of reach");
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    std::fs::rename(second.path("a"), second.path("c")).expect("its name is everybody's");
    for node in &nodes {
        let found: Value = serde_json::from_slice(&node.run(&["check", "--output", "json"]).stdout).expect("JSON");
        assert!(found["healthy"] == true, "what others reach is not lost: {found:#}");
    }
    let refused = second.run(&["target", "drain", "own1"]);
    assert!(code(&refused) != 0 && err(&refused).contains("host1"), "{}", err(&refused));

    // The disk leaves with its host.
    second.ok(&["node", "drain", "host1"]);
    assert_eq!(objects(first), 0, "{}", first.log());
    first.down();
    assert!(std::fs::read(second.path("c")).expect("read") == data);
    first.up();
    first.ok(&["target", "restore", "own1"]);
    std::fs::write(first.path("d"), &data).expect("write");
    assert_eq!(objects(first), 1);
    are_in_order(&nodes);
}
