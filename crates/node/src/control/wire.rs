//! Lines on the socket: their form and their limit.

use super::Problem;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Read};

/// Longest line in either direction. A job script of a few MiB fits.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// A request in its serialized form: `what` has `command` and `args`.
#[derive(Serialize)]
pub(super) struct Sent<T> {
    pub id: u64,
    #[serde(flatten)]
    pub what: T,
}

/// A command by its name.
#[derive(Serialize)]
pub(super) struct Command<'a, T> {
    pub command: &'a str,
    pub args: T,
}

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    pub id: u64,
    pub command: String,
    #[serde(default)]
    pub args: Value,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Value>,
    // A result may be null: its presence marks success.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

/// The next line without its end; `None` at the end of the stream. A line over the limit is an error.
pub(super) fn read_line(from: &mut impl BufRead, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let n = from.take(bytes_max + 1).read_until(b'\n', &mut line)?;
    if n == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if n as u64 > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line is longer than {bytes_max} bytes")));
    } else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_at_the_limit_passes_and_one_byte_more_does_not() {
        let mut input: &[u8] = b"12345\n123456\n";
        assert_eq!(read_line(&mut input, 5).unwrap(), Some(b"12345".to_vec()));
        assert_eq!(read_line(&mut input, 5).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_torn_line_is_no_request() {
        let mut input: &[u8] = b"{\"command\":";
        assert_eq!(read_line(&mut input, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_null_result_is_a_result() {
        let answer: Answer = serde_json::from_str(r#"{"id":1,"result":null}"#).unwrap();
        assert_eq!(answer.result, Some(Value::Null));
        let answer: Answer = serde_json::from_str(r#"{"id":1,"progress":3}"#).unwrap();
        assert_eq!(answer.result, None);
    }
}
