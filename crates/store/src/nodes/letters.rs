//! Letters: messages between nodes besides reports and orders, and their readers.

use super::Nodes;
use crate::file::Cluster;
use crate::talk::{Member, Talk};
use parking_lot::RwLock;
use policy::cluster::Node;
use std::sync::Arc;

/// Reader of letters; it must not block for long.
type Reader = dyn Fn(&str) + Send + Sync;

/// Readers by the first word of their letters.
#[derive(Default)]
pub(super) struct Letters(RwLock<Vec<(&'static str, Arc<Reader>)>>);

impl Letters {
    /// Passes a letter to its reader. Returns false if the text is no letter.
    pub fn read(&self, text: &str) -> bool {
        let of = |(word, _): &&(&'static str, Arc<Reader>)| text.starts_with(word);
        let Some((word, reader)) = self.0.read().iter().find(of).cloned() else { return false };
        reader(&text[word.len()..]);
        true
    }
}

impl Nodes {
    /// Registers a reader of letters that begin with `word`; it gets them without the word.
    pub(crate) fn read_letters(&self, word: &'static str, reader: impl Fn(&str) + Send + Sync + 'static) {
        self.letters.0.write().push((word, Arc::new(reader)));
    }
}

impl Talk for Nodes {
    fn me(&self) -> Node {
        self.me_now()
    }

    fn own(&self) -> &str {
        &self.info.own
    }

    fn leads(&self) -> bool {
        Cluster::leads(self)
    }

    fn leader(&self) -> Option<String> {
        self.name_of_leader()
    }

    fn is_over(&self, node: Node) -> bool {
        Cluster::is_over(self, node)
    }

    fn members(&self) -> Vec<Member> {
        let member = |node| {
            let (own, host) = self.leases.info(node).map(|info| (info.own, info.host)).unzip();
            Member { node, own, host: host.unwrap_or_else(|| "?".into()) }
        };
        let members = self.known().members();
        members.into_iter().map(member).collect()
    }

    fn tell(&self, name: &str, text: &str) {
        if let Err(error) = self.state.tell(name, text) {
            tracing::debug!("another node does not hear what it is told: {error}");
        }
    }

    fn tell_all(&self, text: &str) {
        if let Err(error) = self.state.ring(text) {
            tracing::debug!("other nodes do not hear what they are told: {error}");
        }
    }
}
