//! Space of idle targets: a few of many nodes measure it and send it to all, see `policy::cluster::idle`.

use super::Nodes;
use meta::messages::{Message, Talk};
use object::target::{Others, Space, Targets};
use policy::TargetId;
use policy::cluster::idle::Share;
use std::sync::{Arc, Weak};

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
        if let Some(nodes) = self.0.upgrade() {
            let row = |(target, space): &(TargetId, Space)| (target.0, space.total_bytes, space.free_bytes);
            Talk::send(&*nodes, None, &Message::Space(seen.iter().map(row).collect()));
        }
    }
}

/// Takes over measurements of another node.
pub(super) fn apply(targets: &Targets, seen: &[(u16, u64, u64)]) {
    for (target, total, free) in seen.iter().filter(|(_, total, free)| free <= total) {
        targets.hear_space(TargetId(*target), *total, *free);
    }
}

impl Nodes {
    /// Starts to measure idle targets for other nodes.
    pub(crate) fn share_looks(self: &Arc<Nodes>, targets: &Targets) {
        targets.share_looks(Arc::new(Lookers(Arc::downgrade(self))));
    }
}
