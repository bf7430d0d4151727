//! Reading and writing: the hot path.
//!
//! A read of one piece on one healthy target runs right here, watched; when the target hangs, the watchdog takes the reply out of
//! its slot and has the request answered by the slow pool, which knows mirrors and recovery. A write that hangs is
//! answered with an error: nobody knows what of it will still land.

use super::Server;
use super::convert::errno;
use super::metadata::STATS_ID;
use super::open::Handle;
use crate::file::{Access, File, InlineWrite, Reading as Cached};
use crate::namespace::{Caller, NodeId};
use crate::target::{InlineError, Medium, OnDeadline};
use fuser::{FileHandle, ReplyData, ReplyWrite};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

thread_local! {
    /// Bytes on their way to the kernel; as large as the largest read so far, at most what the kernel asks at once.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn with_buffer<T>(len: usize, act: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        act(&mut buffer[..len])
    })
}

/// A read under way, whose reply belongs to whoever takes it first.
struct Reading {
    server: Arc<Server>,
    handle: Arc<Handle>,
    offset: u64,
    len: usize,
    reply: Mutex<Option<ReplyData>>,
}

impl Reading {
    fn take(&self) -> Option<ReplyData> {
        self.reply.lock().take()
    }

    fn answer_slowly(&self, reply: ReplyData) {
        with_buffer(self.len, |buffer| match self.handle.open.file.read(self.offset, buffer) {
            Ok(got) => reply.data(&buffer[..got]),
            Err(error) => {
                tracing::debug!(%error, node = self.handle.open.id, offset = self.offset, "read failed");
                reply.error(errno(error.errno()));
            }
        });
    }
}

/// A write under way, whose reply belongs to whoever takes it first.
struct Writing {
    reply: Mutex<Option<ReplyWrite>>,
    file: Arc<File>,
    access: Access,
}

impl OnDeadline for Writing {
    fn missed(&self) {
        if let Some(reply) = self.reply.lock().take() {
            self.file.tell_written(self.access, &Err(Errno::IO.into()));
            reply.error(fuser::Errno::EIO);
        }
    }
}

/// What the watchdog holds of a read.
struct Rescue(Arc<Reading>);

impl OnDeadline for Rescue {
    fn missed(&self) {
        let Some(reply) = self.0.take() else { return };
        let reading = self.0.clone();
        // A refused work is dropped with its reply, which answers EIO.
        let uid = reading.handle.uid();
        let _ = self.0.server.slow.push_now(uid, Box::new(move || reading.answer_slowly(reply)));
    }
}

impl Server {
    /// `for_pages`: the kernel wants to fill pages of the inode with it.
    pub fn read(
        self: &Arc<Self>,
        id: NodeId,
        handle: FileHandle,
        offset: u64,
        len: u32,
        for_pages: bool,
        reply: ReplyData,
    ) {
        if id == STATS_ID {
            return self.read_stats(handle, offset, len as usize, reply);
        }
        let Some(handle) = self.handles.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        if for_pages && !handle.mode.may_fill_pages() {
            return reply.error(fuser::Errno::EINVAL); // splice(2): "Target filesystem doesn't support splicing"
        }
        let file = handle.open.file.clone();
        file.accessed(Access { write: false, offset, len: len.into() });
        file.note_order(handle.order.lock().read(offset, len.into()));
        let len = len as usize;
        if file.layout().is_none() {
            return with_buffer(len, |buffer| match file.read(offset, buffer) {
                Ok(got) => reply.data(&buffer[..got]),
                Err(error) => reply.error(errno(error.errno())),
            });
        }
        if offset >= file.size() {
            return reply.data(&[]);
        }
        if handle.stream.is_some() {
            return self.read_cached(handle, offset, len, reply);
        }
        let reading = Arc::new(Reading { server: self.clone(), handle, offset, len, reply: Mutex::new(Some(reply)) });
        if let Some(piece) = file.fast_read(offset, len) {
            let rescue: Arc<dyn OnDeadline> = Arc::new(Rescue(reading.clone()));
            let read = |buffer: &mut [u8]| {
                let read = |_: &dyn Medium| piece.handle().read_at(piece.object_offset, buffer);
                piece.target().run_inline(read, Some(&rescue))
            };
            let answered = with_buffer(piece.len, |buffer| match read(buffer) {
                Ok(got) if file.still_valid(&piece) => {
                    buffer[got..].fill(0);
                    if let Some(reply) = reading.take() {
                        reply.data(buffer);
                    }
                    true
                }
                Err(InlineError::Taken) => true,
                Ok(_) | Err(InlineError::NotNow | InlineError::Target(_)) => false,
            });
            if answered {
                return;
            }
        }
        let Some(reply) = reading.take() else { return };
        self.hand_over(reading.handle.uid(), reply, ReplyData::error, move |reply| reading.answer_slowly(reply));
    }

    /// Reads through the block cache: what is here is answered here, what must be waited for on the slow pool.
    fn read_cached(self: &Arc<Self>, handle: Arc<Handle>, offset: u64, len: usize, reply: ReplyData) {
        let file = &handle.open.file;
        let stream = handle.stream.as_ref().expect("only called with one");
        let begun = with_buffer(len, |buffer| match file.begin_read(stream, offset, buffer) {
            Cached::Done(got) => {
                reply.data(&buffer[..got]);
                None
            }
            waits => Some((waits, reply)),
        });
        let Some((waits, reply)) = begun else { return };
        let file = file.clone();
        self.hand_over(handle.uid(), reply, ReplyData::error, move |reply| {
            let read = match waits {
                Cached::Waits(ticket) => ticket.finish(),
                _ => {
                    let mut bytes = vec![0; len];
                    file.read(offset, &mut bytes).map(|got| {
                        bytes.truncate(got);
                        bytes
                    })
                }
            };
            match read {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => {
                    tracing::debug!(%error, node = handle.open.id, offset, "read failed");
                    reply.error(errno(error.errno()));
                }
            }
        });
    }

    /// `drops`: who may not keep setuid and setgid. `sync`: see [`super::convert::synced`].
    pub fn write(
        self: &Arc<Self>,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        drops: Option<Caller>,
        sync: Option<bool>,
        mut reply: ReplyWrite,
    ) {
        let Some(handle) = self.handles.get(handle.0) else { return reply.error(fuser::Errno::EBADF) };
        handle.wrote.store(true, Ordering::Relaxed);
        if let Some(caller) = drops {
            let held = self.parts.namespace.hold(handle.open.id, Some(handle.open.stub()));
            let dropped = held.and_then(|held| held.drop_privileges(caller));
            if let Err(error) = dropped {
                return reply.error(errno(error));
            }
        }
        let file = &handle.open.file;
        let len = data.len();
        let access = Access { write: true, offset, len: len as u64 };
        file.accessed(access);
        if let Some(holder) = file.holder(access) {
            let (server, writer, data) = (self.clone(), handle.clone(), data.to_vec());
            let resume = move |verdict: crate::Result<()>| match verdict {
                Ok(()) => server.write_slowly(writer, offset, data, sync, Instant::now(), reply),
                Err(error) => reply.error(errno(error.errno())),
            };
            return holder.hold(file, access, Box::new(resume));
        }
        if sync.is_none() && file.layout().is_none() {
            if offset.saturating_add(len as u64) <= self.parts.pool.inline_bytes_max {
                return answer_write(file.write(offset, data), len, reply);
            }
        } else if sync.is_none() {
            let writing = Arc::new(Writing { reply: Mutex::new(Some(reply)), file: file.clone(), access });
            let done = file.write_inline(offset, data, writing.clone());
            let Some(mine) = writing.reply.lock().take() else { return };
            match done {
                InlineWrite::Done(Err(error)) if is_full(&error) && file.patient().is_some() => reply = mine,
                InlineWrite::Done(done) => {
                    file.tell_written(access, &done);
                    return answer_write(done, len, mine);
                }
                InlineWrite::Taken => return drop(mine), // never so: whoever took the request took the reply
                InlineWrite::NotNow => reply = mine,
            }
        }
        self.write_slowly(handle, offset, data.to_vec(), sync, Instant::now(), reply);
    }

    /// Writes where it may take its time; it was first tried at `since`.
    fn write_slowly(
        self: &Arc<Self>,
        handle: Arc<Handle>,
        offset: u64,
        data: Vec<u8>,
        sync: Option<bool>,
        since: Instant,
        reply: ReplyWrite,
    ) {
        let server = self.clone();
        self.hand_over(handle.uid(), reply, ReplyWrite::error, move |reply| {
            let file = &handle.open.file;
            let mut done = file.write(offset, &data);
            if let (Ok(()), Some(data_only)) = (&done, sync) {
                done = file.sync(data_only, &handle.synced);
            }
            let access = Access { write: true, offset, len: data.len() as u64 };
            if done.as_ref().is_err_and(is_full)
                && let Some(patient) = file.patient().cloned()
            {
                let (file, writer) = (file.clone(), handle.clone());
                let resume = move |verdict: crate::Result<()>| match verdict {
                    Ok(()) => server.write_slowly(writer, offset, data, sync, since, reply),
                    Err(error) => reply.error(errno(error.errno())),
                };
                return patient.no_room(&file, access, since.elapsed(), Box::new(resume));
            }
            file.tell_written(access, &done);
            answer_write(done, data.len(), reply);
        });
    }

    fn read_stats(&self, handle: FileHandle, offset: u64, len: usize, reply: ReplyData) {
        let Some(open) = self.texts.get(handle.0) else { return reply.error(errno(Errno::BADF)) };
        let text = &open.0;
        let start = text.len().min(offset as usize);
        let end = text.len().min(start + len);
        reply.data(&text[start..end]);
    }
}

/// Whether devices had no room, which may change.
fn is_full(error: &crate::Error) -> bool {
    !matches!(error, crate::Error::NoTarget) && error.errno() == Errno::NOSPC
}

fn answer_write(done: crate::Result<()>, len: usize, reply: ReplyWrite) {
    match done {
        Ok(()) => reply.written(len as u32),
        Err(error) => reply.error(errno(error.errno())),
    }
}
