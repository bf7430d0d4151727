//! Classification of errors: those of the target, of the daemon, and of the request alone.

use rustix::io::Errno;

/// Whether an errno is a fault of the target, and not of the request.
pub fn is_hard(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::IO
            | Errno::NXIO
            | Errno::NODEV
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::NOTCONN
            | Errno::SHUTDOWN
            | Errno::TIMEDOUT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::STALE
            | Errno::UCLEAN // "structure needs cleaning": the file system of the target is damaged
            | Errno::REMOTEIO
    )
}

/// Whether an errno means that no space is left, which is no fault.
pub fn is_space(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

/// Whether an errno means that the daemon or the machine lacks a resource: descriptors, memory, threads,
/// buffers. Such an error has no meaning for the target.
pub fn is_shortage(errno: Errno) -> bool {
    // `AGAIN` is the error of a thread that cannot be started.
    matches!(errno, Errno::AGAIN | Errno::NOMEM | Errno::NFILE | Errno::MFILE | Errno::NOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_application_and_of_the_daemon_are_no_faults_of_the_target() {
        let of_requests = [Errno::PERM, Errno::NOENT, Errno::ACCESS, Errno::EXIST, Errno::INVAL, Errno::FBIG];
        let of_space = [Errno::NOSPC, Errno::DQUOT];
        let of_daemon = [Errno::AGAIN, Errno::NOMEM, Errno::NFILE, Errno::MFILE, Errno::NOBUFS];
        assert!(
            [of_requests.as_slice(), &of_space, &of_daemon, &[Errno::ROFS]].concat().into_iter().all(|e| !is_hard(e))
        );
        assert!([Errno::IO, Errno::NODEV, Errno::NOTCONN, Errno::STALE].into_iter().all(is_hard));
        assert!(of_space.into_iter().all(is_space) && of_daemon.into_iter().all(is_shortage) && !is_space(Errno::IO));
    }
}
