//! The functions of `libgfapi.so.0` that are used, as GlusterFS 6 and later have them.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::OnceLock;

/// A handle of the library's: a volume.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_t([u8; 0]);
/// An open file.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_fd_t([u8; 0]);
/// A file that is known by its identity.
#[repr(C)]
#[derive(Debug)]
pub struct glfs_object_t([u8; 0]);

/// Called when an operation has ended: the file, what moved or -1, attributes before and after, and what the caller gave.
pub type Ended = unsafe extern "C" fn(*mut glfs_fd_t, isize, *mut c_void, *mut c_void, *mut c_void);

type SetXlatorOption = unsafe extern "C" fn(*mut glfs_t, *const c_char, *const c_char, *const c_char) -> c_int;
type CreateFromHandle = unsafe extern "C" fn(*mut glfs_t, *mut c_uchar, c_int, *mut libc::stat) -> *mut glfs_object_t;
type Open = unsafe extern "C" fn(*mut glfs_t, *mut glfs_object_t, c_int) -> *mut glfs_fd_t;
type Read = unsafe extern "C" fn(*mut glfs_fd_t, *mut c_void, usize, i64, c_int, Ended, *mut c_void) -> c_int;
type Write = unsafe extern "C" fn(*mut glfs_fd_t, *const c_void, c_int, i64, c_int, Ended, *mut c_void) -> c_int;

macro_rules! functions {
    ($($field:ident = $name:literal: $kind:ty),+ $(,)?) => {
        /// The library's functions.
        #[derive(Debug)]
        pub struct Library { $(pub $field: $kind),+ }

        impl Library {
            fn load() -> Result<Library, libloading::Error> {
                // SAFETY: it is GlusterFS's own library, whose start has no conditions; the types are those of its header.
                unsafe {
                    let library = libloading::Library::new("libgfapi.so.0")?;
                    let functions = Library { $($field: *library.get::<$kind>($name)?),+ };
                    // It is needed until the process ends.
                    std::mem::forget(library);
                    Ok(functions)
                }
            }
        }
    };
}

functions! {
    new = b"glfs_new\0": unsafe extern "C" fn(*const c_char) -> *mut glfs_t,
    init = b"glfs_init\0": unsafe extern "C" fn(*mut glfs_t) -> c_int,
    fini = b"glfs_fini\0": unsafe extern "C" fn(*mut glfs_t) -> c_int,
    set_volfile_server = b"glfs_set_volfile_server\0":
        unsafe extern "C" fn(*mut glfs_t, *const c_char, *const c_char, c_int) -> c_int,
    set_xlator_option = b"glfs_set_xlator_option\0": SetXlatorOption,
    set_logging = b"glfs_set_logging\0": unsafe extern "C" fn(*mut glfs_t, *const c_char, c_int) -> c_int,
    statvfs = b"glfs_statvfs\0": unsafe extern "C" fn(*mut glfs_t, *const c_char, *mut libc::statvfs) -> c_int,
    h_create_from_handle = b"glfs_h_create_from_handle\0": CreateFromHandle,
    h_open = b"glfs_h_open\0": Open,
    h_close = b"glfs_h_close\0": unsafe extern "C" fn(*mut glfs_object_t) -> c_int,
    close = b"glfs_close\0": unsafe extern "C" fn(*mut glfs_fd_t) -> c_int,
    pread_async = b"glfs_pread_async\0": Read,
    pwrite_async = b"glfs_pwrite_async\0": Write,
}

impl Library {
    /// The library, looked for once.
    pub fn get() -> Result<&'static Library, String> {
        static FOUND: OnceLock<Result<Library, String>> = OnceLock::new();
        FOUND.get_or_init(|| Library::load().map_err(|error| error.to_string())).as_ref().map_err(Clone::clone)
    }
}
