//! One file's own part of an object that files share: a handle that counts the part's bytes from 0.
//!
//! The bytes between its units and beyond its end belong to other files: nothing here cuts, frees or reserves them. So
//! the object is never made shorter, and is only as long as the longest part. A part's own length is then its share of
//! that, with a hole at the end.

use super::medium::Handle;
use crate::forward;
use policy::advice::Advice;
use policy::layout::{Merged, Run};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;

/// Handle of an object as a file sees it: of its own part, if the object is shared.
pub fn own_part(handle: Arc<dyn Handle>, merged: Option<Merged>) -> Arc<dyn Handle> {
    match merged {
        Some(merged) => Arc::new(Part { handle, merged }),
        None => handle,
    }
}

struct Part {
    handle: Arc<dyn Handle>,
    merged: Merged,
}

impl Part {
    /// Frees the data of `[from, ..)`, unit by unit.
    fn free(&self, from: u64) -> Result<(), Errno> {
        let mut at = from;
        loop {
            at = match self.seek_data(at) {
                Ok(data) => data,
                Err(Errno::NXIO) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            let end = self.merged.unit_end(at);
            self.handle.punch(self.merged.shared(at), end - at)?;
            at = end;
        }
    }

    fn each(&self, offset: u64, len: u64, op: impl Fn(Run) -> Result<(), Errno>) -> Result<(), Errno> {
        self.merged.runs(offset, len).try_for_each(op)
    }
}

impl Handle for Part {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        let mut done = 0;
        for run in self.merged.runs(offset, buf.len() as u64) {
            let len = run.len as usize;
            let read = self.handle.read_at(run.shared, &mut buf[done..done + len])?;
            done += read;
            if read < len {
                break; // the end of the whole object: no file has bytes behind it
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.each(offset, data.len() as u64, |run| {
            let from = (run.own - offset) as usize;
            self.handle.write_at(run.shared, &data[from..from + run.len as usize])
        })
    }

    /// Frees the bytes beyond `len`. Growth needs nothing, since there is a hole beyond the end.
    fn set_len(&self, len: u64) -> Result<(), Errno> {
        self.free(len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.each(offset, len, |run| self.handle.punch(run.shared, run.len))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.each(offset, len, |run| self.handle.allocate(run.shared, run.len))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.each(offset, len, |run| self.handle.reserve(run.shared, run.len))
    }

    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        let mut own = offset;
        loop {
            let found = self.handle.seek_data(self.merged.shared(own))?;
            own = self.merged.own(found);
            if self.merged.shared(own) == found {
                return Ok(own);
            }
            // The unit belongs to another file, so continue with this file's next unit.
        }
    }

    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        let mut own = offset;
        loop {
            let found = match self.handle.seek_hole(self.merged.shared(own)) {
                Err(Errno::NXIO) if own > offset => return Ok(own),
                found => found?,
            };
            own = self.merged.own(found);
            if self.merged.shared(own) == found {
                return Ok(own);
            }
        }
    }

    fn len(&self) -> Result<u64, Errno> {
        Ok(self.merged.own(self.handle.len()?))
    }

    fn allocated(&self) -> Result<u64, Errno> {
        let (mut bytes, mut at) = (0, 0);
        loop {
            let data = match self.seek_data(at) {
                Err(Errno::NXIO) => return Ok(bytes),
                data => data?,
            };
            at = self.seek_hole(data)?;
            bytes += at - data;
        }
    }

    fn begin_sync(&self, offset: u64, len: u64) {
        self.merged.runs(offset, len).for_each(|run| self.handle.begin_sync(run.shared, run.len));
    }

    fn end_sync(&self, offset: u64, len: u64) {
        self.merged.runs(offset, len).for_each(|run| self.handle.end_sync(run.shared, run.len));
    }

    forward! { handle:
        fn knows_holes(&self) -> bool;
        fn names(&self) -> Result<u64, Errno>;
        fn advise(&self, advice: Advice);
        fn is_read_only(&self) -> bool;
        fn sync(&self) -> Result<(), Errno>;
    }

    /// `None`, because the kernel cannot separate the parts.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Medium, MemoryMedium};
    use policy::ObjectId;
    use proptest::prelude::*;

    const UNIT: u64 = 4096;
    const FILES: u16 = 3;

    /// Parts of one object, one for each file, each opened under its own name.
    fn parts(medium: &MemoryMedium) -> Vec<Arc<dyn Handle>> {
        let part = |slot: u16| {
            let name = ObjectId(u64::from(slot));
            let handle = if slot == 0 { medium.create(name) } else { medium.link(ObjectId(0), name) };
            own_part(handle.expect("made"), Some(Merged { unit_bytes: UNIT, slot, of: FILES }))
        };
        (0..FILES).map(part).collect()
    }

    fn bytes(of: &dyn Handle, len: usize) -> Vec<u8> {
        let mut buf = vec![0; len];
        of.read_at(0, &mut buf).expect("read");
        buf
    }

    /// Operation on a part.
    #[derive(Clone, Debug)]
    enum Op {
        Write(u64, Vec<u8>),
        Punch(u64, u64),
        SetLen(u64),
    }

    fn op() -> impl Strategy<Value = (u16, Op)> {
        let at = 0..10 * UNIT;
        let op = prop_oneof![
            3 => (at.clone(), 1usize..3 * UNIT as usize, 1u8..255).prop_map(|(at, len, with)| Op::Write(at, vec![with; len])),
            1 => (at.clone(), 1..4 * UNIT).prop_map(|(at, len)| Op::Punch(at, len)),
            1 => at.prop_map(Op::SetLen),
        ];
        (0..FILES, op)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// [S-133] Operations on one file's part leave the bytes of the others alone.
        #[test]
        fn parts_do_not_touch_each_other(ops in prop::collection::vec(op(), 1..30)) {
            const LEN: usize = 14 * UNIT as usize;
            let medium = MemoryMedium::new(1);
            let parts = parts(&medium);
            let mut expected = vec![vec![0; LEN]; FILES.into()];
            for (file, op) in ops {
                let (part, expected) = (&parts[usize::from(file)], &mut expected[usize::from(file)]);
                match op {
                    Op::Write(at, data) => {
                        part.write_at(at, &data).expect("written");
                        expected[at as usize..at as usize + data.len()].copy_from_slice(&data);
                    }
                    Op::Punch(at, len) => {
                        part.punch(at, len).expect("punched");
                        expected[at as usize..(at + len) as usize].fill(0);
                    }
                    Op::SetLen(len) => {
                        part.set_len(len).expect("cut");
                        expected[len as usize..].fill(0);
                    }
                }
            }
            for (part, expected) in parts.iter().zip(&expected) {
                prop_assert_eq!(&bytes(&**part, LEN), expected);
                // Bytes other than zero are data, and holes are zero.
                let (mut at, mut seen) = (0, vec![0; LEN]);
                while let Ok(data) = part.seek_data(at) {
                    at = part.seek_hole(data).expect("data ends");
                    prop_assert!(at > data);
                    seen[data as usize..(at as usize).min(LEN)].copy_from_slice(&expected[data as usize..(at as usize).min(LEN)]);
                }
                prop_assert_eq!(&seen, expected);
                prop_assert!(part.len().expect("length") <= 14 * UNIT);
            }
        }
    }

    #[test]
    fn the_object_is_there_until_its_last_name_goes_and_a_part_can_be_emptied() {
        let medium = MemoryMedium::new(1);
        let all = parts(&medium);
        all.iter()
            .enumerate()
            .for_each(|(n, part)| part.write_at(0, &[n as u8 + 1; 2 * UNIT as usize]).expect("written"));
        let taken = |medium: &MemoryMedium| {
            let space = medium.space().expect("space");
            (space.total_bytes - space.free_bytes) / UNIT
        };
        assert_eq!((taken(&medium), all[1].names(), all[1].allocated()), (6, Ok(3), Ok(2 * UNIT)));
        all[0].set_len(0).expect("emptied");
        medium.remove(ObjectId(0)).expect("removed");
        assert_eq!((taken(&medium), all[1].names()), (4, Ok(2)));
        for (n, part) in all.iter().enumerate().skip(1) {
            assert_eq!(bytes(&**part, 2 * UNIT as usize), vec![n as u8 + 1; 2 * UNIT as usize]);
        }
        medium.remove(ObjectId(1)).and_then(|()| medium.remove(ObjectId(2))).expect("removed");
        assert_eq!(taken(&medium), 0);
    }
}
