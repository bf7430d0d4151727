//! Rebuilds objects with wrong bytes from stripes that are verified, each from any mirror that has it right.

use super::Mover;
use super::transform::MoveOptions;
use crate::file::{File, NewObjects, View};
use crate::{Error, Result};
use parking_lot::Mutex;
use policy::ObjectId;
use policy::layout::{Layout, Position, Reason};
use std::sync::Arc;

/// Verifies the bytes of a file, stripe by stripe.
pub trait Proof: Sync {
    /// Size of a stripe in bytes; stripe `k` begins at offset `k * size` of the file.
    fn stripe_bytes(&self) -> u64;
    /// Whether the proof still covers the file's content. Nothing writes the file during the call.
    fn is_current(&self, file: &File) -> bool;
    /// Whether these are the right bytes of a stripe.
    fn is_right(&self, number: u64, stripe: &[u8]) -> Result<bool>;
    /// Fetches a stripe that no mirror has right from elsewhere.
    ///
    /// # Errors
    /// The reason why the bytes are unavailable.
    fn bring(&self, number: u64, len: u64) -> Result<Vec<u8>>;
}

/// Reads a file with verification.
pub(super) struct Proven<'a> {
    file: &'a Arc<File>,
    view: &'a View,
    proof: &'a dyn Proof,
    size: u64,
    /// The stripe that was read last, and its number.
    last: Mutex<Option<(u64, Vec<u8>)>>,
}

impl<'a> Proven<'a> {
    pub fn new(file: &'a Arc<File>, view: &'a View, proof: &'a dyn Proof) -> Proven<'a> {
        Proven { file, view, proof, size: file.size(), last: Mutex::default() }
    }

    /// Fills `buf` with verified bytes; zeros beyond the end.
    ///
    /// # Errors
    /// If no mirror and no source has the bytes.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let stripe_bytes = self.proof.stripe_bytes();
        let end = (offset + buf.len() as u64).min(self.size);
        buf[end.saturating_sub(offset) as usize..].fill(0);
        let mut at = offset;
        while at < end {
            let number = at / stripe_bytes;
            let start = number * stripe_bytes;
            let until = (start + stripe_bytes).min(end);
            let mut last = self.last.lock();
            if last.as_ref().is_none_or(|(known, _)| *known != number) {
                *last = Some((number, self.stripe(number, stripe_bytes.min(self.size - start))?));
            }
            let (_, stripe) = last.as_ref().expect("read just now");
            buf[(at - offset) as usize..(until - offset) as usize]
                .copy_from_slice(&stripe[(at - start) as usize..(until - start) as usize]);
            at = until;
        }
        Ok(())
    }

    fn stripe(&self, number: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        for mirror in self.view.in_sync() {
            // A mirror that cannot be read does not count as right.
            let read = self.file.read_mirror(self.view, mirror, number * self.proof.stripe_bytes(), &mut bytes);
            if read.is_ok() && self.proof.is_right(number, &bytes)? {
                return Ok(bytes);
            }
        }
        let bytes = self.proof.bring(number, len)?;
        match bytes.len() as u64 == len && self.proof.is_right(number, &bytes)? {
            true => Ok(bytes),
            false => Err(Error::Unrecoverable(format!("the fetched bytes of stripe {number} are wrong as well"))),
        }
    }
}

impl Mover {
    /// Rebuilds objects of a file from bytes that `proof` verifies. Nothing changes if the file was written since
    /// the proof was made, or if a stripe is right nowhere.
    pub(crate) fn mend(
        &self,
        file: &Arc<File>,
        wrong: &[(Position, ObjectId)],
        proof: &dyn Proof,
    ) -> Result<Arc<Layout>> {
        let how = MoveOptions { proof: Some(proof), ..MoveOptions::plainly("mend", Reason::Resynced) };
        let plan = |old: &Layout, made: &mut NewObjects<'_>| {
            let mut new = old.clone();
            for (at, id) in wrong {
                // An object that was replaced in between has another id.
                let Some(object) = old.object(*at).filter(|object| object.id == *id) else { continue };
                let tier = self.pool.targets.get(object.target).map(|target| target.tier());
                let object = self.elsewhere(&new, (at.mirror, at.segment), tier, made)?;
                new.mirrors[at.mirror].segments[at.segment].objects[at.index] = object;
            }
            Ok(new)
        };
        self.transform_as(file, how, plan).inspect(|_| file.forget_all())
    }
}
