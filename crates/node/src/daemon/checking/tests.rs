//! Scans of one volume by several nodes in one process. `Post` delivers or drops their messages.

use super::*;
use engine::recovery::world::{Checked, kinds, new};
use engine::recovery::{CheckOptions, FindingKind, Outcome, Report};
use engine::source::memory::data;
use engine::stage::Stop;
use engine::stage::world::QUIET;
use meta::messages::{Member, Message, Packet};
use parking_lot::Mutex;
use policy::cluster::Node;
use policy::{FileId, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes in one process.
#[derive(Default)]
struct Post {
    nodes: Mutex<BTreeMap<u32, Arc<Calls>>>,
    /// Nodes that receive no letters.
    frozen: Mutex<BTreeSet<u32>>,
    /// Nodes that are over.
    over: Mutex<BTreeSet<u32>>,
    /// One of this many letters gets lost.
    loses: u32,
    letters: Mutex<u32>,
}

struct Seat {
    post: Arc<Post>,
    node: u32,
    own: String,
}

impl Talk for Seat {
    fn me(&self) -> Node {
        Node(self.node)
    }

    fn own(&self) -> &str {
        &self.own
    }

    fn leads(&self) -> bool {
        false
    }

    fn leader(&self) -> Option<String> {
        None
    }

    fn is_over(&self, node: Node) -> bool {
        self.post.over.lock().contains(&node.0)
    }

    fn members(&self) -> Vec<Member> {
        let there = self.post.nodes.lock().keys().map(|node| Node(*node)).collect::<Vec<_>>();
        let member = |node: Node| Member { node, own: Some(format!("own{}", node.0)), host: format!("host{}", node.0) };
        there.into_iter().filter(|node| !self.is_over(*node)).map(member).collect()
    }

    fn send(&self, _: Option<&str>, _: &Message) {}

    fn call(&self, own: &str, packet: Packet) {
        let node = own.trim_start_matches("own").parse().expect("a number");
        let mut letters = self.post.letters.lock();
        *letters += 1;
        let is_lost = self.post.loses > 0 && letters.is_multiple_of(self.post.loses);
        drop(letters);
        let to = self.post.nodes.lock().get(&node).cloned();
        if let Some(to) = to.filter(|_| !is_lost && !self.post.frozen.lock().contains(&node)) {
            to.handle(&self.own, packet);
        }
    }
}

fn sit(post: &Arc<Post>, checked: &Checked, node: u32) -> Arc<Together> {
    let seat = Arc::new(Seat { post: post.clone(), node, own: format!("own{node}") });
    let calls = Calls::repeating(seat, Duration::from_millis(20));
    post.nodes.lock().insert(node, calls.clone());
    // Where messages get lost all nodes are there, also on a machine that has too much to do.
    let silent = Duration::from_secs(if post.loses > 0 { 60 } else { 3 });
    together(&checked.checker, &calls, silent)
}

/// Nodes that scan the files of one world.
fn nodes(checked: &Checked, count: u32, loses: u32) -> (Arc<Post>, Vec<Arc<Together>>) {
    let post = Arc::new(Post { loses, ..Post::default() });
    let nodes = (1..=count).map(|node| sit(&post, checked, node)).collect();
    (post, nodes)
}

fn files(checked: &Checked, count: usize) {
    for n in 0..3 {
        std::fs::create_dir(checked.world.tree.join(format!("dir{n}"))).expect("made");
    }
    for n in 0..count {
        let uri = format!("mem://h/{n}");
        checked.world.memory.add(&uri, &data(200_000, n as u64));
        checked.world.stage(&[&uri], &format!("dir{}/file{n}", n % 3)).expect("staged");
    }
}

fn check(node: &Arc<Together>, repair: bool) -> Report {
    let options = CheckOptions { repair, ..CheckOptions::default() };
    node.check(&options, QUIET, &Stop::default()).expect("checked")
}

/// [S-212]
#[test]
fn every_node_looks_at_a_part_and_one_answer_has_all_of_it() {
    let checked = new();
    files(&checked, 30);
    let (_post, nodes) = nodes(&checked, 3, 7);
    let alone = checked.checker.check(&CheckOptions::default(), QUIET, &Stop::default()).expect("checked");
    let report = check(&nodes[1], false);
    assert!(report.is_healthy() && report.findings.is_empty() && report.unseen.is_empty(), "{report:?}");
    assert_eq!((report.files, report.objects), (alone.files, alone.objects));
    assert_eq!(report.nodes.iter().map(|part| part.files).sum::<u64>(), 30);
    assert!(report.nodes.iter().all(|part| part.files > 0 && part.answered), "{:?}", report.nodes);

    checked.orphan();
    let layout = checked.layout("dir1/file1");
    checked.remove_object(*layout.objects().next().expect("an object").1);
    let report = check(&nodes[0], true);
    let mut found = kinds(&report);
    found.sort();
    assert_eq!(found, [FindingKind::ObjectMissing, FindingKind::Orphan], "{report:?}");
    let all_are_named = report.findings.iter().all(|finding| finding.found_by.starts_with("host"));
    assert!(report.is_healthy() && all_are_named, "{report:?}");
    assert!(check(&nodes[2], false).findings.is_empty());
}

/// [S-212]
#[test]
fn while_a_node_does_not_answer_nothing_is_removed_and_its_part_is_looked_at() {
    for is_over in [false, true] {
        let checked = new();
        files(&checked, 12);
        checked.orphan();
        let layout = checked.layout("dir1/file1");
        checked.remove_object(*layout.objects().next().expect("an object").1);
        let (post, nodes) = nodes(&checked, 3, 0);
        post.frozen.lock().insert(3);
        let post = &post;
        let report = std::thread::scope(|scope| {
            if is_over {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(100));
                    post.over.lock().insert(3);
                });
            }
            check(&nodes[0], true)
        });
        assert!(!report.is_healthy(), "{report:?}");
        let silent: Vec<_> = report.nodes.iter().filter(|part| !part.answered).map(|part| &*part.host).collect();
        assert_eq!(silent, ["host3"]);
        assert_eq!(report.files, 12, "others looked at its part");
        let outcome = |kind| report.findings.iter().find(|f| f.kind == kind).map(|f| f.outcome.clone());
        assert!(matches!(outcome(FindingKind::Orphan), Some(Outcome::Failed(_))), "{report:?}");
        assert_eq!(outcome(FindingKind::ObjectMissing), Some(Outcome::Repaired), "that needs nobody else");
        post.over.lock().insert(3);
        assert!(check(&nodes[1], true).is_healthy(), "all who are there answered");
        assert!(check(&nodes[1], false).findings.is_empty(), "and then it was removed");
    }
}

/// [S-197]
#[test]
fn what_another_node_makes_or_answers_for_is_no_finding() {
    let (here, elsewhere) = (new(), new());
    let (post, nodes) = nodes(&here, 1, 0);
    let target = here.orphan();
    let object = ObjectId(5);
    let _other = sit(&post, &elsewhere, 2);
    assert_eq!(kinds(&check(&nodes[0], false)), [FindingKind::Orphan]);
    let making = elsewhere.checker.files.pool().making.begin(object);
    assert!(check(&nodes[0], true).findings.is_empty());
    let state = elsewhere.checker.volume.state();
    let moved = vec![(target.id(), object)];
    let entry = meta::state::JournalEntry { file: FileId(9), path: "f".into(), inode: 1, objects: moved };
    state.journal_put(&entry).expect("put");
    drop(making);
    assert!(check(&nodes[0], true).findings.is_empty(), "a move of its own leaves it");
    state.journal_finish(FileId(9), &[]).expect("finished");
    assert_eq!(kinds(&check(&nodes[0], true)), [FindingKind::Orphan]);
    assert!(check(&nodes[0], false).findings.is_empty());
}

/// [S-163]
#[test]
fn files_that_name_one_object_are_found_whichever_nodes_look_at_them() {
    let checked = new();
    files(&checked, 1);
    let tree = &checked.world.tree;
    for n in 0..6 {
        let words = ["--preserve=all", "dir0/file0", &format!("copy{n}")];
        let copy = std::process::Command::new("cp").args(words).current_dir(tree).status();
        assert!(copy.expect("cp").success());
    }
    let (_post, nodes) = nodes(&checked, 3, 0);
    let report = check(&nodes[0], false);
    assert_eq!(report.files, 7);
    let twice: Vec<_> = report.findings.iter().filter(|f| f.kind == FindingKind::NamedTwice).collect();
    assert!(!twice.is_empty() && twice.len() == report.findings.len(), "{report:?}");
    assert!(twice.iter().all(|f| tree.join(&f.path).is_file() && f.inode != 0), "{report:?}");
}

/// [S-213]
#[test]
fn remains_of_dead_nodes_are_removed_after_a_complete_scan() {
    let checked = new();
    files(&checked, 5);
    let (post, nodes) = nodes(&checked, 2, 0);
    let before = checked.objects();
    checked.orphan();
    let layout = checked.layout("dir1/file1");
    checked.remove_object(*layout.objects().next().expect("an object").1);
    post.frozen.lock().insert(2);
    let left = |node: &Arc<Together>| node.remove_left(&|| false).expect("looked");
    assert_eq!((left(&nodes[0]), checked.objects()), (None, before), "one of two does not answer");
    post.frozen.lock().clear();
    let making = checked.checker.files.pool().making.begin(ObjectId(5));
    assert_eq!(left(&nodes[0]), Some(0), "it is being made");
    drop(making);
    assert_eq!((left(&nodes[0]), checked.objects()), (Some(1), before - 1));
    assert_eq!(left(&nodes[1]), Some(0));
    assert_eq!(kinds(&check(&nodes[0], false)), [FindingKind::ObjectMissing], "nobody asked for a repair");
}
