//! Prefetches the ranges predicted by a hidden Markov model of a file's steps ([`crate::pattern::hmm`]).
//!
//! It serves strides and loops of steps, which have no runs of blocks.

use super::context::{Ahead, Context};
use crate::block::{Block, INDEX_MAX, Reason};
use crate::pattern::Request;
use crate::pattern::hmm::Hmm;
use std::collections::BTreeMap;

/// Largest number of files with a model; a further file replaces the one with the lowest number.
const FILES_MAX: usize = 256;
/// Longest range fetched for one prediction, in blocks: 4 MiB.
const RANGE_MAX: u64 = 1024;

/// Models of the files.
#[derive(Clone, Debug)]
pub(crate) struct Markov {
    degree: u32,
    files: BTreeMap<u32, Hmm>,
}

impl Markov {
    pub(crate) fn new(degree: u32) -> Markov {
        Markov { degree, files: BTreeMap::new() }
    }

    /// Begins a request: adds up to `degree` predicted ranges.
    pub(crate) fn before(&mut self, context: &Context, out: &mut Vec<Ahead>) {
        if !context.any_labelled() {
            return;
        }
        let file = context.span.first.file();
        if !self.files.contains_key(&file) && self.files.len() >= FILES_MAX {
            self.files.pop_first();
        }
        let model = self.files.entry(file).or_default();
        // Steps are in blocks, since the model uses only differences.
        let (offset, len) = (context.span.first.index(), u64::from(context.read_len()));
        model.observe(Request { write: false, offset, len });
        for next in model.predict(self.degree as usize) {
            // A step may lead beyond any file.
            if next.offset <= INDEX_MAX - RANGE_MAX {
                let first = Block::new(file, next.offset);
                out.push(Ahead::new(first, next.len.clamp(1, RANGE_MAX) as u32, Reason::Ahead));
            }
        }
    }
}
