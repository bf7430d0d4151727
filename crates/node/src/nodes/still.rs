//! Whether a volume that is down has no live node: a lease that stands still for its whole duration is that of a dead
//! node.

use super::leases::Leases;
use super::now;
use crate::{Error, Result};
use engine::volume::had_nodes;
use policy::Time;
use policy::cluster::Node;
use policy::cluster::lease::{Config, Seen};
use std::path::Path;
use std::time::Duration;

/// Nodes with expired leases.
pub struct Still {
    leases: Option<Leases>,
    seen: Vec<Seen>,
    /// Numbers that were taken and have no lease.
    unborn: Vec<Node>,
}

impl Still {
    /// Waits for the duration of the present leases. Changes nothing.
    ///
    /// # Errors
    /// A node is alive.
    pub fn wait(namespace: &Path) -> Result<Still> {
        if !had_nodes(namespace) {
            return Ok(Still { leases: None, seen: Vec::new(), unborn: Vec::new() });
        }
        let leases = Leases::open(namespace)?;
        let first = leases.list()?;
        let known = |node: Node| first.over.contains(&node) || first.leases.iter().any(|seen| seen.node == node);
        let unborn: Vec<Node> =
            (1..=first.last.map_or(0, |last| last.0)).map(Node).filter(|node| !known(*node)).collect();
        let config = Config::default();
        // A number without a lease may have got one of the usual duration by now.
        let usual = (!unborn.is_empty()).then_some(config.lease);
        let longest = first.leases.iter().map(|seen| config.patience(seen.lease)).chain(usual).max();
        let until = now() + longest.unwrap_or(Time::ZERO);
        while now() < until {
            std::thread::sleep(Duration::from_nanos(until.since(now()).0));
        }
        let still = Still { seen: first.leases, unborn, leases: Some(leases) };
        if longest.is_some() {
            still.look_again()?;
        }
        Ok(still)
    }

    fn look_again(&self) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        let moved = leases.list()?.leases.into_iter().find(|now| {
            let before = self.seen.iter().find(|seen| seen.node == now.node);
            before.is_none_or(|before| before.beat != now.beat)
        });
        moved.map_or(Ok(()), |seen| Err(is_there(leases, seen.node)))
    }

    /// Number of these nodes.
    pub fn count(&self) -> usize {
        self.seen.len()
    }

    /// Largest epoch of any node of this volume, over or not; 0 if unknown.
    pub fn epoch(&self) -> u32 {
        let Some(leases) = &self.leases else { return 0 };
        let over = leases.of_over().unwrap_or_default().into_iter().map(|(_, info)| info.epoch);
        let here = self.seen.iter().filter_map(|seen| leases.info(seen.node)).map(|info| info.epoch);
        over.chain(here).max().unwrap_or(0)
    }

    /// Ends these nodes, as another node would: one that wakes finds its lease ended before it acknowledges anything.
    ///
    /// # Errors
    /// One of them was only slow.
    pub fn end(&self) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        for node in &self.unborn {
            leases.expel(*node, None)?;
        }
        for seen in &self.seen {
            if !leases.expel(seen.node, Some(seen.beat))? && !leases.list()?.over.contains(&seen.node) {
                return Err(is_there(leases, seen.node));
            }
        }
        Ok(())
    }
}

fn is_there(leases: &Leases, node: Node) -> Error {
    let place = leases.info(node).map_or_else(String::new, |info| format!(", process {} on {}", info.pid, info.host));
    Error::Busy(format!("{node}{place}, has the volume"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::nodes::Info;

    /// A node with a lease that soon expires.
    fn born(dir: &Path) -> (Leases, Node) {
        let leases = Leases::open(dir).unwrap();
        let info = Info { lease_ms: 300, ..Info::of_this(Path::new("/mnt"), "own".into(), 7, Default::default()) };
        std::fs::write(dir.join("nodes/1.0"), serde_json::to_vec(&info).unwrap()).unwrap();
        assert!(leases.take(Node(1), "new.x").unwrap());
        (leases, Node(1))
    }

    #[test]
    fn one_that_renews_is_there_and_one_that_does_not_is_over() {
        let dir = tempfile::tempdir().unwrap();
        Still::wait(dir.path()).unwrap().end().unwrap();
        assert!(!dir.path().join("nodes").exists(), "nothing is made");
        let (leases, node) = born(dir.path());
        let renewed = std::thread::scope(|scope| {
            let waits = scope.spawn(|| Still::wait(dir.path()));
            for beat in 0.. {
                if waits.is_finished() {
                    break;
                }
                assert!(leases.renew(node, beat).unwrap());
                std::thread::sleep(Duration::from_millis(20));
            }
            waits.join().unwrap().err().expect("it is there").to_string()
        });
        assert!(renewed.contains("has the volume") && renewed.contains(&node.to_string()), "{renewed}");
        let still = Still::wait(dir.path()).unwrap();
        assert_eq!(still.count(), 1);
        assert!(leases.list().unwrap().over.is_empty(), "to look changes nothing");
        still.end().unwrap();
        assert_eq!(leases.list().unwrap().over, [node]);
        assert_eq!(Still::wait(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn one_that_renews_at_the_last_moment_is_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (leases, node) = born(dir.path());
        let still = Still::wait(dir.path()).unwrap();
        let beat = leases.list().unwrap().leases[0].beat;
        assert!(leases.renew(node, beat).unwrap());
        assert!(still.end().unwrap_err().to_string().contains("has the volume"));
        assert!(leases.list().unwrap().over.is_empty());
    }
}
