//! OpenDAL's http transport with checked answers, since OpenDAL trusts that an answer matches its request.

use crate::answer;
use crate::client::{self, Client, Endless};
use crate::connect::BoxError;
use futures_util::TryStreamExt;
use http::header::RANGE;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyDataStream;
use opendal::raw::{parse_content_encoding, parse_content_length};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, OperationContext};
use std::ops::Range;

/// Forwards the answer to a range request only if it contains that range.
struct Checked(Client);

impl HttpTransport for Checked {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let (asked, uri, is_head) = (asked(request.headers()), request.uri().clone(), request.method() == Method::HEAD);
        let answer = self.0.send(request.map(client::whole)).await.map_err(|e| broken("send http request", e))?;
        if let Some(asked) = asked.filter(|_| answer.status().is_success()) {
            let checked = answer::check_range(answer.status(), answer.headers(), &asked);
            checked.map_err(|why| Error::new(ErrorKind::Unsupported, why))?;
        }
        let (mut parts, body) = answer.into_parts();
        parts.extensions.insert(uri); // where OpenDAL looks for what an error was about
        let coded = is_head || parse_content_encoding(&parts.headers)?.is_some();
        let len = if coded { None } else { parse_content_length(&parts.headers)? };
        let blocks = BodyDataStream::new(body)
            .map_ok(Buffer::from)
            .map_err(|e| broken("read data from http response", e.into()));
        Ok(Response::from_parts(parts, HttpBody::new(blocks, len)))
    }
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
