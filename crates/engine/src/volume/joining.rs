//! Nodes open a volume one after the other. So a new volume is formatted once, and a number that one node is about to
//! record does not count as lost.
//!
//! The node that has its turn records progress in the locked file. So even a thousand waiting nodes see that the queue
//! moves, and give up only when one turn takes too long.

use crate::{Error, Result};
use object::newer::newer_than;
use object::volume_id::unique;
use rustix::fd::OwnedFd;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Newest format of leases and messages of nodes that this program can read.
pub const NODE_FORMAT: u32 = 6;
/// A live node renews its lease within this time. A guess: a lease takes five seconds, of many nodes fifteen.
const RENEWED_WITHIN: Duration = Duration::from_secs(6);
/// Upper bound of the bytes read of a lease.
const LEASE_BYTES_MAX: u64 = 16 << 10;
const DIRECTORY: &str = "nodes";
const LOCK: &str = "join";
/// A random number in hexadecimal digits.
const TURN_BYTES: usize = 32;
/// Time limit of one node's turn. A guess: the node queries all targets, and one of them may hang.
const TURN_MAX: Duration = Duration::from_secs(60);
/// Interval of checks for the turn: the first, and the longest. A thousand waiting nodes check a thousand times a
/// second then, so the next turn still begins soon.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether the volume of a namespace ever had several nodes.
pub fn had_nodes(namespace: &Path) -> bool {
    namespace.join(DIRECTORY).is_dir()
}

/// A lease file whose format differs from this program's.
struct Foreign {
    node: u64,
    beat: u64,
    format: u64,
    host: String,
}

/// Returns the reason why this program must not join the volume's nodes, and whether the reason is a newer node. An
/// older node could not read this program's messages. Makes nothing; the join itself reports a directory that cannot be
/// read.
pub fn foreign_node(namespace: &Path) -> Option<(String, bool)> {
    let mut known = foreign_nodes(namespace);
    let until = Instant::now() + RENEWED_WITHIN;
    loop {
        let shown = |one: &Foreign| format!("node {} of the volume, on host {},", one.node, one.host);
        if let Some(newer) = known.iter().find(|one| one.format > u64::from(NODE_FORMAT)) {
            let format = u32::try_from(newer.format).unwrap_or(u32::MAX);
            return Some((newer_than(&shown(newer), format, NODE_FORMAT), true));
        }
        // A killed node is expelled once this node watches it.
        if known.is_empty() || Instant::now() >= until {
            return None;
        }
        std::thread::sleep(RENEWED_WITHIN / 20);
        let now = foreign_nodes(namespace);
        let renewed = |one: &&Foreign| known.iter().any(|before| before.node == one.node && before.beat < one.beat);
        if let Some(older) = now.iter().find(renewed) {
            return Some((
                format!("{} runs an older entrepot, and cannot read the files of newer ones", shown(older)),
                false,
            ));
        }
        known.retain(|before| now.iter().any(|one| one.node == before.node));
    }
}

fn foreign_nodes(namespace: &Path) -> Vec<Foreign> {
    let is_lease = |name: &str| {
        let (node, beat) = name.split_once('.')?;
        node.parse::<u64>().ok().zip(beat.parse::<u64>().ok())
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(namespace.join(DIRECTORY)).into_iter().flatten().flatten() {
        let Some((node, beat)) = entry.file_name().to_str().and_then(is_lease) else { continue };
        let mut text = String::new();
        // A lease that is renamed during the scan belongs to a live node.
        let file = std::fs::File::open(entry.path()).map(|file| file.take(LEASE_BYTES_MAX));
        if file.and_then(|mut file| file.read_to_string(&mut text)).is_err() {
            continue;
        }
        // Only `format` is certain in a newer node's lease; its other fields may differ.
        let said: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let format = said["format"].as_u64().unwrap_or(1);
        if format != u64::from(NODE_FORMAT) {
            found.push(Foreign { node, beat, format, host: said["host"].as_str().unwrap_or("unknown").into() });
        }
    }
    found
}

/// Directory of the nodes' leases.
pub fn nodes_directory(namespace: &Path) -> Result<OwnedFd> {
    let path = namespace.join(DIRECTORY);
    match fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Locks the volume against opening by other nodes until the result is dropped.
pub fn join(namespace: &Path) -> Result<OwnedFd> {
    wait(namespace, TURN_MAX)
}

fn wait(namespace: &Path, turn_max: Duration) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let directory = nodes_directory(namespace)?;
    let file = fs::openat(&directory, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    let (mut turn, mut until, mut pause) = (turn_of(&directory), Instant::now() + turn_max, PAUSE);
    loop {
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                goes_on(&file)?;
                return Ok(file);
            }
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(errno.into()),
        }
        let now = turn_of(&directory);
        if now != turn {
            (turn, until) = (now, Instant::now() + turn_max);
        }
        if Instant::now() >= until {
            return Err(Error::Elsewhere("it opens the volume and does not finish".into()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX).min(turn_max / 4);
    }
}

/// Records progress of the node that has its turn.
pub fn goes_on(turn: &OwnedFd) -> Result<()> {
    rustix::io::pwrite(turn, unique()?.as_bytes(), 0)?;
    Ok(())
}

/// Returns the text written by the node that has its turn. Opened each time: a file that stays open may show old
/// content.
fn turn_of(directory: &OwnedFd) -> Option<Vec<u8>> {
    let file = fs::openat(directory, LOCK, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut turn = vec![0; TURN_BYTES];
    let read = rustix::io::pread(&file, &mut turn, 0).ok()?;
    turn.truncate(read);
    Some(turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    const TURN: Duration = Duration::from_millis(800);

    /// [S-331]
    #[test]
    fn a_node_of_an_older_version_is_not_joined_while_it_renews_its_lease() {
        let dir = tempfile::tempdir().unwrap();
        let nodes = dir.path().join(DIRECTORY);
        std::fs::create_dir(&nodes).unwrap();
        assert!(foreign_node(dir.path()).is_none());
        std::fs::write(nodes.join("7.12"), r#"{"host": "n7"}"#).unwrap();
        std::fs::write(nodes.join("8.1"), format!(r#"{{"host": "n8", "format": {NODE_FORMAT}}}"#)).unwrap();
        assert!(foreign_node(dir.path()).is_none(), "it is gone, and nobody may wait for it for ever");
        let found = std::thread::scope(|scope| {
            let found = scope.spawn(|| foreign_node(dir.path()));
            std::thread::sleep(RENEWED_WITHIN / 4);
            std::fs::rename(nodes.join("7.12"), nodes.join("7.13")).unwrap();
            found.join().expect("no panic")
        });
        let (why, newer) = found.expect("it is there");
        assert!(why.contains("node 7") && why.contains("n7") && !newer, "{why}");
    }

    #[test]
    fn one_that_does_not_come_to_an_end_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let held = wait(dir.path(), TURN).unwrap();
        let error = wait(dir.path(), TURN).unwrap_err();
        assert!(error.to_string().contains("does not finish"), "{error}");
        drop(held);
        wait(dir.path(), TURN).unwrap();
    }

    #[test]
    fn many_wait_longer_than_a_turn_may_take_as_long_as_it_goes_on() {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let inside = Arc::new(AtomicU32::new(0));
        let one = || {
            let (dir, inside) = (dir.clone(), inside.clone());
            move || {
                let turn = wait(dir.path(), TURN).expect("it goes on");
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "one after the other");
                std::thread::sleep(TURN / 4);
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(turn);
            }
        };
        let threads: Vec<_> = (0..12).map(|_| std::thread::spawn(one())).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
