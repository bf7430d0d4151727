//! What a target is made of: a directory in real life, memory with faults in tests.
//!
//! An implementation does plain, blocking I/O and knows nothing of deadlines, states or layouts.

use policy::ObjectId;
use policy::advice::Advice;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::Arc;

/// Capacity of a medium, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total_bytes: u64,
    /// What is free for us.
    pub free_bytes: u64,
    /// The file system it lies on, so that the space of two targets on one is not counted twice.
    pub device: Option<u64>,
}

/// Somewhere objects can be kept.
pub trait Medium: Send + Sync + 'static {
    /// The directory that it is made of, if it is one. Touches no device.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }
    /// Makes an empty object. `EXIST` if there is one of that name, which is left as it is. Not yet durable.
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno>;
    /// Opens an object for reading and writing. `NOENT` if it is not there.
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno>;
    /// Gives an object one more name, under which it is opened and removed like any: it is gone when its last name is. `EXIST` if there is
    /// an object of that name, `OPNOTSUPP` where the medium cannot. Not yet durable.
    fn link(&self, _id: ObjectId, _name: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::OPNOTSUPP)
    }
    /// Removes an object. Removing what is not there succeeds.
    fn remove(&self, id: ObjectId) -> Result<(), Errno>;
    /// Makes the creations and removals so far durable.
    fn sync_names(&self) -> Result<(), Errno>;
    /// All objects, in no order.
    fn list(&self) -> Result<Vec<ObjectId>, Errno>;
    /// Looks whether this is the medium it was: identity file present, ours, readable; and writable. `ROFS` if it is and can
    /// only be read.
    fn probe(&self) -> Result<(), Errno>;
    /// As [`Medium::probe`], and what is written is synced: `ROFS` also where that fails.
    fn probe_durable(&self) -> Result<(), Errno> {
        self.probe()
    }
    /// Takes the volume's identity off it, so that it may be used for something else.
    fn disown(&self) -> Result<(), Errno> {
        Ok(())
    }
    /// The last epoch that was written on it; `None` if none was.
    fn epoch(&self) -> Result<Option<u32>, Errno> {
        Ok(None)
    }
    /// Writes an epoch on it, durably.
    fn set_epoch(&self, _epoch: u32) -> Result<(), Errno> {
        Ok(())
    }
    /// How full it is.
    fn space(&self) -> Result<Space, Errno>;
    /// Whether its devices are known to be behind a network. Asks nobody.
    fn over_network(&self) -> bool {
        false
    }
    /// Whether the kernel sends it a large request as many small ones, each when the one before was answered, as it does on FUSE. Asks nobody.
    fn cuts_requests(&self) -> bool {
        false
    }
    /// What the connections behind it do, if there are several. Asks no server.
    fn connections(&self) -> Option<serde_json::Value> {
        None
    }
    /// Descriptors that an open object takes at most.
    fn descriptors_per_object(&self) -> u64 {
        1
    }
}

/// An open object. Offsets and lengths are bytes in the object.
#[expect(clippy::len_without_is_empty, reason = "a length costs a call that can fail")]
pub trait Handle: Send + Sync {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the object.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno>;
    /// Reads into several buffers, one after the other; fewer bytes only at the end of the object. A caller waits for the
    /// first `demand_bytes`; a medium that can may tell what lies below that the rest is read on speculation.
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
    /// Writes zeros over what of a range lies in the object.
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
    /// Whether the two below know all bytes that were written, synced or not. They do on local file systems; where they may
    /// not, the object is synced before it is asked what can be left out.
    fn knows_holes(&self) -> bool {
        true
    }
    /// First offset at or after `offset` that holds data; `NXIO` if there is none.
    fn seek_data(&self, offset: u64) -> Result<u64, Errno>;
    /// First offset at or after `offset` that is a hole (the end counts as one); `NXIO` if `offset` is beyond the end.
    fn seek_hole(&self, offset: u64) -> Result<u64, Errno>;
    /// Length in bytes.
    fn len(&self) -> Result<u64, Errno>;
    /// Bytes of space it takes.
    fn allocated(&self) -> Result<u64, Errno>;
    /// How many names it has.
    fn names(&self) -> Result<u64, Errno> {
        Ok(1)
    }
    /// Says how the next reads are expected to lie, where there is somebody below who reads ahead. Cheap where it changes nothing.
    fn advise(&self, _advice: Advice) {}
    /// Asks the device to begin with making a range durable, where that can be asked; promises nothing.
    fn begin_sync(&self, _offset: u64, _len: u64) {}
    /// Waits until the device has done what it was asked to begin with of a range; promises nothing either.
    fn end_sync(&self, _offset: u64, _len: u64) {}
    /// Makes data and length durable.
    fn sync(&self) -> Result<(), Errno>;
    /// Whether it was opened while the medium could only be read: it can then not be written when the medium can.
    fn is_read_only(&self) -> bool {
        false
    }
    /// The file behind it, for passthrough and kernel-side copies; `None` if it is no file.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}
