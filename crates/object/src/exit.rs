//! Exit codes of the command line: the same cause has the same code in all commands.

/// The command failed.
pub const FAILED: u8 = 1;
/// The request itself is wrong: options, names, configuration.
pub const WRONG_INPUT: u8 = 2;
/// No daemon answers.
pub const NO_DAEMON: u8 = 3;
/// The caller may not do this.
pub const DENIED: u8 = 4;
/// The object of the request does not exist.
pub const NOT_FOUND: u8 = 5;
/// The object is in use; nothing was changed.
pub const BUSY: u8 = 6;
/// A part was done and a part failed, or data are lost.
pub const INCOMPLETE: u8 = 7;
/// The operation was interrupted and can be resumed.
pub const INTERRUPTED: u8 = 130;

/// Returns the code for a failed system call: the same cause has the same code in all commands.
pub fn of_io(e: &std::io::Error) -> u8 {
    use std::io::ErrorKind;
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => NOT_FOUND,
        ErrorKind::PermissionDenied => DENIED,
        ErrorKind::IsADirectory | ErrorKind::InvalidInput | ErrorKind::AlreadyExists => WRONG_INPUT,
        _ => FAILED,
    }
}

/// Advice after a failed system call.
pub fn next_of_io(e: &std::io::Error) -> &'static str {
    match of_io(e) {
        NOT_FOUND => "check the path",
        DENIED => "check the permissions of the path and of its directories",
        WRONG_INPUT => "name another path",
        _ => "correct the cause and try again",
    }
}
