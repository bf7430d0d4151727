//! Markov: the next ranges of a file as a hidden Markov model of its steps foretells them ([`crate::pattern::hmm`]); for strides and loops of
//! steps, where runs of blocks have nothing to go by.

use super::context::{Ahead, Context};
use crate::block::{Block, INDEX_MAX, Reason};
use crate::pattern::Request;
use crate::pattern::hmm::Hmm;
use std::collections::BTreeMap;

/// Files with a model; who comes when all places are taken gets the place of the one with the lowest number.
const FILES_MAX: usize = 256;
/// Longest range that is fetched for one prediction, in blocks: 4 MiB.
const RANGE_MAX: u64 = 1024;

/// The models of the files.
#[derive(Clone, Debug)]
pub(crate) struct Markov {
    degree: u32,
    files: BTreeMap<u32, Hmm>,
}

impl Markov {
    pub(crate) fn new(degree: u32) -> Markov {
        Markov { degree, files: BTreeMap::new() }
    }

    /// A request begins: up to `degree` requests ahead of it.
    pub(crate) fn before(&mut self, context: &Context, out: &mut Vec<Ahead>) {
        if !context.any_labelled() {
            return;
        }
        let file = context.span.first.file();
        if !self.files.contains_key(&file) && self.files.len() >= FILES_MAX {
            self.files.pop_first();
        }
        let model = self.files.entry(file).or_default();
        // In blocks: the model cares for differences alone.
        let (offset, len) = (context.span.first.index(), u64::from(context.read_len()));
        model.observe(Request { write: false, offset, len });
        for next in model.predict(self.degree as usize) {
            // A step may lead to where no file reaches.
            if next.offset <= INDEX_MAX - RANGE_MAX {
                let first = Block::new(file, next.offset);
                out.push(Ahead::new(first, next.len.clamp(1, RANGE_MAX) as u32, Reason::Ahead));
            }
        }
    }
}
