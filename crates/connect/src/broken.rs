//! What an error says about the connection that it came over.

use crate::mounts::Root;
use policy::connections::Sent;
use rustix::io::Errno;

/// Whether an error means that the connection is broken.
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

/// Whether an error may come from the connection as well as from the server: another connection tells. `BADFD` is what GlusterFS says of
/// a file that was open before its client lost the server; `NOENT` and `STALE` what a file without a name gets where it is not open yet.
pub fn is_doubtful(error: Errno) -> bool {
    matches!(error, Errno::IO | Errno::STALE | Errno::BADFD | Errno::BADF | Errno::NOENT)
}

/// How far an operation came that failed so. A FUSE mount whose process is gone refuses with `NOTCONN` what it never passed on; one that
/// is alive says the same of what it had sent.
pub fn sent(root: &Root, error: Errno) -> Sent {
    if error == Errno::NOTCONN && root.process_is_gone() { Sent::Never } else { Sent::Maybe }
}
