//! Numbers over lease files in a directory.

use super::*;
use crate::nodes::leases::Info;
use std::path::{Path, PathBuf};

fn info(own: &str) -> Info {
    Info::of_this(Path::new("/mnt"), own.into(), 1, Default::default())
}

fn names(leases: &Leases) -> usize {
    let all = fs::Dir::read_from(&leases.directory).unwrap();
    all.map(|entry| entry.unwrap()).filter(|entry| !entry.file_name().to_bytes().starts_with(b".")).count()
}

fn lists(nodes: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(nodes).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some() && path.file_stem() == Some("past".as_ref())).collect()
}

fn end(leases: &Leases, node: Node) {
    assert!(leases.expel(node, Some(0)).unwrap());
}

/// A directory with `count` numbers that are over, and one live node.
fn with_past(dir: &Path, count: u32) -> (Leases, Node) {
    let leases = Leases::open(dir).unwrap();
    for n in 1..=count {
        let (node, _) = leases.claim(&info(&format!("n{n}"))).unwrap();
        assert_eq!(node, Node(n));
        end(&leases, node);
    }
    let alive = leases.claim(&info("alive")).unwrap().0;
    leases.list().unwrap();
    (leases, alive)
}

#[test]
fn few_names_stay_and_many_become_one_without_a_number_that_is_forgotten_or_given_again() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, alive) = with_past(dir.path(), 63);
    let before = names(&leases);
    leases.fold().unwrap();
    assert_eq!(names(&leases), before, "few stay as they are");
    end(&leases, alive);
    let (next, _) = leases.claim(&info("next")).unwrap();
    leases.list().unwrap();
    leases.fold().unwrap();
    assert_eq!(names(&leases), 4, "the next one's two, what is folded, and the directory");

    for leases in [leases, Leases::open(dir.path()).unwrap()] {
        let listing = leases.list().unwrap();
        assert_eq!(listing.over, (1..=64).map(Node).collect::<Vec<_>>());
        assert_eq!((listing.last, listing.leases.len()), (Some(next), 1));
        assert_eq!(leases.of_over().unwrap().len(), 64, "what they said of themselves is still known");
        assert!(leases.is_of_over(1) && !leases.is_of_over(2));
    }
}

#[test]
fn one_that_listed_before_the_fold_takes_no_number_that_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, alive) = with_past(dir.path(), 64);
    leases.fold().unwrap();
    for node in (1..=64).map(Node) {
        assert!(!leases.take(node, "new.late").unwrap(), "{node}");
        assert!(!dir.path().join(format!("nodes/{}", node.0)).is_symlink(), "nothing of the try stays");
    }
    assert!(!leases.take(alive, "new.late").unwrap());
    assert!(leases.take(Node(alive.0 + 1), "new.late").unwrap());
}

#[test]
fn a_fold_that_was_cut_off_is_gone_on_with_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, alive) = with_past(dir.path(), 64);
    let nodes = dir.path().join("nodes");
    // The file was written, and one or both names of some numbers were removed.
    let all = Past::parse("1-64").unwrap();
    leases.write(&all).unwrap();
    let written = lists(&nodes);
    std::fs::create_dir(nodes.join(PAST)).unwrap();
    for node in 1..=10 {
        std::fs::rename(nodes.join(format!("{node}")), nodes.join(format!("past/{node}"))).unwrap();
    }
    for node in 1..=5 {
        std::fs::rename(nodes.join(format!("{node}.over")), nodes.join(format!("past/{node}.over"))).unwrap();
    }
    assert_eq!(leases.list().unwrap().over, (1..=64).map(Node).collect::<Vec<_>>());
    // Five more are over, so that there are enough to fold.
    end(&leases, alive);
    (0..4).for_each(|n| end(&leases, leases.claim(&info(&format!("more{n}"))).unwrap().0));
    leases.list().unwrap();
    leases.fold().unwrap();
    assert!(lists(&nodes).len() == 1 && lists(&nodes) != written, "another has all of it");
    assert_eq!(leases.list().unwrap().over, (1..=69).map(Node).collect::<Vec<_>>());
    assert_eq!(names(&leases), 2, "what is folded, and the directory");
}

#[test]
fn of_two_that_folded_at_once_all_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = with_past(dir.path(), 2);
    leases.write(&Past::parse("3-9 20").unwrap()).unwrap();
    leases.write(&Past::parse("7-12").unwrap()).unwrap();
    let listing = leases.list().unwrap();
    assert_eq!(listing.over, (1..=12).chain([20]).map(Node).collect::<Vec<_>>());
    assert_eq!(listing.last, Some(Node(20)));
}

#[test]
fn a_number_whose_list_is_lost_is_over_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, alive) = with_past(dir.path(), 64);
    leases.fold().unwrap();
    let nodes = dir.path().join("nodes");
    lists(&nodes).into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert!(leases.list().unwrap().over.is_empty());
    assert!(leases.expel(Node(7), None).unwrap(), "so that somebody can lead");
    assert_eq!(leases.expel(Node(alive.0 + 1), None), Err(Errno::NOENT), "that one was never there");
}

#[test]
fn the_text_of_a_node_that_ended_before_nodes_had_addresses_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (leases, _) = with_past(dir.path(), 1);
    let over = dir.path().join("nodes/1.over");
    let mut text: serde_json::Value = serde_json::from_slice(&std::fs::read(&over).unwrap()).unwrap();
    text.as_object_mut().unwrap().remove("contact").expect("it has one");
    std::fs::write(&over, text.to_string()).unwrap();
    assert_eq!(leases.info_of_over(Node(1)).expect("read").own, "n1");
}
