//! Classification of errors: those of the target, of the daemon, and of the request alone.

/// Whether an errno of Linux is a fault of the target, and not of the request.
pub fn is_hard(errno: i32) -> bool {
    const EIO: i32 = 5;
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ECONNABORTED: i32 = 103;
    const ECONNRESET: i32 = 104;
    const ENOTCONN: i32 = 107;
    const ESHUTDOWN: i32 = 108;
    const ETIMEDOUT: i32 = 110;
    const EHOSTDOWN: i32 = 112;
    const EHOSTUNREACH: i32 = 113;
    const ESTALE: i32 = 116;
    const EUCLEAN: i32 = 117; // "structure needs cleaning": the file system of the target is damaged
    const EREMOTEIO: i32 = 121;
    matches!(
        errno,
        EIO | ENXIO
            | ENODEV
            | ECONNABORTED
            | ECONNRESET
            | ENOTCONN
            | ESHUTDOWN
            | ETIMEDOUT
            | EHOSTDOWN
            | EHOSTUNREACH
            | ESTALE
            | EUCLEAN
            | EREMOTEIO
    )
}

/// Whether an errno of Linux means that the target is read-only.
pub fn is_read_only(errno: i32) -> bool {
    const EROFS: i32 = 30;
    errno == EROFS
}

/// Whether an errno of Linux means that no space is left, which is no fault.
pub fn is_space(errno: i32) -> bool {
    const ENOSPC: i32 = 28;
    const EDQUOT: i32 = 122;
    matches!(errno, ENOSPC | EDQUOT)
}

/// Whether an errno of Linux means that the daemon or the machine lacks a resource: descriptors, memory, threads,
/// buffers. Such an error has no meaning for the target.
pub fn is_shortage(errno: i32) -> bool {
    const EAGAIN: i32 = 11; // a thread that cannot be started
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOBUFS: i32 = 105;
    matches!(errno, EAGAIN | ENOMEM | ENFILE | EMFILE | ENOBUFS)
}
