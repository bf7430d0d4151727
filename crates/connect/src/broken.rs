//! Classification of errors that may come from a broken connection.

use crate::mounts::Root;
use policy::connections::Sent;
use rustix::io::Errno;

/// Returns whether an error means that the connection is broken.
pub fn is_broken(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOTCONN
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::CONNREFUSED
            | Errno::PIPE
            | Errno::SHUTDOWN
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NETRESET
            | Errno::TIMEDOUT
            | Errno::NODEV
            | Errno::COMM
    )
}

/// Returns whether an error may come from the connection or from the server; a try over another connection decides.
/// GlusterFS returns `BADFD` for a file that was open before its client lost the server. `NOENT` and `STALE` are
/// returned for an unlinked file that is not open on this connection yet.
pub fn is_doubtful(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::STALE | Errno::BADFD | Errno::BADF | Errno::NOENT)
}

/// Returns how far a failed operation came. A FUSE mount whose process is gone refuses requests with `NOTCONN` that
/// were never passed on. A mount that is alive returns the same error for requests that were sent.
pub fn sent(root: &Root, error: Errno) -> Sent {
    if error == Errno::NOTCONN && root.process_is_gone() { Sent::Never } else { Sent::Maybe }
}
