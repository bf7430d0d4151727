//! OpenDAL's http with an eye on its answers: OpenDAL takes what comes for what it asked for.

use crate::answer;
use http::header::RANGE;
use http::{HeaderMap, Request, Response};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, OperationContext};
use std::ops::Range;

/// Hands an answer to a range on only if it is that range.
struct Checked;

impl HttpTransport for Checked {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let asked = asked(request.headers());
        let answer = HttpTransporter::default().fetch(request).await?;
        if let Some(asked) = asked.filter(|_| answer.status().is_success()) {
            let checked = answer::check_range(answer.status(), answer.headers(), &asked);
            checked.map_err(|why| Error::new(ErrorKind::Unsupported, why))?;
        }
        Ok(answer)
    }
}

/// The range that a request names by both its ends.
fn asked(headers: &HeaderMap) -> Option<Range<u64>> {
    let (first, last) = headers.get(RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then(|| Some(first..last.checked_add(1)?))?
}

/// Where OpenDAL's services send their requests.
pub fn checked() -> OperationContext {
    OperationContext::new().with_http_transport(HttpTransporter::new(Checked))
}
