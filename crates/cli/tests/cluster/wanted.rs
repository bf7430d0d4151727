//! Stripes of a staged file on a failed target are requested on all nodes at once.

use crate::hosts::hosts;
use crate::real::{noise, out, until};
use crate::volume::{Node, Shared, are_in_order, logs};
use crate::web::Web;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;

const SIZE: usize = 24_000_000;
const READ: usize = 200_000;

/// The ranges of a file that lie on a target.
fn ranges_on(node: &Node<'_>, file: &str, target: &str) -> Vec<Range<usize>> {
    let layout = node.entrepot(&["layout", &format!("{}/{file}", node.at)]);
    let size = layout["size"].as_u64().expect("a size") as usize;
    let mut ranges = Vec::new();
    for segment in layout["mirrors"][0]["segments"].as_array().expect("segments") {
        let number = |name: &str| segment[name].as_u64().map(|n| n as usize);
        let (start, end) = (number("start").expect("a start"), number("end").unwrap_or(size).min(size));
        let (objects, stripe) = (segment["objects"].as_array().expect("objects"), number("stripe_size").expect("one"));
        let stripes = (start..end).step_by(stripe).enumerate();
        let there = stripes.filter(|(n, _)| objects[n % objects.len()]["target"] == target);
        ranges.extend(there.map(|(_, from)| from..(from + stripe).min(end)));
    }
    ranges
}

/// Two readers on each node read all of the file, each from another place on.
fn is_read_by_all(nodes: &[Node<'_>], file: &str, data: &[u8]) {
    let together = Barrier::new(2 * nodes.len());
    std::thread::scope(|scope| {
        for reader in 0..2 * nodes.len() {
            let (node, together) = (&nodes[reader % nodes.len()], &together);
            scope.spawn(move || {
                let open = File::open(node.path(file)).expect("open");
                let (parts, mut bytes) = (data.len().div_ceil(READ), vec![0; READ]);
                together.wait();
                for part in 0..parts {
                    let from = (part + reader * parts / 6) % parts * READ;
                    let bytes = &mut bytes[..READ.min(data.len() - from)];
                    let read = open.read_exact_at(bytes, from as u64);
                    read.unwrap_or_else(|error| {
                        panic!("host {}: from {from}: {error}\n{}", node.host.number, node.log())
                    });
                    assert!(*bytes == data[from..from + bytes.len()], "host {}: bytes from {from}", node.host.number);
                }
            });
        }
    });
}

/// [S-043] [S-203]
#[test]
fn what_all_nodes_want_of_a_failed_target_is_fetched_once() {
    let Some(hosts) = hosts() else { return };
    let Some(web) = Web::start(&hosts.server) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    let data = noise(SIZE);
    for round in 0..2 {
        let file = format!("wanted{round}");
        web.put(&file, &data);
        nodes[round].ok(&["stage", "in", &web.uri(&file), &format!("{}/{file}", nodes[round].at)]);
        let lost = ranges_on(&nodes[0], &file, "target1");
        assert!(lost.len() > 5, "{lost:?}");
        web.forget();
        nodes[2].ok(&["target", "fail", "target1"]);
        let failed = ("target1".into(), "failed".into());
        until("all know", || nodes.iter().all(|node| node.targets().contains(&failed)));
        let began = std::time::Instant::now();
        is_read_by_all(&nodes, &file, &data);
        println!(
            "{} bytes came back and were read by six in {:.1?}",
            lost.iter().map(Range::len).sum::<usize>(),
            began.elapsed()
        );
        // Other tests' files lost something, too.
        let check = ["check", &format!("{}/{file}", nodes[0].at)];
        let (began, mut found) = (std::time::Instant::now(), nodes[0].run(&check));
        while !found.status.success() {
            assert!(began.elapsed().as_secs() < 60, "the object is not whole: {}{}", out(&found), logs(&nodes));
            found = nodes[0].run(&check);
        }
        let mut asked = web.asked();
        // Whether a source has ranges is asked by a byte of it.
        let probes = asked.iter().filter(|range| range.len() == 1).count();
        assert!(probes <= 6, "{asked:?}");
        asked.retain(|range| range.len() > 1);
        asked.sort_by_key(|range| range.start);
        assert_eq!(asked, lost, "each lost byte once, and no other");
        nodes[1].ok(&["target", "restore", "target1"]);
    }
    are_in_order(&nodes);
}
