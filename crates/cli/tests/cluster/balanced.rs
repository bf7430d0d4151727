//! Balancing that is asked for on any node: the one that leads does it, all say how it stands, and when another leads
//! all say so.

use crate::hosts::{Hosts, LOCAL, hosts};
use crate::real::{code, err, noise, out, until_within};
use crate::volume::{Node, PATIENT, Shared, State, are_in_order, leading};
use std::process::Command;

const FILES: usize = 10;
const FILE_BYTES: usize = 3 << 20;
/// So that it lasts for some seconds.
const SLOWLY: &str = "[mover]\nrate = 4000000\n";

/// Two small file systems that all hosts have mounted: each is one device, and one kernel has it.
struct Devices<'a> {
    hosts: &'a Hosts,
    loops: Vec<String>,
    _images: tempfile::TempDir,
}

impl Devices<'_> {
    fn new(hosts: &Hosts) -> Option<Devices<'_>> {
        let images = tempfile::Builder::new().prefix("entrepot-balanced").tempdir().expect("temp dir");
        let mut devices = Devices { hosts, loops: Vec::new(), _images: images };
        for n in 1..=2 {
            let image = devices._images.path().join(n.to_string());
            std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("image");
            let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image).output().expect("mkfs.ext4");
            assert!(made.status.success(), "{}", err(&made));
            let found = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().expect("losetup");
            if !found.status.success() {
                eprintln!("skipped: no loop device: {}", err(&found));
                return None;
            }
            let device = out(&found).trim().to_owned();
            devices.loops.push(device.clone());
            for host in &hosts.hosts {
                host.must("mkdir", &["-p", &format!("{LOCAL}/small{n}")]);
                host.must("mount", &[&device, &format!("{LOCAL}/small{n}")]);
            }
            hosts.hosts[0].must("mkdir", &[&format!("{LOCAL}/small{n}/target")]);
        }
        Some(devices)
    }
}

impl Drop for Devices<'_> {
    fn drop(&mut self) {
        for (n, device) in (1..).zip(&self.loops) {
            self.hosts.hosts.iter().for_each(|host| drop(host.run("umount", &["-l", &format!("{LOCAL}/small{n}")])));
            drop(Command::new("losetup").args(["-d", device]).output());
        }
    }
}

/// The state, the host that does it, and the exit code.
fn status(node: &Node<'_>) -> (String, String, i32) {
    let done = node.run(&["balance", "status", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    let word = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
    (word("state"), word("host"), code(&done))
}

fn is(node: &Node<'_>, state: &str, by: &str) -> bool {
    status(node) == (state.into(), by.into(), 0)
}

/// One is under way on the node that leads, paused, so that it does not end by itself.
fn is_paused_half_way(asked: &Node<'_>, seen: &Node<'_>, by: &str) {
    asked.ok(&["balance", "start"]);
    assert!(is(seen, "running", by), "{:?}", status(seen));
    let again = seen.run(&["balance", "start"]);
    assert!(code(&again) == 6 && err(&again).contains("is being balanced"), "{}", err(&again));
    seen.ok(&["balance", "pause"]);
    assert!(is(asked, "paused", by), "{:?}", status(asked));
}

/// All say that what a host did was cut off.
fn is_cut_off(nodes: &[&Node<'_>], by: &str) {
    for node in nodes {
        until_within(60, "it says that it was cut off", || status(node) == ("idle".into(), by.into(), 7));
        let said = out(&node.run(&["balance", "status"]));
        assert!(said.contains(&format!("it was cut off: the daemon on {by} ended, or another node leads")), "{said}");
    }
}

/// [S-337]
#[test]
fn any_node_has_the_volume_balanced_and_says_that_it_was_cut_off() {
    let Some(hosts) = hosts() else { return };
    let Some(_devices) = Devices::new(&hosts) else { return };
    let small = format!("[[target]]\nname = \"small1\"\npath = \"{LOCAL}/small1/target\"\ntier = \"small\"\n");
    let more = format!("[tier.small]\nspeed = \"400/300\"\n{small}{PATIENT}{SLOWLY}");
    let shared = Shared::new(&hosts, "balanced", State::Redis, &more);
    let nodes: Vec<_> = (0..3).map(|host| shared.node(host)).collect();
    nodes.iter().for_each(Node::up);
    std::fs::create_dir(nodes[0].path("d")).expect("directory");
    nodes[0].ok(&["layout", "set", &format!("{}/d", nodes[0].at), "tier=small"]);
    let data: Vec<Vec<u8>> = (0..FILES).map(|n| noise(FILE_BYTES + n)).collect();
    (0..FILES).for_each(|n| std::fs::write(nodes[n % 3].path(&format!("d/{n}")), &data[n]).expect("write"));

    let led = leading(&nodes);
    let (leader, one, other) = (&nodes[led], &nodes[(led + 1) % 3], &nodes[(led + 2) % 3]);
    one.ok(&["target", "add", "small2", &format!("{LOCAL}/small2/target"), "--tier", "small"]);
    until_within(30, "all use the new target", || nodes.iter().all(|node| node.targets().len() == 4));
    is_paused_half_way(one, other, &leader.name());
    one.ok(&["balance", "resume"]);
    assert!(is(other, "running", &leader.name()), "{:?}", status(other));
    one.ok(&["balance", "pause"]);

    // The leader hands the lead over, and lives.
    other.ok(&["node", "drain", &leader.name(), "--no-wait"]);
    until_within(30, "another leads", || !["", &leader.name()].contains(&&*other.leader()));
    is_cut_off(&[one, other, leader], &leader.name());
    leader.ok(&["node", "restore", &leader.name()]);
    until_within(30, "all are there", || one.hosts().len() == 3);

    // The next one dies.
    let next = &nodes[leading(&nodes)];
    let rest: Vec<&Node<'_>> = nodes.iter().filter(|node| node.name() != next.name()).collect();
    is_paused_half_way(rest[0], rest[1], &next.name());
    next.kill(&next.pid());
    is_cut_off(&rest, &next.name());

    let done = rest[1].run(&["balance", "start", "--wait"]);
    let said = out(&done);
    assert!(done.status.success() && said.contains("every target is as full as its tier"), "{said}{}", err(&done));
    next.up();
    until_within(30, "it says how the last one ended", || out(&next.run(&["balance", "status"])) == said);
    for node in &nodes {
        (0..FILES).for_each(|n| assert!(std::fs::read(node.path(&format!("d/{n}"))).expect("read") == data[n], "{n}"));
    }
    are_in_order(&nodes);
    nodes.iter().for_each(Node::down);
}
