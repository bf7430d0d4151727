//! Space of idle targets: a few of many nodes measure it and send it to all, see `policy::cluster::idle`.

use super::Nodes;
use crate::target::{Others, Space, Targets};
use policy::TargetId;
use policy::cluster::idle::Share;
use std::fmt::Write;
use std::sync::{Arc, Weak};

/// First word of a letter with a target's number, its total bytes and the free ones, repeated for each target.
const WORD: &str = "space";

/// The other nodes, for targets that request measurements.
struct Lookers(Weak<Nodes>);

impl Others for Lookers {
    fn share(&self) -> Share {
        let Some(nodes) = self.0.upgrade() else { return Share::All };
        let (members, me) = {
            let membership = nodes.membership.lock();
            (membership.members(), membership.node())
        };
        Share::of(members.range(..me).count(), members.len())
    }

    fn tell(&self, seen: &[(TargetId, Space)]) {
        let Some(nodes) = self.0.upgrade() else { return };
        if let Err(error) = nodes.state.ring(&text(seen)) {
            tracing::debug!("others do not hear how much room is on {} targets: {error}", seen.len());
        }
    }
}

fn text(seen: &[(TargetId, Space)]) -> String {
    let mut text = WORD.to_owned();
    for (target, space) in seen {
        let _ = write!(text, " {} {} {}", target.0, space.total_bytes, space.free_bytes);
    }
    text
}

/// Parses a letter: target number, total bytes and free ones. Stops at the first malformed entry.
fn read(letter: &str) -> Vec<(TargetId, u64, u64)> {
    let mut words = letter.split_ascii_whitespace();
    let next = || {
        let target = TargetId(words.next()?.parse().ok()?);
        Some((target, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    std::iter::from_fn(next).filter(|(_, total, free): &(_, u64, u64)| free <= total).collect()
}

impl Nodes {
    /// Starts to measure idle targets for other nodes, and to receive their measurements.
    pub(crate) fn share_looks(self: &Arc<Nodes>, targets: &Arc<Targets>) {
        targets.share_looks(Arc::new(Lookers(Arc::downgrade(self))));
        let targets = Arc::downgrade(targets);
        self.read_letters(WORD, move |letter| {
            let Some(targets) = targets.upgrade() else { return };
            read(letter).into_iter().for_each(|(target, total, free)| targets.hear_space(target, total, free));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_as_far_as_it_is_understood() {
        let space = |total_bytes, free_bytes| Space { total_bytes, free_bytes, device: Some(7) };
        let told = text(&[(TargetId(3), space(100, 40)), (TargetId(65535), space(u64::MAX, 0))]);
        assert_eq!(told, "space 3 100 40 65535 18446744073709551615 0");
        let letter = told.strip_prefix(WORD).unwrap();
        assert_eq!(read(letter), [(TargetId(3), 100, 40), (TargetId(65535), u64::MAX, 0)]);
        assert_eq!(read(" 3 100 40 4 x 1 5 1 1"), [(TargetId(3), 100, 40)]);
        assert_eq!(read(" 3 100 101 4 9 9 70000 1 1"), [(TargetId(4), 9, 9)], "more is free than there is");
        assert_eq!(read(""), []);
    }
}
