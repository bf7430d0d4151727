//! GlusterFS's client library (`libgfapi`), loaded at run time: a connection of its own per handle, without a mount
//! in between.
//!
//! ```text
//!   one handle per connection -> glfs_pread_async, glfs_pwrite_async -> its own event thread -> the server
//!                                                        answer, or connection out of use -> the completion
//! ```
//! The library is not needed to build. Files are opened by the identity (`glusterfs.gfid`) of the file open on the
//! mount, so renames do not matter. Bytes use only the asynchronous calls, since a blocking call that hangs in the
//! library cannot be cancelled.

mod library;

use crate::aligned::Aligned;
use crate::client::{Client, ClientFile, ReadDone, WriteDone};
use library::{Library, glfs_fd_t, glfs_t};
use object::workers::apart;
use parking_lot::Mutex;
use rustix::fs::{OFlags, fgetxattr};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time limit for a handle to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// Time after which a waiting open checks whether the connection was taken out.
const OPEN_NAP: Duration = Duration::from_millis(100);
/// Size of a file's identity.
const GFID: usize = 16;
/// Directory of GlusterFS's logs.
const LOGS: &str = "/var/log/glusterfs";

/// Returns `Ok` if the library can be loaded, otherwise the reason.
pub fn present() -> std::result::Result<(), String> {
    Library::get().map(|_| ())
}

/// A handle of the library and its connection.
#[derive(Debug)]
pub struct Session {
    library: &'static Library,
    fs: Handle<glfs_t>,
    gone: AtomicBool,
    under_way: Mutex<HashMap<u64, Arc<Operation>>>,
    next: AtomicU64,
    /// Channel to the thread that closes files and, after the last sender is gone, the handle: both may take long.
    closing: Sender<Handle<glfs_fd_t>>,
    this: Weak<Session>,
}

/// A pointer that the library allows to be used from any thread.
#[derive(Debug)]
struct Handle<T>(*mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
// SAFETY: the library allows calls on one handle or file from any thread at the same time.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl Session {
    /// Connects to a volume, `HOST[,HOST ..]:/VOLUME[/BELOW]`, with the translators in `passed` set to pass-through.
    pub fn connect(server: &str, passed: &[&str]) -> io::Result<Arc<Session>> {
        let library = Library::get().map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
        let (hosts, path) = server.split_once(":/").ok_or(io::ErrorKind::InvalidInput)?;
        let volume = CString::new(path.split('/').next().unwrap_or(path))?;
        // SAFETY: the name lives until the call returns; the library copies it.
        let fs = unsafe { (library.new)(volume.as_ptr()) };
        if fs.is_null() {
            return Err(io::Error::last_os_error());
        }
        let fs = Handle(fs);
        let set = |xlator: &str, key: &str, value: &str| -> io::Result<()> {
            let (xlator, key, value) = (CString::new(xlator)?, CString::new(key)?, CString::new(value)?);
            // SAFETY: the handle is alive, the words live until the call returns; the library copies them.
            unsafe { (library.set_xlator_option)(fs.0, xlator.as_ptr(), key.as_ptr(), value.as_ptr()) };
            Ok(())
        };
        for part in passed {
            set(&format!("*-{part}"), "pass-through", "true")?;
        }
        for host in hosts.split(',') {
            let host = CString::new(host)?;
            // SAFETY: as above; 24007 is where servers listen for clients.
            unsafe { (library.set_volfile_server)(fs.0, c"tcp".as_ptr(), host.as_ptr(), 24007) };
        }
        let log = if std::path::Path::new(LOGS).is_dir() {
            format!("{LOGS}/entrepot-connect.log")
        } else {
            "/dev/null".into()
        };
        let log = CString::new(log)?;
        const ERRORS: i32 = 4;
        // SAFETY: as above.
        unsafe { (library.set_logging)(fs.0, log.as_ptr(), ERRORS) };
        let (closing, to_close) = channel::<Handle<glfs_fd_t>>();
        let (connected, answer) = channel();
        // This thread owns the handle to its end: it connects, closes files, and releases the handle.
        apart("gfapi", move || {
            let fs = fs;
            // SAFETY: the handle is alive and not connected yet.
            let done = unsafe { (library.init)(fs.0) };
            let done = if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
            drop(connected.send(done));
            while let Ok(file) = to_close.recv() {
                // SAFETY: it was opened on this handle and is sent by its only owner, after its last operation.
                unsafe { (library.close)(file.0) };
            }
            // SAFETY: the session is gone, and with it every file and operation.
            unsafe { (library.fini)(fs.0) };
        })?;
        match answer.recv_timeout(CONNECT_PATIENCE) {
            Ok(done) => done?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
        Ok(Arc::new_cyclic(|this| Session {
            library,
            fs,
            gone: AtomicBool::new(false),
            under_way: Mutex::default(),
            next: AtomicU64::new(0),
            closing,
            this: this.clone(),
        }))
    }

    fn check(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) { Err(Errno::NOTCONN) } else { Ok(()) }
    }

    fn open_by_identity(self: Arc<Session>, mut gfid: [u8; GFID], flags: i32) -> Result<Inner> {
        // SAFETY: the handle is alive; the identity has the given length, and no attributes are requested.
        let object = unsafe {
            (self.library.h_create_from_handle)(self.fs.0, gfid.as_mut_ptr(), GFID as i32, std::ptr::null_mut())
        };
        if object.is_null() {
            return Err(last_error());
        }
        // SAFETY: both are alive.
        let fd = unsafe { (self.library.h_open)(self.fs.0, object, flags) };
        let error = last_error();
        // SAFETY: it is ours, and an open file does not need it.
        unsafe { (self.library.h_close)(object) };
        if fd.is_null() { Err(error) } else { Ok(Inner { session: self, fd: Handle(fd) }) }
    }
}

/// Returns the error that the library left in `errno`.
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Client for Session {
    fn open(&self, mounted: BorrowedFd<'_>, flags: OFlags) -> Result<Arc<dyn ClientFile>> {
        self.check()?;
        let session = self.this.upgrade().ok_or(Errno::NOTCONN)?;
        let mut gfid = [0u8; GFID];
        if fgetxattr(mounted, c"glusterfs.gfid", &mut gfid)? != GFID {
            return Err(Errno::NODATA);
        }
        let flags = (flags & (OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC)).bits() as i32;
        // The library has no asynchronous open. A thread of its own waits for the server, so that the caller is free
        // when the connection is taken out. A file that opens later is dropped.
        let opened = apart("gfapi open", move || session.open_by_identity(gfid, flags)).map_err(|_| Errno::AGAIN)?;
        loop {
            match opened.recv_timeout(OPEN_NAP) {
                Ok(file) => return file.map(|file| Arc::new(File(Arc::new(file))) as Arc<dyn ClientFile>),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Errno::IO),
            }
        }
    }

    fn probe(&self) -> Result<()> {
        self.check()?;
        // SAFETY: a block of attributes of the file system is zeros before it is filled; both live until the call
        // returns.
        let done = unsafe {
            let mut space: libc::statvfs = std::mem::zeroed();
            (self.library.statvfs)(self.fs.0, c"/".as_ptr(), &mut space)
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }

    fn take_out(&self) {
        self.gone.store(true, Ordering::Release);
        let under_way: Vec<_> = self.under_way.lock().drain().collect();
        for (_, operation) in under_way {
            operation.end(Err(Errno::NOTCONN));
        }
    }
}

/// An open file. Operations hold the inner part, so that it is closed after the last answer.
#[derive(Debug)]
struct File(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    session: Arc<Session>,
    fd: Handle<glfs_fd_t>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread lives as long as the session. This may be the library's own thread, which must not wait.
        let _ = self.session.closing.send(self.fd);
    }
}

/// An operation under way in the library.
struct Operation {
    inner: Arc<Inner>,
    /// Number within the session.
    number: u64,
    buffer: Mutex<Aligned>,
    /// Completion callback: called at the library's answer, or before, when the connection is taken out.
    done: Mutex<Option<Done>>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "operation {}", self.number)
    }
}

/// Completion callback of an operation.
enum Done {
    Read(ReadDone),
    Write(WriteDone),
}

impl Operation {
    /// Completes the operation with the number of bytes moved, or an error.
    fn end(&self, moved: Result<usize>) {
        self.inner.session.under_way.lock().remove(&self.number);
        let done = self.done.lock().take();
        match done {
            Some(Done::Read(done)) => done(moved.map(|moved| {
                let mut bytes = std::mem::take(&mut *self.buffer.lock());
                bytes.truncate(moved);
                bytes
            })),
            Some(Done::Write(done)) => done(moved),
            None => {} // completed before, when the connection was taken out
        }
    }
}

/// Called by the library on a thread of its own when an operation has ended.
unsafe extern "C" fn ended(_: *mut glfs_fd_t, moved: isize, _: *mut c_void, _: *mut c_void, data: *mut c_void) {
    let error = last_error();
    // SAFETY: `begin` leaked this reference for us.
    let operation = unsafe { Arc::from_raw(data as *const Operation) };
    operation.end(usize::try_from(moved).map_err(|_| error));
}

impl File {
    /// Starts an operation. `start` returns a negative value if the library refused it; otherwise the library
    /// completes it.
    fn begin(&self, buffer: Aligned, done: Done, start: impl FnOnce(&Operation, *mut c_void) -> i32) {
        let session = &self.0.session;
        let number = session.next.fetch_add(1, Ordering::Relaxed);
        let (buffer, done) = (Mutex::new(buffer), Mutex::new(Some(done)));
        let operation = Arc::new(Operation { inner: self.0.clone(), number, buffer, done });
        session.under_way.lock().insert(number, operation.clone());
        // `take_out` sets the flag before it drains the operations, so either it or this check sees the other.
        if let Err(gone) = session.check() {
            return operation.end(Err(gone));
        }
        let data = Arc::into_raw(operation.clone()) as *mut c_void;
        if start(&operation, data) < 0 {
            let error = last_error();
            // SAFETY: the operation was not started, so the library does not take this reference.
            drop(unsafe { Arc::from_raw(data as *const Operation) });
            operation.end(Err(error));
        }
    }
}

impl ClientFile for File {
    fn begin_read(&self, length: usize, offset: u64, done: ReadDone) {
        let (library, fd) = (self.0.session.library, self.0.fd);
        // Reads into memory of the operation's own: an answer may come after the connection was taken out.
        self.begin(Aligned::room(length), Done::Read(done), |operation, data| {
            let at = operation.buffer.lock().as_mut_ptr();
            // SAFETY: the file is open and the buffer has that length; both live as long as the operation, which the
            // callback holds. A buffer is taken away from its operation by the callback alone.
            unsafe { (library.pread_async)(fd.0, at.cast(), length, offset as i64, 0, ended, data) }
        });
    }

    fn begin_write(&self, data: &[u8], offset: u64, done: WriteDone) {
        let (library, fd) = (self.0.session.library, self.0.fd);
        let length = i32::try_from(data.len()).unwrap_or(i32::MAX);
        self.begin(Aligned::default(), Done::Write(done), |_, operation| {
            // SAFETY: the file is open; the bytes are copied before the call returns.
            unsafe { (library.pwrite_async)(fd.0, data.as_ptr().cast(), length, offset as i64, 0, ended, operation) }
        });
    }
}
