//! From what a protocol's library says to whether it is worth trying again.

use openssh_sftp_client::error::SftpErrorKind;
use std::error::Error as _;
use store::origin::OriginError;

/// What OpenDAL said.
pub fn of_opendal(e: opendal::Error) -> OriginError {
    use opendal::ErrorKind;
    let mut text = e.message().trim().to_string();
    if text.is_empty() || text.starts_with('<') || text.len() > 300 {
        text = e.kind().to_string(); // a page of html says less than the kind does
    }
    let mut source = e.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    let status = http_status(&e.to_string());
    match e.kind() {
        ErrorKind::ConditionNotMatch => OriginError::Changed(text),
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::ConfigInvalid
        | ErrorKind::Unsupported
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::RangeNotSatisfied => OriginError::Permanent(text),
        ErrorKind::Unexpected if !e.is_temporary() => match status {
            Some(status) if (400..500).contains(&status) => {
                OriginError::Permanent(format!("the server answered {status}: {text}"))
            }
            // 530 is "not logged in" in ftp, and says so as text.
            _ if text.contains("[530]") || text.contains("530 ") => OriginError::Permanent(text),
            _ => OriginError::Passing(text),
        },
        _ => OriginError::Passing(text),
    }
}

/// The status that OpenDAL put into the text of an error.
fn http_status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status: ")?;
    rest.get(..3)?.parse().ok()
}

/// What an http request without OpenDAL met.
pub fn of_http(e: reqwest::Error) -> OriginError {
    let text = e.without_url().to_string();
    OriginError::Passing(text)
}

/// What an http status means where success was expected.
pub fn of_status(what: &str, status: reqwest::StatusCode) -> OriginError {
    let text = format!("{what}: the server answered {status}");
    match status.as_u16() {
        412 => OriginError::Changed(text),
        408 | 425 | 429 | 500 | 502 | 503 | 504 => OriginError::Passing(text),
        _ => OriginError::Permanent(text),
    }
}

/// What the sftp library said.
pub fn of_sftp(what: &str, e: openssh_sftp_client::Error) -> OriginError {
    let text = format!("sftp, {what}: {e}");
    match e {
        openssh_sftp_client::Error::SftpError(
            SftpErrorKind::NoSuchFile | SftpErrorKind::PermDenied | SftpErrorKind::OpUnsupported,
            _,
        ) => OriginError::Permanent(text),
        _ => OriginError::Passing(text),
    }
}

/// What a local file system said.
pub fn of_io(what: &str, e: &std::io::Error) -> OriginError {
    use std::io::ErrorKind;
    let text = format!("{what}: {e}");
    match e.kind() {
        ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::WouldBlock | ErrorKind::ResourceBusy => {
            OriginError::Passing(text)
        }
        _ if e.raw_os_error() == Some(5) => OriginError::Passing(text), // EIO
        _ => OriginError::Permanent(text),
    }
}

/// A transfer of which nothing came any more.
pub fn stalled(what: &str, patience: std::time::Duration) -> OriginError {
    OriginError::Passing(format!("{what}: nothing came for {} s; is the network there?", patience.as_secs_f32()))
}

/// No answer in time.
pub fn timeout(what: &str) -> OriginError {
    OriginError::Passing(format!("{what}: no answer within the deadline"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opendal::{Error, ErrorKind};

    #[test]
    fn kinds() {
        let of = |kind| of_opendal(Error::new(kind, "x"));
        assert_eq!(of(ErrorKind::NotFound), OriginError::Permanent("x".into()));
        assert_eq!(of(ErrorKind::ConditionNotMatch), OriginError::Changed("x".into()));
        assert_eq!(of(ErrorKind::Unexpected), OriginError::Passing("x".into()));
        let refused = Error::new(ErrorKind::Unexpected, "no").with_context("response", "Parts { status: 401, .. }");
        assert!(matches!(of_opendal(refused), OriginError::Permanent(_)));
    }
}
