//! Reading and writing: the hot path.
//!
//! A read of one piece on one healthy target runs right here, watched; when the target hangs, the watchdog takes the answer out of
//! its slot and has the request answered by the slow pool, which knows mirrors and recovery. A write that hangs is
//! answered with an error: nobody knows what of it will still land.

use super::Server;
use super::answer::Answer;
use super::front::{ReadRequest, WriteRequest};
use super::metadata::STATS_ID;
use super::open::Handle;
use crate::cache::Stream;
use crate::file::{Access, Happened, InlineRead, InlineWrite, OnDeadline, Reading as Cached, Resume};
use fuser::{ReplyData, ReplyWrite};
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

/// A read under way, whose answer is given by the thread that takes it first.
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
        // A refused work is dropped with its answer, which is then EIO.
        let work = Box::new(move || read_slowly(&handle, offset, len, answer));
        let _ = self.server.slow.push_now(self.handle.uid(), work);
    }
}

/// Reads where it may take its time.
fn read_slowly(handle: &Handle, offset: u64, len: usize, answer: Answer<ReplyData>) {
    with_buffer(len, |buffer| {
        let read = handle.open.file.read(offset, buffer);
        answer_read(handle, offset, read.map(|got| &buffer[..got]), answer);
    });
}

/// A write under way, whose answer is given by the thread that takes it first.
struct Writing(Mutex<Option<Answer<ReplyWrite>>>);

impl OnDeadline for Writing {
    fn missed(&self) {
        if let Some(answer) = self.0.lock().take() {
            answer.give(Err(Errno::IO));
        }
    }
}

/// A write that does not end where it came in.
struct SlowWrite {
    server: Arc<Server>,
    handle: Arc<Handle>,
    offset: u64,
    data: Vec<u8>,
    /// Where the end is, is known only when it is written.
    appends: bool,
    /// See [`WriteRequest::sync`].
    sync: Option<bool>,
    /// When it was first tried.
    since: Instant,
    answer: Answer<ReplyWrite>,
}

impl SlowWrite {
    /// Has an adviser keep the write, which calls what `keep` is given. A user who has as many kept as one may now finds no room.
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
                answer_write(refused, self.data.len(), self.answer);
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
            answer_write(done, data.len(), answer);
        });
    }
}

impl Server {
    pub fn read(self: &Arc<Self>, request: ReadRequest, mut answer: Answer<ReplyData>) {
        let ReadRequest { id, handle, offset, len, for_pages, .. } = request;
        if id == STATS_ID {
            return self.read_stats(handle, offset, len, answer);
        }
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        if for_pages && !handle.mode.may_fill_pages() {
            return answer.give(Err(Errno::INVAL)); // splice(2): "Target filesystem doesn't support splicing"
        }
        let file = &handle.open.file;
        answer.is_on(file);
        file.tell(Happened::Accessed(Access { write: false, offset, len: len as u64 }));
        file.note_order(handle.order.lock().read(offset, len as u64));
        with_buffer(len, |buffer| {
            if let Some(read) = file.read_in_stub(offset, buffer) {
                answer_read(&handle, offset, read.map(|got| &buffer[..got]), answer);
            } else if offset >= file.size() && !file.is_shared() {
                answer.give(Ok(&[]));
            } else if let Some(stream) = &handle.stream {
                self.read_cached(&handle, stream, offset, buffer, answer);
            } else {
                self.read_inline(handle.clone(), offset, buffer, answer);
            }
        });
    }

    /// Reads here, or on the slow pool what is not for here.
    fn read_inline(self: &Arc<Self>, handle: Arc<Handle>, offset: u64, buffer: &mut [u8], answer: Answer<ReplyData>) {
        let (server, len) = (self.clone(), buffer.len());
        let reading = Arc::new(Reading { server, handle, offset, len, answer: Mutex::new(Some(answer)) });
        let request: Arc<dyn OnDeadline> = reading.clone();
        let read = reading.handle.open.file.read_inline(offset, buffer, &request);
        let Some(answer) = reading.answer.lock().take() else { return };
        match read {
            InlineRead::Done(got) => answer.give(Ok(&buffer[..got])),
            InlineRead::Taken => {} // never so: whoever took the request took the answer
            InlineRead::NotNow => {
                let handle = reading.handle.clone();
                let work = move |answer| read_slowly(&handle, offset, len, answer);
                self.hand_over(reading.handle.uid(), answer, work);
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
        answer: Answer<ReplyData>,
    ) {
        let (handle, len) = (handle.clone(), buffer.len());
        match handle.open.file.begin_read(stream, offset, buffer) {
            Cached::Done(got) => answer.give(Ok(&buffer[..got])),
            Cached::Waits(ticket) => self.hand_over(handle.uid(), answer, move |answer| {
                let read = ticket.finish();
                answer_read(&handle, offset, read.as_deref(), answer);
            }),
            Cached::Uncached => self.hand_over(handle.uid(), answer, move |answer| {
                read_slowly(&handle, offset, len, answer);
            }),
        }
    }

    pub fn write(self: &Arc<Self>, request: WriteRequest, data: &[u8], mut answer: Answer<ReplyWrite>) {
        let WriteRequest { handle, offset, drops, appends, sync, .. } = request;
        let Some(handle) = self.handles.get(handle) else { return answer.give(Err(Errno::BADF)) };
        answer.is_of(handle.uid());
        answer.is_on(&handle.open.file);
        handle.wrote.store(true, Ordering::Relaxed);
        handle.open.changes();
        if let Some(caller) = drops {
            let held = self.parts.namespace.hold(handle.open.id, Some(handle.open.stub()));
            let dropped = held.and_then(|held| held.drop_privileges(caller));
            if let Err(error) = dropped {
                return answer.give(Err(error));
            }
        }
        let file = handle.open.file.clone();
        // The kernel knows where the file ends for this node alone.
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
            return answer_write(done, data.len(), answer);
        }
        let writing = Arc::new(Writing(Mutex::new(Some(answer))));
        let done = file.write_inline(offset, data, writing.clone());
        let Some(answer) = writing.0.lock().take() else { return };
        match done {
            InlineWrite::Done(done) => answer_write(done, data.len(), answer),
            InlineWrite::Taken => {} // never so: whoever took the request took the answer
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

fn answer_read(
    handle: &Handle,
    offset: u64,
    read: Result<&[u8], impl Borrow<crate::Error>>,
    answer: Answer<ReplyData>,
) {
    answer.give(read.map_err(|error| {
        let error = error.borrow();
        tracing::debug!(%error, node = handle.open.id, offset, "read failed");
        error.errno()
    }));
}

fn answer_write(done: crate::Result<()>, len: usize, answer: Answer<ReplyWrite>) {
    answer.give(done.map(|()| len).map_err(|error| error.errno()));
}
