//! GlusterFS's client library (`libgfapi`), found at run time: a connection of its own per handle, without a mount in between.
//!
//! ```text
//!   one handle per connection -> glfs_pread_async, glfs_pwrite_async -> its own event thread -> the server
//!                                            ^ waits for the answer, or until the connection is taken out of use
//! ```
//! Nothing of it is needed to build. Files are opened by the identity (`glusterfs.gfid`) of what is open on the mount, so renames do not
//! matter. The calls that wait are the asynchronous ones plus a wait of ours, since one that hangs in the library could not be called back.

mod library;

use crate::aligned::Aligned;
use crate::client::{Client, ClientFile};
use library::{Library, glfs_fd_t, glfs_t};
use parking_lot::{Condvar, Mutex};
use rustix::fs::{OFlags, fgetxattr};
use rustix::io::{Errno, Result};
use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long a handle may take to connect.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How often whoever waits looks whether the connection was taken out.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a file's identity.
const GFID: usize = 16;
/// Where GlusterFS keeps its logs.
const LOGS: &str = "/var/log/glusterfs";

/// Whether the library is there; why not, otherwise.
pub fn present() -> std::result::Result<(), String> {
    Library::get().map(|_| ())
}

/// A handle with its connection.
#[derive(Debug)]
pub struct Session {
    library: &'static Library,
    fs: Handle<glfs_t>,
    gone: AtomicBool,
    /// To the thread that closes files and, when nobody sends any more, the handle: both may take long.
    closing: Sender<Handle<glfs_fd_t>>,
    this: Weak<Session>,
}

/// A pointer of the library's, which may be used from any thread.
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
    /// Connects to a volume, `HOST[,HOST ..]:/VOLUME[/BELOW]`, with all caches of its own passing everything through.
    pub fn connect(server: &str, caches: &[&str]) -> io::Result<Arc<Session>> {
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
        for cache in caches {
            set(&format!("*-{cache}"), "pass-through", "true")?;
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
        // This thread has the handle to its end: connects, closes what is sent, and lets go of it.
        std::thread::Builder::new().name("gfapi".into()).spawn(move || {
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
        Ok(Arc::new_cyclic(|this| Session { library, fs, gone: AtomicBool::new(false), closing, this: this.clone() }))
    }

    fn check(&self) -> Result<()> {
        if self.gone.load(Ordering::Acquire) { Err(Errno::NOTCONN) } else { Ok(()) }
    }
}

/// The error that the library left behind.
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Client for Session {
    fn open(&self, mounted: BorrowedFd<'_>, flags: OFlags) -> Result<Box<dyn ClientFile>> {
        self.check()?;
        let session = self.this.upgrade().ok_or(Errno::NOTCONN)?;
        let mut gfid = [0u8; GFID];
        if fgetxattr(mounted, c"glusterfs.gfid", &mut gfid)? != GFID {
            return Err(Errno::NODATA);
        }
        // SAFETY: the handle is alive; the identity has the length that is said, and no attributes are asked for.
        let object = unsafe {
            (self.library.h_create_from_handle)(self.fs.0, gfid.as_mut_ptr(), GFID as i32, std::ptr::null_mut())
        };
        if object.is_null() {
            return Err(last_error());
        }
        let flags = (flags & (OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC)).bits() as i32;
        // SAFETY: both are alive.
        let fd = unsafe { (self.library.h_open)(self.fs.0, object, flags) };
        let error = last_error();
        // SAFETY: it is ours, and an open file does not need it.
        unsafe { (self.library.h_close)(object) };
        if fd.is_null() { Err(error) } else { Ok(Box::new(File(Arc::new(Inner { session, fd: Handle(fd) })))) }
    }

    fn probe(&self) -> Result<()> {
        self.check()?;
        // SAFETY: a block of attributes of the file system is zeros before it is filled; both live until the call returns.
        let done = unsafe {
            let mut space: libc::statvfs = std::mem::zeroed();
            (self.library.statvfs)(self.fs.0, c"/".as_ptr(), &mut space)
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }

    fn take_out(&self) {
        self.gone.store(true, Ordering::Release);
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

/// What is under way in the library.
struct Operation {
    inner: Arc<Inner>,
    buffer: Mutex<Aligned>,
    answer: Mutex<Option<Result<usize>>>,
    answered: Condvar,
}

/// Called by the library on a thread of its own when an operation has ended.
unsafe extern "C" fn ended(_: *mut glfs_fd_t, moved: isize, _: *mut c_void, _: *mut c_void, data: *mut c_void) {
    let error = last_error();
    // SAFETY: `submit` leaked this reference for us.
    let operation = unsafe { Arc::from_raw(data as *const Operation) };
    *operation.answer.lock() = Some(usize::try_from(moved).map_err(|_| error));
    operation.answered.notify_all();
}

impl File {
    /// Starts an operation and waits for its end, or until the connection is taken out.
    fn submit(
        &self,
        buffer: Aligned,
        start: impl FnOnce(&Operation, *mut c_void) -> i32,
    ) -> Result<(usize, Arc<Operation>)> {
        self.0.session.check()?;
        let operation = Arc::new(Operation {
            inner: self.0.clone(),
            buffer: Mutex::new(buffer),
            answer: Mutex::new(None),
            answered: Condvar::new(),
        });
        let data = Arc::into_raw(operation.clone()) as *mut c_void;
        if start(&operation, data) < 0 {
            let error = last_error();
            // SAFETY: it was not started, so nobody else takes this reference.
            drop(unsafe { Arc::from_raw(data as *const Operation) });
            return Err(error);
        }
        let mut answer = operation.answer.lock();
        loop {
            if let Some(done) = answer.take() {
                drop(answer);
                return done.map(|moved| (moved, operation));
            }
            if operation.answered.wait_for(&mut answer, LOOK).timed_out() && answer.is_none() {
                operation.inner.session.check()?;
            }
        }
    }
}

impl ClientFile for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let (library, fd, len) = (self.0.session.library, self.0.fd, buffer.len());
        // Not into the caller's memory: it may be needed again before an answer that comes late.
        let (moved, operation) = self.submit(Aligned::zeroed(len), |operation, data| {
            let at = operation.buffer.lock().as_mut_ptr();
            // SAFETY: the file is open and the buffer has that length; both live as long as the operation, which the callback holds.
            unsafe { (library.pread_async)(fd.0, at.cast(), len, offset as i64, 0, ended, data) }
        })?;
        let moved = moved.min(len);
        buffer[..moved].copy_from_slice(&operation.buffer.lock()[..moved]);
        Ok(moved)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<usize> {
        let (library, fd) = (self.0.session.library, self.0.fd);
        let len = i32::try_from(data.len()).unwrap_or(i32::MAX);
        self.submit(Aligned::default(), |_, operation| {
            // SAFETY: the file is open; the bytes are copied before the call returns.
            unsafe { (library.pwrite_async)(fd.0, data.as_ptr().cast(), len, offset as i64, 0, ended, operation) }
        })
        .map(|(moved, _)| moved)
    }
}
