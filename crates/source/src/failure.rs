//! Classifies the errors of protocol libraries: whether another try may succeed.

use crate::client::Endless;
use crate::connect::BoxError;
use engine::source::{Result, SourceError};
use http::StatusCode;
use hyper_util::client::legacy;
use openssh_sftp_client::error::SftpErrorKind;
use std::error::Error;

/// Longest text of a server that is shown. A longer one is a page for users, and less informative than the status.
const DETAIL_MAX: usize = 300;

/// Maps an error of OpenDAL.
pub fn of_opendal(e: opendal::Error) -> SourceError {
    use opendal::ErrorKind;
    let detail = Some(e.message().trim()).filter(|t| !t.is_empty() && !t.starts_with('<') && t.len() <= DETAIL_MAX);
    if let Some(status) = http_status(&e.to_string()) {
        let error = if e.is_temporary() { SourceError::Passing(answered(status)) } else { of_status(status) };
        return error.map(|text| detail.map_or(text.clone(), |detail| format!("{text}: {detail}")));
    }
    let mut text = detail.map_or_else(|| e.kind().to_string(), str::to_string);
    if let Some(cause) = e.source() {
        text = format!("{text}: {}", innermost(cause));
    }
    match e.kind() {
        ErrorKind::ConditionNotMatch => SourceError::Changed(text),
        ErrorKind::PermissionDenied => SourceError::Denied(text),
        ErrorKind::NotFound
        | ErrorKind::ConfigInvalid
        | ErrorKind::Unsupported
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::RangeNotSatisfied => SourceError::Permanent(text),
        // OpenDAL passes on ftp's code 530, "not logged in", as text only.
        ErrorKind::Unexpected if !e.is_temporary() && (text.contains("[530]") || text.contains("530 ")) => {
            SourceError::Denied(text)
        }
        _ => of_network(text),
    }
}

/// The status in the text of an error of OpenDAL.
fn http_status(text: &str) -> Option<StatusCode> {
    let (_, rest) = text.split_once("status: ")?;
    StatusCode::from_bytes(rest.get(..3)?.as_bytes()).ok()
}

/// Maps an error of an http request, before or during its answer.
pub fn of_http(e: BoxError) -> SourceError {
    if e.is::<Endless>() {
        return SourceError::Permanent("the server redirects without an end".into());
    }
    let inner = innermost(&*e);
    let what = match () {
        () if inner.is::<tokio::time::error::Elapsed>() => "no answer in time",
        () if e.downcast_ref().is_some_and(legacy::Error::is_connect) => "no connection to the server",
        () => "the connection broke",
    };
    of_network(format!("{what}: {inner}"))
}

/// The innermost cause is the most informative; the outer ones only name the call.
fn innermost<'a>(e: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut inner = e;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner
}

/// A failure of the network is temporary, but a name that does not exist will not exist at the next try either.
fn of_network(text: String) -> SourceError {
    // Texts of the C library's resolver. A name server that does not answer causes other texts.
    let unknown = ["Name or service not known", "No address associated with hostname", "Could not resolve hostname"];
    if unknown.iter().any(|words| text.contains(words)) && !text.contains("Temporary failure") {
        return SourceError::Permanent(format!("there is no server of this name ({text})"));
    }
    SourceError::Passing(text)
}

fn answered(status: StatusCode) -> String {
    format!("the server answered {status}")
}

/// Maps an http status where success was expected.
pub fn of_status(status: StatusCode) -> SourceError {
    let text = answered(status);
    match status.as_u16() {
        401 | 403 | 407 => SourceError::Denied(text),
        412 => SourceError::Changed(text),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => SourceError::Passing(text),
        300..=399 => SourceError::Permanent(format!("{text}: it requires another address")),
        _ => SourceError::Permanent(text),
    }
}

/// Adds to the error of an upload whether the sent bytes were removed.
pub fn left(e: SourceError, removed: Result<()>, temporary: &str) -> SourceError {
    let lies = lies(removed, temporary).unwrap_or_else(|| "the sent part was removed again".into());
    e.map(|text| format!("{text}; {lies}"))
}

/// Location of the bytes of an abandoned upload, if they could not be removed.
pub fn lies(removed: Result<()>, temporary: &str) -> Option<String> {
    removed.err().map(|why| format!("the sent part still lies at {temporary} and could not be removed ({why})"))
}

/// Checks that the file at the other end has the size of the data sent.
pub fn same_size(there: u64, sent: u64) -> Result<()> {
    if there == sent {
        return Ok(());
    }
    Err(SourceError::Passing(format!("{there} bytes arrived, {sent} were sent")))
}

/// Error of a transfer that ended early.
pub fn short(came: u64, wanted: u64) -> SourceError {
    SourceError::Passing(format!("the server sent {came} of {wanted} bytes"))
}

/// Maps an error of the sftp library.
pub fn of_sftp(what: &str, e: openssh_sftp_client::Error) -> SourceError {
    use openssh_sftp_client::Error::SftpError;
    let text = format!("sftp, {what}: {e}");
    match e {
        SftpError(SftpErrorKind::PermDenied, _) => SourceError::Denied(text),
        SftpError(SftpErrorKind::NoSuchFile | SftpErrorKind::OpUnsupported, _) => SourceError::Permanent(text),
        _ => SourceError::Passing(text),
    }
}

/// Maps the last line of `ssh`, or without one the error of the sftp library.
pub fn of_ssh(detail: &str, otherwise: &str) -> SourceError {
    let text = format!("ssh: {}", if detail.is_empty() { otherwise } else { detail });
    match () {
        () if detail.contains("Permission denied") => SourceError::Denied(text),
        () if detail.contains("Host key verification failed") || detail.contains("subsystem request failed") => {
            SourceError::Permanent(text)
        }
        () => of_network(text),
    }
}

/// Maps an error of a local file system.
pub fn of_io(what: &str, e: &std::io::Error) -> SourceError {
    use std::io::ErrorKind;
    let text = format!("{what}: {e}");
    match e.kind() {
        ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::ResourceBusy => {
            SourceError::Passing(text)
        }
        ErrorKind::PermissionDenied => SourceError::Denied(text),
        _ if e.raw_os_error() == Some(5) => SourceError::Passing(text), // EIO
        _ => SourceError::Permanent(text),
    }
}

/// Error of a transfer that received no more bytes.
pub fn stalled(what: &str, timeout: std::time::Duration) -> SourceError {
    SourceError::Passing(format!("{what}: no bytes arrived for {} s; check the network", timeout.as_secs_f32()))
}

/// Error of a transfer that was too slow.
pub fn slow(what: &str, bytes_s: u64, least_bytes_s: u64) -> SourceError {
    SourceError::Passing(format!(
        "{what}: only {bytes_s} bytes per second arrived, less than the minimum of {least_bytes_s}"
    ))
}

/// Error of a call without an answer in time.
pub fn timeout(what: &str) -> SourceError {
    SourceError::Passing(format!("{what}: no answer within the deadline"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opendal::{Error, ErrorKind};

    #[test]
    fn kinds() {
        let of = |kind| of_opendal(Error::new(kind, "x"));
        assert_eq!(of(ErrorKind::NotFound), SourceError::Permanent("x".into()));
        assert_eq!(of(ErrorKind::ConditionNotMatch), SourceError::Changed("x".into()));
        assert_eq!(of(ErrorKind::PermissionDenied), SourceError::Denied("x".into()));
        assert_eq!(of(ErrorKind::Unexpected), SourceError::Passing("x".into()));
    }

    #[test]
    fn a_status_is_said_with_its_name() {
        let of = |status: u16| {
            let response = format!("Parts {{ status: {status}, .. }}");
            of_opendal(Error::new(ErrorKind::Unexpected, "<html>").with_context("response", response))
        };
        assert_eq!(of(401), SourceError::Denied("the server answered 401 Unauthorized".into()));
        assert_eq!(of(404), SourceError::Permanent("the server answered 404 Not Found".into()));
        assert_eq!(of(503), SourceError::Passing("the server answered 503 Service Unavailable".into()));
        assert_eq!(of(412), SourceError::Changed("the server answered 412 Precondition Failed".into()));
        let refused = Error::new(ErrorKind::PermissionDenied, "AccessDenied").with_context("response", "status: 403");
        assert_eq!(of_opendal(refused), SourceError::Denied("the server answered 403 Forbidden: AccessDenied".into()));
    }

    #[test]
    fn a_name_that_nobody_knows_is_not_tried_again() {
        let of = |detail: &str| of_network(format!("failed to lookup address information: {detail}"));
        assert!(matches!(of("Name or service not known"), SourceError::Permanent(_)));
        assert!(matches!(of("Temporary failure in name resolution"), SourceError::Passing(_)));
        let ssh = "ssh: Could not resolve hostname h: Name or service not known";
        assert!(matches!(of_ssh(ssh, ""), SourceError::Permanent(_)));
        let ssh = "ssh: Could not resolve hostname h: Temporary failure in name resolution";
        assert!(matches!(of_ssh(ssh, ""), SourceError::Passing(_)));
    }
}
