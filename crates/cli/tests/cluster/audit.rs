//! Objects on the targets against the layouts of files, compared by hand: no object is missing, and none is an orphan.

use crate::hosts::SHARED;
use crate::volume::{Node, TARGETS};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Objects, as a target and a number.
pub type Objects = BTreeSet<(String, String)>;

/// The objects that lie on the targets of a volume.
pub fn lying(node: &Node<'_>, volume: &str) -> Objects {
    let mut found = Objects::new();
    for target in (1..=TARGETS).map(|n| format!("target{n}")) {
        let at = format!("{SHARED}/{volume}/{target}");
        let said = node.host.must("find", &[&at, "-type", "f", "-printf", "%f\\n"]);
        let is_object = |name: &&str| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        found.extend(said.lines().filter(is_object).map(|name| (target.clone(), name.to_owned())));
    }
    found
}

/// The objects that the files below a directory of the mount name.
pub fn named(node: &Node<'_>, dir: &Path) -> Objects {
    let mut found = Objects::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(named(node, &path));
            continue;
        }
        let below = path.strip_prefix(node.path("")).expect("below the mount");
        let layout = node.entrepot(&["layout", &format!("{}/{}", node.at, below.display())]);
        let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
        for mirror in list(&layout, "mirrors") {
            for object in list(&mirror, "segments").iter().flat_map(|segment| list(segment, "objects")) {
                let word = |name: &str| object[name].as_str().unwrap_or_else(|| panic!("{object}")).to_owned();
                found.insert((word("target"), word("object")));
            }
        }
    }
    found
}

/// Puts an object onto a target that no file names, with a number as the node gives them.
pub fn orphan(node: &Node<'_>, volume: &str, target: &str) -> (String, String) {
    let name = format!("numbers-of-{}", node.name());
    std::fs::write(node.path(&name), vec![1; 200_000]).expect("write");
    let layout = node.entrepot(&["layout", &format!("{}/{name}", node.at)]);
    let object = layout["mirrors"][0]["segments"][0]["objects"][0]["object"].as_str().expect("a number").to_owned();
    std::fs::remove_file(node.path(&name)).expect("unlink");
    // The last numbers of its epoch: none is given for years.
    let number = format!("{}fffffff0", &object[..8]);
    node.host.must("sh", &["-c", &format!("echo left >{SHARED}/{volume}/{target}/objects/f0/{number}")]);
    (target.into(), number)
}

/// A file that a node had in use when it lost its name on another: what holds it is the mark of that node alone. Gives
/// the mark and an object.
pub fn marked(node: &Node<'_>, other: &Node<'_>, volume: &str) -> (String, (String, String)) {
    let name = format!("in-use-on-{}", node.name());
    std::fs::write(node.path(&name), vec![1; 200_000]).expect("write");
    let layout = node.entrepot(&["layout", &format!("{}/{name}", node.at)]);
    let object = &layout["mirrors"][0]["segments"][0]["objects"][0];
    let word = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{layout}")).to_owned();
    let namespace = format!("{SHARED}/{volume}/namespace");
    let mark = format!("{namespace}/open/{}@{}", word(&layout["file"]), node.number());
    node.host.must("ln", &[&format!("{namespace}/tree/{name}"), &mark]);
    std::fs::remove_file(other.path(&name)).expect("unlink");
    (mark, (word(&object["target"]), word(&object["object"])))
}

/// Every object on the targets is one that a file names, and the other way round; what is being moved comes to its end
/// first.
#[track_caller]
pub fn balances(node: &Node<'_>, volume: &str) {
    balances_within(30, node, volume, || ());
}

/// `balances` within `seconds`; `first` runs before each look.
#[track_caller]
pub fn balances_within(seconds: u64, node: &Node<'_>, volume: &str, first: impl Fn()) {
    let began = std::time::Instant::now();
    loop {
        first();
        let (lying, named) = (lying(node, volume), named(node, &node.path("")));
        if lying == named {
            return;
        }
        let extra: Vec<_> = lying.difference(&named).collect();
        let lost: Vec<_> = named.difference(&lying).collect();
        assert!(began.elapsed().as_secs() < seconds, "nobody's: {extra:?}, lost: {lost:?}\n{}", node.log());
    }
}
