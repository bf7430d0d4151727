//! Letters: what one node writes to another besides reports, and what reads them.

use super::Nodes;
use parking_lot::Mutex;
use std::sync::Arc;

/// Begins each.
const WORD: &str = "look ";

/// What reads a letter; it must not wait for long.
type Reader = dyn Fn(&str) + Send + Sync;

/// Whoever reads them.
#[derive(Default)]
pub(super) struct Letters(Mutex<Option<Arc<Reader>>>);

impl Nodes {
    /// The name under which this node listens.
    pub fn own(&self) -> &str {
        &self.info.own
    }

    /// Hands letters to a reader from now on.
    pub fn read_letters(&self, reader: impl Fn(&str) + Send + Sync + 'static) {
        *self.letters.0.lock() = Some(Arc::new(reader));
    }

    /// Writes to the node that listens under a name. May get lost.
    pub fn write(&self, own: &str, letter: &str) {
        if let Err(error) = self.state.tell(own, &format!("{WORD}{letter}")) {
            tracing::debug!("another node does not get a letter: {error}");
        }
    }

    /// Whether a text is a letter, which was read then.
    pub(super) fn is_letter(&self, text: &str) -> bool {
        let Some(letter) = text.strip_prefix(WORD) else { return false };
        let reader = self.letters.0.lock().clone();
        reader.into_iter().for_each(|read| read(letter));
        true
    }
}
