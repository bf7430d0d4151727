//! The functions of `libgfapi.so.0` that are used, as GlusterFS 6 and later have them.

#![allow(non_camel_case_types)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

/// A handle of the library: one volume.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_t([u8; 0]);
/// An open file.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_fd_t([u8; 0]);
/// A file that is identified by its `gfid`.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_object_t([u8; 0]);

/// Completion callback: the file, bytes moved or -1, attributes before and after, and the caller's data.
pub type Ended = unsafe extern "C" fn(*mut glfs_fd_t, isize, *mut c_void, *mut c_void, *mut c_void);

type SetXlatorOption = unsafe extern "C" fn(*mut glfs_t, *const c_char, *const c_char, *const c_char) -> c_int;
type CreateFromHandle = unsafe extern "C" fn(*mut glfs_t, *mut c_uchar, c_int, *mut libc::stat) -> *mut glfs_object_t;
type Open = unsafe extern "C" fn(*mut glfs_t, *mut glfs_object_t, c_int) -> *mut glfs_fd_t;
type Read = unsafe extern "C" fn(*mut glfs_fd_t, *mut c_void, usize, i64, c_int, Ended, *mut c_void) -> c_int;
type Write = unsafe extern "C" fn(*mut glfs_fd_t, *const c_void, c_int, i64, c_int, Ended, *mut c_void) -> c_int;

/// Returns the address of a function of the library.
fn find(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the library is open, and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() { Err(cause()) } else { Ok(found) }
}

/// Returns the dynamic linker's message about its last call, which failed.
fn cause() -> String {
    // SAFETY: the text is the calling thread's own until its next call of the linker.
    let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
    text.map_or_else(|| "the dynamic linker gives no cause".into(), |text| text.to_string_lossy().into_owned())
}

macro_rules! functions {
    ($($field:ident = $name:literal: $kind:ty),+ $(,)?) => {
        /// Functions of the library.
        #[derive(Debug)]
        pub struct Library { $(pub $field: $kind),+ }

        impl Library {
            fn load() -> Result<Library, String> {
                // The library is needed until the process ends, so it is never closed.
                // SAFETY: it is GlusterFS's own library, whose start has no conditions.
                let library = unsafe { libc::dlopen(c"libgfapi.so.0".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
                if library.is_null() {
                    return Err(cause());
                }
                // SAFETY: each type is the one of the library's header.
                Ok(Library { $($field: unsafe { std::mem::transmute::<*mut c_void, $kind>(find(library, $name)?) }),+ })
            }
        }
    };
}

functions! {
    new = c"glfs_new": unsafe extern "C" fn(*const c_char) -> *mut glfs_t,
    init = c"glfs_init": unsafe extern "C" fn(*mut glfs_t) -> c_int,
    fini = c"glfs_fini": unsafe extern "C" fn(*mut glfs_t) -> c_int,
    set_volfile_server = c"glfs_set_volfile_server":
        unsafe extern "C" fn(*mut glfs_t, *const c_char, *const c_char, c_int) -> c_int,
    set_xlator_option = c"glfs_set_xlator_option": SetXlatorOption,
    set_logging = c"glfs_set_logging": unsafe extern "C" fn(*mut glfs_t, *const c_char, c_int) -> c_int,
    statvfs = c"glfs_statvfs": unsafe extern "C" fn(*mut glfs_t, *const c_char, *mut libc::statvfs) -> c_int,
    h_create_from_handle = c"glfs_h_create_from_handle": CreateFromHandle,
    h_open = c"glfs_h_open": Open,
    h_close = c"glfs_h_close": unsafe extern "C" fn(*mut glfs_object_t) -> c_int,
    close = c"glfs_close": unsafe extern "C" fn(*mut glfs_fd_t) -> c_int,
    pread_async = c"glfs_pread_async": Read,
    pwrite_async = c"glfs_pwrite_async": Write,
}

impl Library {
    /// Returns the library, which is loaded once.
    pub fn get() -> Result<&'static Library, String> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        FOUND.get_or_init(Library::load).as_ref().map_err(Clone::clone)
    }
}
