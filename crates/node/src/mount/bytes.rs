//! Reading and writing: the hot path.
//!
//! A read of one piece on one healthy target runs on this thread, watched. When the target hangs, the watchdog takes
//! the answer from its slot and passes the request to the slow pool, which tries mirrors and recovery. A write that
//! hangs is answered with an error: any part of it may still reach the target.

use super::Server;
use super::answer::Answer;
use super::front::{ReadRequest, WriteRequest};
use super::metadata::STATS_ID;
use super::mode::may_fill_pages;
use super::open::{Handle, Open};
use engine::cache::Stream;
use engine::file::{Access, Happened, InlineRead, InlineWrite, OnDeadline, Paged, Reading as Cached, Resume};
use engine::stats::Position;
use fuser::{ReplyData, ReplyWrite};
use parking_lot::Mutex;
use rustix::io::Errno;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

thread_local! {
    /// Bytes on their way to the kernel. As large as the largest read so far, at most one request.
    static BUFFER: RefCell<Paged> = RefCell::default();
}

fn with_buffer<T>(len: usize, act: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len {
            *buffer = Paged::zeroed(len);
        }
        act(&mut buffer[..len])
    })
}

/// A read under way, answered by the thread that takes the answer first.
struct Reading {
    server: Arc<Server>,
    handle: Arc<Handle>,
    offset: u64,
    len: usize,
    answer: Mutex<Option<Answer<ReplyData>>>,
}

impl OnDeadline for Reading {
    fn missed(&self) {
        let Some(answer) = self.answer.lock().take() else { return };
        let (handle, offset, len) = (self.handle.clone(), self.offset, self.len);
        // Refused work is dropped with its answer, which is then EIO.
        let work = Box::new(move || read_slowly(&handle, offset, len, answer));
        let _ = self.server.slow.push_now(self.handle.uid(), work);
    }
}

/// Reads on a thread that may wait.
fn read_slowly(handle: &Handle, offset: u64, len: usize, answer: Answer<ReplyData>) {
    with_buffer(len, |buffer| {
        let mut read = handle.open.file.read(offset, buffer);
        if read.as_ref().is_ok_and(|got| is_doubtful(handle, *got, len)) {
            handle.open.file.wait_for_kernel_after_cut();
            read = handle.open.file.read(offset, buffer);
        }
        answer_read(handle, offset, read.map(|got| &buffer[..got]), answer);
    });
}

/// A write under way, answered by the thread that takes the answer first.
struct Writing(Mutex<Option<Answer<ReplyWrite>>>);

impl OnDeadline for Writing {
    fn missed(&self) {
        if let Some(answer) = self.0.lock().take() {
            answer.give(Err(Errno::IO));
        }
    }
}

/// A write that is finished on another thread.
struct SlowWrite {
    server: Arc<Server>,
    handle: Arc<Handle>,
    offset: u64,
    data: Vec<u8>,
    /// Whether it is an append: only the write determines the offset of the end.
    appends: bool,
    /// As in [`WriteRequest::sync`].
    sync: Option<bool>,
    /// Time of the first try.
    since: Instant,
    answer: Answer<ReplyWrite>,
}

impl SlowWrite {
    /// Parks the write until the resume function passed to `keep` is called. ENOSPC if the user has too many bytes
    /// parked.
    fn keep(self, access: Access, keep: impl FnOnce(Resume)) {
        match self.server.held.take(self.handle.uid(), access.len) {
            Ok(held) => keep(Box::new(move |verdict| {
                drop(held);
                match verdict {
                    Ok(()) => self.hand_over(),
                    Err(error) => self.answer.give(Err(error.errno())),
                }
            })),
            Err(_) => {
                let refused = Err(Errno::NOSPC.into());
                self.handle.open.file.tell_written(access, &refused);
                answer_write(&self.handle.open, refused, self.data.len(), self.answer);
            }
        }
    }

    /// Writes on the slow pool.
    fn hand_over(self) {
        let SlowWrite { server, handle, offset, data, appends, sync, since, answer } = self;
        let pool = server.clone();
        pool.hand_over(handle.uid(), answer, move |answer| {
            let file = handle.open.file.clone();
            let mut done = if appends { file.append(&data).map(drop) } else { file.write(offset, &data) };
            if let (Ok(()), Some(data_only)) = (&done, sync) {
                done = file.sync(data_only, &handle.synced);
            }
            let access = Access { write: true, offset, len: data.len() as u64 };
            if let Some(adviser) = file.retries(&done) {
                let again = SlowWrite { server, handle, offset, data, appends, sync, since, answer };
                return again.keep(access, |resume| adviser.hold(&file, access, Some(since.elapsed()), resume));
            }
            file.tell_written(access, &done);
            answer_write(&handle.open, done, data.len(), answer);
        });
    }
}

impl Server {
    pub fn read(self: &Arc<Self>, request: ReadRequest, mut answer: Answer<ReplyData>) {
        let ReadRequest { id, handle, offset, len, for_pages, .. } = request;
        if id == STATS_ID {
            return self.read_stats(handle, offset, len, answer);
        }
        answer.is_at(Position { file: id, open: handle, offset });
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        if for_pages && !may_fill_pages(handle.mode) {
            return answer.give(Err(Errno::INVAL)); // splice(2): "Target filesystem doesn't support splicing"
        }
        let file = &handle.open.file;
        answer.is_on(file);
        file.tell(Happened::Accessed(Access { write: false, offset, len: len as u64 }));
        file.note_order(handle.order.lock().read(offset, len as u64));
        with_buffer(len, |buffer| {
            if let Some(read) = file.read_in_stub(offset, buffer) {
                self.answer_read_here(&handle, offset, read, buffer, answer);
            } else if offset >= file.size() && !file.is_shared() {
                self.answer_read_here(&handle, offset, Ok(0), buffer, answer);
            } else if let Some(stream) = &handle.stream {
                self.read_cached(&handle, stream, offset, buffer, answer);
            } else {
                self.read_inline(handle.clone(), offset, buffer, answer);
            }
        });
    }

    /// Answers a read, or leaves it to the slow pool if the kernel would show zeros behind its end.
    fn answer_read_here(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        offset: u64,
        read: crate::Result<usize>,
        buffer: &[u8],
        answer: Answer<ReplyData>,
    ) {
        if read.as_ref().is_ok_and(|got| is_doubtful(handle, *got, buffer.len())) {
            return self.read_later(handle.clone(), offset, buffer.len(), answer);
        }
        answer_read(handle, offset, read.map(|got| &buffer[..got]), answer);
    }

    /// Reads on the slow pool.
    fn read_later(self: &Arc<Self>, handle: Arc<Handle>, offset: u64, len: usize, answer: Answer<ReplyData>) {
        self.hand_over(handle.uid(), answer, move |answer| read_slowly(&handle, offset, len, answer));
    }

    /// Reads here, or on the slow pool if that is not possible.
    fn read_inline(self: &Arc<Self>, handle: Arc<Handle>, offset: u64, buffer: &mut [u8], answer: Answer<ReplyData>) {
        let (server, len) = (self.clone(), buffer.len());
        let reading = Arc::new(Reading { server, handle, offset, len, answer: Mutex::new(Some(answer)) });
        let request: Arc<dyn OnDeadline> = reading.clone();
        let read = reading.handle.open.file.read_inline(offset, buffer, &request);
        let Some(answer) = reading.answer.lock().take() else { return };
        match read {
            InlineRead::Done(got) => self.answer_read_here(&reading.handle, offset, Ok(got), buffer, answer),
            InlineRead::Taken => {} // unreachable: the watchdog takes the answer with the request
            InlineRead::NotNow => self.read_later(reading.handle.clone(), offset, len, answer),
        }
    }

    /// Reads through the block cache: cached bytes here, others on the slow pool.
    fn read_cached(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        stream: &Stream,
        offset: u64,
        buffer: &mut [u8],
        answer: Answer<ReplyData>,
    ) {
        let (handle, len) = (handle.clone(), buffer.len());
        match handle.open.file.begin_read(stream, offset, buffer) {
            Cached::Done(got) => self.answer_read_here(&handle, offset, Ok(got), buffer, answer),
            Cached::Waits(ticket) => self.hand_over(handle.uid(), answer, move |answer| {
                let read = ticket.finish();
                if is_doubtful(&handle, read.as_ref().map_or(len, Vec::len), len) {
                    return read_slowly(&handle, offset, len, answer);
                }
                answer_read(&handle, offset, read.as_deref(), answer);
            }),
            Cached::Uncached => self.read_later(handle, offset, len, answer),
        }
    }

    pub fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], mut answer: Answer<ReplyWrite>) {
        let WriteRequest { id, handle, offset, drops, appends, sync, .. } = request;
        answer.is_at(Position { file: id, open: handle, offset });
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        answer.is_of(handle.uid());
        answer.is_on(&handle.open.file);
        handle.open.file.answers_have_arrived();
        handle.wrote.store(true, Ordering::Relaxed);
        handle.open.changes();
        if let Some(caller) = drops {
            let held = self.parts.namespace.hold(handle.open.id, Some(handle.open.stub()));
            let dropped = held.and_then(|held| held.drop_privileges(caller));
            if let Err(error) = dropped {
                return answer.give(Err(error));
            }
        }
        let (open, file) = (handle.open.clone(), handle.open.file.clone());
        // The kernel's size of a shared file covers only this node's writes.
        let appends = appends && file.is_shared();
        let access = Access { write: true, offset, len: data.len() as u64 };
        file.tell(Happened::Accessed(access));
        let slowly = |answer| {
            let (server, data, since) = (self.clone(), data.to_vec(), Instant::now());
            SlowWrite { server, handle, offset, data, appends, sync, since, answer }
        };
        if let Some(holder) = file.holder(access) {
            return slowly(answer).keep(access, |resume| holder.hold(&file, access, None, resume));
        }
        if sync.is_some() || appends {
            return slowly(answer).hand_over();
        }
        if let Some(done) = file.write_in_stub(offset, data) {
            return answer_write(&open, done, data.len(), answer);
        }
        let writing = Arc::new(Writing(Mutex::new(Some(answer))));
        let done = file.write_inline(offset, data, writing.clone());
        let Some(answer) = writing.0.lock().take() else { return };
        match done {
            InlineWrite::Done(done) => answer_write(&open, done, data.len(), answer),
            InlineWrite::Taken => {} // unreachable: the watchdog takes the answer with the request
            InlineWrite::NotNow => slowly(answer).hand_over(),
        }
    }

    fn read_stats(&self, handle: u64, offset: u64, len: usize, answer: Answer<ReplyData>) {
        let Some(open) = self.texts.get(handle) else { return answer.give(Err(Errno::BADF)) };
        let text = &open.0;
        let start = text.len().min(offset as usize);
        let end = text.len().min(start + len);
        answer.give(Ok(&text[start..end]));
    }
}

/// Whether the kernel may have an older, larger size than the end of a read, and would fill the difference with zeros.
fn is_doubtful(handle: &Handle, got: usize, len: usize) -> bool {
    got < len && handle.open.file.was_cut_just_now()
}

fn answer_read(
    handle: &Handle,
    offset: u64,
    read: Result<&[u8], impl Borrow<crate::Error>>,
    answer: Answer<ReplyData>,
) {
    answer.give(read.map_err(|error| {
        let error = error.borrow();
        tracing::debug!(%error, node = handle.open.id, offset, "read failed");
        handle.open.note_failure();
        error.errno()
    }));
}

fn answer_write(open: &Open, done: crate::Result<()>, len: usize, answer: Answer<ReplyWrite>) {
    answer.give(done.map(|()| len).map_err(|error| {
        open.note_failure();
        error.errno()
    }));
}
