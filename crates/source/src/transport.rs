//! OpenDAL's http transport with checked answers, since OpenDAL trusts that an answer matches its request.

use crate::answer;
use crate::client::{self, Client, Endless};
use crate::connect::BoxError;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::header::RANGE;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyDataStream;
use opendal::raw::{parse_content_encoding, parse_content_length};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, OperationContext};
use std::ops::Range;

/// Maximum size of an answer that OpenDAL keeps in memory: a listing of webdav has about 1 KiB per entry.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Forwards the answer to a range request only if it contains that range.
struct Checked(Client);

impl HttpTransport for Checked {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let (asked, uri, method) = (asked(request.headers()), request.uri().clone(), request.method().clone());
        let answer = self.0.send(request.map(client::whole)).await.map_err(|e| broken("send http request", e))?;
        if let Some(asked) = asked.filter(|_| answer.status().is_success()) {
            let checked = answer::check_range(answer.status(), answer.headers(), &asked);
            checked.map_err(|why| Error::new(ErrorKind::Unsupported, why))?;
        }
        let room = room(&method, &uri, answer.status());
        let (mut parts, body) = answer.into_parts();
        parts.extensions.insert(uri); // where OpenDAL looks for what an error was about
        let coded = method == Method::HEAD || parse_content_encoding(&parts.headers)?.is_some();
        let len = if coded { None } else { parse_content_length(&parts.headers)? };
        let blocks = BodyDataStream::new(body)
            .map_ok(Buffer::from)
            .map_err(|e| broken("read data from http response", e.into()));
        Ok(Response::from_parts(parts, HttpBody::new(at_most(blocks, room), len)))
    }
}

/// Maximum size of an answer: that of a file is streamed, each other one is kept in memory.
fn room(method: &Method, uri: &Uri, status: StatusCode) -> usize {
    let is_listing = uri.query().is_some_and(|query| query.contains("list-type="));
    if *method == Method::GET && status.is_success() && !is_listing { usize::MAX } else { ANSWER_BYTES_MAX }
}

/// Ends an answer with an error after `room` bytes.
fn at_most(
    blocks: impl Stream<Item = opendal::Result<Buffer>>,
    mut room: usize,
) -> impl Stream<Item = opendal::Result<Buffer>> {
    blocks.map(move |block: opendal::Result<Buffer>| -> opendal::Result<Buffer> {
        let block = block?;
        room = room.checked_sub(block.len()).ok_or_else(|| {
            let why = format!("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20);
            Error::new(ErrorKind::Unsupported, why)
        })?;
        Ok(block)
    })
}

/// A request without a complete answer may be repeated.
fn broken(what: &'static str, e: BoxError) -> Error {
    let passing = !e.is::<Endless>();
    Error::new(ErrorKind::Unexpected, what).with_temporary(passing).set_source(std::io::Error::other(e))
}

/// The range that a request names by both its ends.
fn asked(headers: &HeaderMap) -> Option<Range<u64>> {
    let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then(|| Some(first..last.checked_add(1)?))?
}

/// Context with the transport for requests of OpenDAL's services.
pub fn checked(client: Client) -> OperationContext {
    OperationContext::new().with_http_transport(HttpTransporter::new(Checked(client)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use std::time::Duration;

    #[test]
    fn an_answer_that_is_kept_in_memory_has_a_limit() {
        let room = |method: &str, uri: &'static str, status: StatusCode| {
            room(&method.parse().expect("a method"), &Uri::from_static(uri), status)
        };
        assert_eq!(room("GET", "http://h/b/x", StatusCode::PARTIAL_CONTENT), usize::MAX);
        for (method, uri, status) in [
            ("GET", "http://h/b?list-type=2&prefix=x", StatusCode::OK),
            ("GET", "http://h/b/x", StatusCode::NOT_FOUND),
            ("PROPFIND", "http://h/b/", StatusCode::MULTI_STATUS),
        ] {
            assert_eq!(room(method, uri, status), ANSWER_BYTES_MAX, "{method} {uri}");
        }
        let blocks = || futures_util::stream::iter([3, 4, 5].map(|len| Ok(Buffer::from(vec![0u8; len]))));
        let runtime = Runtime::new(Duration::from_secs(20));
        let read = |room| runtime.wait("read", 0, async { Ok(at_most(blocks(), room).try_collect::<Vec<_>>().await) });
        assert_eq!(read(12).expect("in time").expect("all").len(), 3);
        assert_eq!(read(11).expect("in time").expect_err("too much").kind(), ErrorKind::Unsupported);
    }
}
