//! Checks whether an http answer matches its request: the server is not trusted.
//!
//! A cache or proxy may answer with another range, or with the whole file. Its bytes would then be stored at the wrong
//! offset.

use crate::failure;
use crate::guard::same;
use engine::source::{SourceError, Version};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap};
use opendal::raw::{parse_etag, parse_last_modified};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest tag that is stored: it is kept with the file, where there is room for a page.
const TAG_BYTES_MAX: usize = 256;

/// A tag that can guard reads. A weak one cannot: it may stay the same when bytes change, and `If-Match` never accepts
/// it.
pub fn guarding(tag: &str) -> Option<String> {
    (!tag.starts_with("W/") && tag.len() <= TAG_BYTES_MAX).then(|| tag.to_string())
}

/// Version of data of that size, from the headers.
pub fn version(headers: &HeaderMap, size: u64) -> Version {
    let etag = parse_etag(headers).ok().flatten().and_then(guarding);
    let modified = parse_last_modified(headers).ok().flatten().map(SystemTime::from);
    let modified_ns = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_nanos() as u64);
    Version { size, etag, modified_ns }
}

/// The announced length of the body.
pub fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// Range and size from `Content-Range`: the range, if present, and the size of the whole file, if known.
pub fn content_range(headers: &HeaderMap) -> (Option<Range<u64>>, Option<u64>) {
    let text = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let Some((range, size)) = text.trim().strip_prefix("bytes").and_then(|rest| rest.trim().split_once('/')) else {
        return (None, None);
    };
    let range = range.split_once('-').and_then(|(first, last)| {
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then(|| Some(first..last.checked_add(1)?))?
    });
    (range, size.trim().parse().ok())
}

/// Checks that a successful answer contains exactly the requested range.
pub fn check_range(status: StatusCode, headers: &HeaderMap, asked: &Range<u64>) -> Result<(), String> {
    let shown = |range: &Range<u64>| format!("{}-{}", range.start, range.end - 1);
    match (status, content_range(headers).0) {
        (StatusCode::PARTIAL_CONTENT, Some(range)) if range == *asked => Ok(()),
        (StatusCode::PARTIAL_CONTENT, Some(other)) => {
            Err(format!("asked for the bytes {}, the server answered with the bytes {}", shown(asked), shown(&other)))
        }
        (StatusCode::PARTIAL_CONTENT, None) => {
            Err(format!("asked for the bytes {}, the server does not report their range", shown(asked)))
        }
        _ => Err("the server ignores ranges".into()),
    }
}

/// Checks that the answer to a request, for a range or the whole file, contains these bytes of this version.
pub fn check(
    status: StatusCode,
    headers: &HeaderMap,
    wanted: &Version,
    range: Option<&Range<u64>>,
) -> Result<(), SourceError> {
    if !status.is_success() {
        return Err(failure::of_status(status));
    }
    let size = match range {
        Some(asked) => {
            check_range(status, headers, asked).map_err(SourceError::Permanent)?;
            content_range(headers).1
        }
        None if status == StatusCode::OK => length(headers),
        None => return Err(SourceError::Permanent(format!("the server answered {status} where 200 OK was expected"))),
    };
    same(wanted, &version(headers, size.unwrap_or(wanted.size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().expect("name"), value.parse().expect("value"))).collect()
    }

    #[test]
    fn content_ranges() {
        let of = |text: &str| content_range(&headers(&[("content-range", text)]));
        assert_eq!(of("bytes 0-99/1000"), (Some(0..100), Some(1000)));
        assert_eq!(of("bytes 5-5/*"), (Some(5..6), None));
        assert_eq!(of("bytes */1000"), (None, Some(1000)));
        for bad in ["", "bytes", "0-99/1000", "bytes 9-5/10", "bytes 0-18446744073709551615/*", "bytes a-b/c"] {
            assert_eq!(of(bad).0, None, "{bad:?}");
        }
    }

    #[test]
    fn tags_that_are_weak_or_endless_guard_nothing() {
        assert_eq!(guarding("\"a\""), Some("\"a\"".into()));
        assert_eq!(guarding("W/\"a\""), None);
        assert_eq!(guarding(&"a".repeat(100_000)), None);
    }

    /// [S-190]
    #[test]
    fn only_the_bytes_that_were_asked_for_are_taken() {
        let wanted = Version { size: 1000, etag: Some("\"a\"".into()), modified_ns: Some(784_111_777_000_000_000) };
        let asked = 100..200;
        let of = |status: u16, lines: &[(&'static str, &str)], range: Option<&Range<u64>>| {
            check(StatusCode::from_u16(status).expect("a status"), &headers(lines), &wanted, range)
        };
        assert_eq!(of(206, &[("content-range", "bytes 100-199/1000")], Some(&asked)), Ok(()));
        assert_eq!(of(206, &[("content-range", "bytes 100-199/*"), ("etag", "\"a\"")], Some(&asked)), Ok(()));
        assert_eq!(of(200, &[("content-length", "1000"), ("etag", "W/\"b\"")], None), Ok(()));
        for (status, lines, range) in [
            (206, &[("content-range", "bytes 0-99/1000")][..], Some(&asked)),
            (206, &[("content-range", "bytes 100-198/1000")], Some(&asked)),
            (206, &[("content-range", "bytes */1000")], Some(&asked)),
            (206, &[("content-type", "multipart/byteranges; boundary=x")], Some(&asked)),
            (200, &[("content-length", "1000")], Some(&asked)),
            (206, &[("content-range", "bytes 0-999/1000")], None),
            (204, &[], None),
            (404, &[], None),
        ] {
            let found = of(status, lines, range);
            assert!(matches!(found, Err(SourceError::Permanent(_))), "{status} {lines:?}: {found:?}");
        }
        for (status, lines, range) in [
            (206, &[("content-range", "bytes 100-199/1001")][..], Some(&asked)),
            (206, &[("content-range", "bytes 100-199/1000"), ("etag", "\"b\"")], Some(&asked)),
            (200, &[("content-length", "999")], None),
            (200, &[("last-modified", "Sun, 06 Nov 1994 08:49:38 GMT")], None),
            (412, &[], Some(&asked)),
        ] {
            let found = of(status, lines, range);
            assert!(matches!(found, Err(SourceError::Changed(_))), "{status} {lines:?}: {found:?}");
        }
        assert!(matches!(of(503, &[], Some(&asked)), Err(SourceError::Passing(_))));
    }
}
