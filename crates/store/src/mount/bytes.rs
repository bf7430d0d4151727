//! Reading and writing: the hot path.
//!
//! A read of one piece on one healthy target runs right here, watched; when the target hangs, the watchdog takes the reply out of
//! its slot and has the request answered by the slow pool, which knows mirrors and recovery. A write that hangs is
//! answered with an error: nobody knows what of it will still land.

use super::Server;
use super::convert::errno;
use super::metadata::STATS_ID;
use super::open::Handle;
use crate::cache::Stream;
use crate::file::{Access, InlineRead, InlineWrite, OnDeadline, Reading as Cached, Resume};
use crate::namespace::{Caller, NodeId};
use fuser::{FileHandle, ReplyData, ReplyWrite};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::borrow::Borrow;
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

impl OnDeadline for Reading {
    fn missed(&self) {
        let Some(reply) = self.reply.lock().take() else { return };
        let (handle, offset, len) = (self.handle.clone(), self.offset, self.len);
        // A refused work is dropped with its reply, which answers EIO.
        let work = Box::new(move || read_slowly(&handle, offset, len, reply));
        let _ = self.server.slow.push_now(self.handle.uid(), work);
    }
}

/// Reads where it may take its time.
fn read_slowly(handle: &Handle, offset: u64, len: usize, reply: ReplyData) {
    with_buffer(len, |buffer| {
        let read = handle.open.file.read(offset, buffer);
        answer_read(handle, offset, read.map(|got| &buffer[..got]), reply);
    });
}

/// A write under way, whose reply belongs to whoever takes it first.
struct Writing(Mutex<Option<ReplyWrite>>);

impl OnDeadline for Writing {
    fn missed(&self) {
        if let Some(reply) = self.0.lock().take() {
            reply.error(fuser::Errno::EIO);
        }
    }
}

/// A write that does not end where it came in.
struct SlowWrite {
    server: Arc<Server>,
    handle: Arc<Handle>,
    offset: u64,
    data: Vec<u8>,
    /// See [`super::convert::synced`].
    sync: Option<bool>,
    /// When it was first tried.
    since: Instant,
    reply: ReplyWrite,
}

impl SlowWrite {
    /// Has an adviser keep the write, which calls what `keep` is given. A user who has as many kept as one may now finds no room.
    fn keep(self, access: Access, keep: impl FnOnce(Resume)) {
        match self.server.held.take(self.handle.uid(), access.len) {
            Ok(held) => keep(Box::new(move |verdict| {
                drop(held);
                match verdict {
                    Ok(()) => self.hand_over(),
                    Err(error) => self.reply.error(errno(error.errno())),
                }
            })),
            Err(_) => {
                let refused = Err(Errno::NOSPC.into());
                self.handle.open.file.tell_written(access, &refused);
                answer_write(refused, self.data.len(), self.reply);
            }
        }
    }

    /// Writes on the slow pool.
    fn hand_over(self) {
        let SlowWrite { server, handle, offset, data, sync, since, reply } = self;
        let pool = server.clone();
        pool.hand_over(handle.uid(), reply, ReplyWrite::error, move |reply| {
            let file = handle.open.file.clone();
            let mut done = file.write(offset, &data);
            if let (Ok(()), Some(data_only)) = (&done, sync) {
                done = file.sync(data_only, &handle.synced);
            }
            let access = Access { write: true, offset, len: data.len() as u64 };
            if let Some(adviser) = file.retries(&done) {
                let again = SlowWrite { server, handle, offset, data, sync, since, reply };
                return again.keep(access, |resume| adviser.no_room(&file, access, since.elapsed(), resume));
            }
            file.tell_written(access, &done);
            answer_write(done, data.len(), reply);
        });
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
        let file = &handle.open.file;
        file.accessed(Access { write: false, offset, len: len.into() });
        file.note_order(handle.order.lock().read(offset, len.into()));
        with_buffer(len as usize, |buffer| {
            if let Some(read) = file.read_in_stub(offset, buffer) {
                answer_read(&handle, offset, read.map(|got| &buffer[..got]), reply);
            } else if offset >= file.size() {
                reply.data(&[]);
            } else if let Some(stream) = &handle.stream {
                self.read_cached(&handle, stream, offset, buffer, reply);
            } else {
                self.read_inline(handle.clone(), offset, buffer, reply);
            }
        });
    }

    /// Reads here, or on the slow pool what is not for here.
    fn read_inline(self: &Arc<Self>, handle: Arc<Handle>, offset: u64, buffer: &mut [u8], reply: ReplyData) {
        let (server, len) = (self.clone(), buffer.len());
        let reading = Arc::new(Reading { server, handle, offset, len, reply: Mutex::new(Some(reply)) });
        let request: Arc<dyn OnDeadline> = reading.clone();
        let read = reading.handle.open.file.read_inline(offset, buffer, &request);
        let Some(reply) = reading.reply.lock().take() else { return };
        match read {
            InlineRead::Done(got) => reply.data(&buffer[..got]),
            InlineRead::Taken => {} // never so: whoever took the request took the reply
            InlineRead::NotNow => {
                let handle = reading.handle.clone();
                let work = move |reply| read_slowly(&handle, offset, len, reply);
                self.hand_over(reading.handle.uid(), reply, ReplyData::error, work);
            }
        }
    }

    /// Reads through the block cache: what is here is answered here, what must be waited for on the slow pool.
    fn read_cached(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        stream: &Stream,
        offset: u64,
        buffer: &mut [u8],
        reply: ReplyData,
    ) {
        let (handle, len) = (handle.clone(), buffer.len());
        match handle.open.file.begin_read(stream, offset, buffer) {
            Cached::Done(got) => reply.data(&buffer[..got]),
            Cached::Waits(ticket) => self.hand_over(handle.uid(), reply, ReplyData::error, move |reply| {
                let read = ticket.finish();
                answer_read(&handle, offset, read.as_deref(), reply);
            }),
            Cached::Uncached => self.hand_over(handle.uid(), reply, ReplyData::error, move |reply| {
                read_slowly(&handle, offset, len, reply);
            }),
        }
    }

    /// `drops`: who may not keep setuid and setgid. `sync`: see [`super::convert::synced`].
    pub fn write(
        self: &Arc<Self>,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        drops: Option<Caller>,
        sync: Option<bool>,
        reply: ReplyWrite,
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
        let file = handle.open.file.clone();
        let access = Access { write: true, offset, len: data.len() as u64 };
        file.accessed(access);
        let slowly = |reply| {
            let (server, data, since) = (self.clone(), data.to_vec(), Instant::now());
            SlowWrite { server, handle, offset, data, sync, since, reply }
        };
        if let Some(holder) = file.holder(access) {
            return slowly(reply).keep(access, |resume| holder.hold(&file, access, resume));
        }
        if sync.is_some() {
            return slowly(reply).hand_over();
        }
        if let Some(done) = file.write_in_stub(offset, data) {
            return answer_write(done, data.len(), reply);
        }
        let writing = Arc::new(Writing(Mutex::new(Some(reply))));
        let done = file.write_inline(offset, data, writing.clone());
        let Some(reply) = writing.0.lock().take() else { return };
        match done {
            InlineWrite::Done(done) => answer_write(done, data.len(), reply),
            InlineWrite::Taken => {} // never so: whoever took the request took the reply
            InlineWrite::NotNow => slowly(reply).hand_over(),
        }
    }

    fn read_stats(&self, handle: FileHandle, offset: u64, len: usize, reply: ReplyData) {
        let Some(open) = self.texts.get(handle.0) else { return reply.error(errno(Errno::BADF)) };
        let text = &open.0;
        let start = text.len().min(offset as usize);
        let end = text.len().min(start + len);
        reply.data(&text[start..end]);
    }
}

fn answer_read(handle: &Handle, offset: u64, read: Result<&[u8], impl Borrow<crate::Error>>, reply: ReplyData) {
    match read {
        Ok(bytes) => reply.data(bytes),
        Err(error) => {
            let error = error.borrow();
            tracing::debug!(%error, node = handle.open.id, offset, "read failed");
            reply.error(errno(error.errno()));
        }
    }
}

fn answer_write(done: crate::Result<()>, len: usize, reply: ReplyWrite) {
    match done {
        Ok(()) => reply.written(len as u32),
        Err(error) => reply.error(errno(error.errno())),
    }
}
