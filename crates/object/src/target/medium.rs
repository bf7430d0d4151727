//! Storage of a target: a directory in real life, memory with faults in tests.
//!
//! An implementation does plain, blocking I/O, without deadlines, states or layouts.

use policy::ObjectId;
use policy::advice::Advice;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::Arc;

/// Capacity of a medium, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system.
    pub total_bytes: u64,
    /// Free space that we may use.
    pub free_bytes: u64,
    /// File system of the medium, so that the space of two targets on one is not counted twice.
    pub device: Option<u64>,
}

/// A store of objects.
pub trait Medium: Send + Sync + 'static {
    /// Directory of the medium, if it is one. Touches no device.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
    /// Makes an empty object, not yet durable. `EXIST` if another has that name, and stays as it is.
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno>;
    /// Opens an object for reading and writing. `NOENT` if it is not there.
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno>;
    /// Makes another name for an object, which opens and removes it like any name; the object ends with its last name.
    /// `EXIST` if the name is taken, `OPNOTSUPP` if the medium cannot. Not yet durable.
    fn link(&self, _id: ObjectId, _name: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::OPNOTSUPP)
    }
    /// Removes an object. Succeeds if there is none.
    fn remove(&self, id: ObjectId) -> Result<(), Errno>;
    /// Makes the creations and removals so far durable.
    fn sync_names(&self) -> Result<(), Errno>;
    /// All objects, in no order.
    fn list(&self) -> Result<Vec<ObjectId>, Errno>;
    /// Checks whether this is still the same medium: identity file present, ours and readable, and the medium writable.
    /// `ROFS` if only the last fails.
    fn probe(&self) -> Result<(), Errno>;
    /// As [`Medium::probe`], and syncs its write: `ROFS` also where that fails.
    fn probe_durable(&self) -> Result<(), Errno> {
        self.probe()
    }
    /// Removes the volume's identity, so that the medium may be used otherwise.
    fn disown(&self) -> Result<(), Errno> {
        Ok(())
    }
    /// Reads the last epoch written to the medium; `None` if none was.
    fn epoch(&self) -> Result<Option<u32>, Errno> {
        Ok(None)
    }
    /// Writes an epoch durably.
    fn set_epoch(&self, _epoch: u32) -> Result<(), Errno> {
        Ok(())
    }
    /// Measures its space.
    fn space(&self) -> Result<Space, Errno>;
    /// Whether its devices are known to be behind a network. Sends no request.
    fn over_network(&self) -> bool {
        false
    }
    /// Number of the shared file system of the medium, whose faults are no faults of the target. Sends no request.
    fn shared_file_system(&self) -> Option<u64> {
        None
    }
    /// Whether the kernel splits a large request into small sequential ones, as it does on FUSE. Sends no request.
    fn cuts_requests(&self) -> bool {
        false
    }
    /// State of its connections, if it has several. Sends no request.
    fn connections(&self) -> Option<serde_json::Value> {
        None
    }
    /// Limit of the descriptors of an open object.
    fn descriptors_per_object(&self) -> u64 {
        1
    }
}

/// An open object. Offsets and lengths are bytes in the object.
#[expect(clippy::len_without_is_empty, reason = "a length costs a call that can fail")]
pub trait Handle: Send + Sync {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the object.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno>;
    /// Reads into several buffers, one after the other; fewer bytes only at the end of the object. A caller waits for
    /// the first `demand_bytes`; a medium may mark the rest as a prefetch for the layers below.
    fn read_vectored_at(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
        _demand_bytes: usize,
    ) -> Result<usize, Errno> {
        let mut done = 0;
        for buffer in buffers {
            let read = self.read_at(offset + done as u64, buffer)?;
            done += read;
            if read < buffer.len() {
                break;
            }
        }
        Ok(done)
    }
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno>;
    /// Sets the length; growing leaves a hole.
    fn set_len(&self, len: u64) -> Result<(), Errno>;
    /// Frees a range, which then reads as zeros. The length stays.
    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Writes zeros over the part of a range that lies in the object.
    fn zero(&self, offset: u64, len: u64) -> Result<(), Errno> {
        static ZEROS: [u8; 65_536] = [0; 65_536];
        let end = offset.saturating_add(len).min(self.len()?);
        let mut at = offset;
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            self.write_at(at, &ZEROS[..piece as usize])?;
            at += piece;
        }
        Ok(())
    }
    /// Reserves space for a range, growing the length if it ends beyond it.
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Reserves space for a range; the length stays.
    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno>;
    /// Whether `seek_data` and `seek_hole` cover all written bytes, synced or not. They do on local file systems.
    /// Elsewhere the object is synced before holes are looked for.
    fn knows_holes(&self) -> bool {
        true
    }
    /// First offset at or after `offset` that holds data; `NXIO` if there is none.
    fn seek_data(&self, offset: u64) -> Result<u64, Errno>;
    /// First offset at or after `offset` that is a hole (the end counts as one); `NXIO` if `offset` is beyond the end.
    fn seek_hole(&self, offset: u64) -> Result<u64, Errno>;
    /// Length in bytes.
    fn len(&self) -> Result<u64, Errno>;
    /// Bytes of space that it takes.
    fn allocated(&self) -> Result<u64, Errno>;
    /// Number of its names.
    fn names(&self) -> Result<u64, Errno> {
        Ok(1)
    }
    /// Advises the layers below, if they read ahead, of the pattern of the next reads. Cheap if it changes nothing.
    fn advise(&self, _advice: Advice) {}
    /// Requests that the device starts to make a range durable, where possible. Guarantees nothing.
    fn begin_sync(&self, _offset: u64, _len: u64) {}
    /// Waits until the device has completed that request. Guarantees nothing.
    fn end_sync(&self, _offset: u64, _len: u64) {}
    /// Makes data and length durable.
    fn sync(&self) -> Result<(), Errno>;
    /// Whether it was opened while the medium was read-only: it can then not be written later either.
    fn is_read_only(&self) -> bool {
        false
    }
    /// File behind it, for passthrough and kernel-side copies; `None` if it is no file.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}
