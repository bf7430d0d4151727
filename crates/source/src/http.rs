//! Sources over http and webdav: ranges and whole files. Each answer is compared with its request.

use crate::address::Address;
use crate::answer;
use crate::client::{self, Body, Client};
use crate::credentials::{Credentials, Secret};
use crate::failure;
use crate::guard::Guard;
use crate::runtime::{Moved, Runtime, while_moving};
use engine::source::{Result, Source, SourceError, Version};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_MATCH, RANGE};
use http::request::Builder;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use opendal::Buffer;
use opendal::raw::{format_authorization_by_basic, format_authorization_by_bearer};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Parallel transfers of a session.
const TRANSFERS_MAX: usize = 8;

/// Parallel queries. They have slots of their own: otherwise a slow transfer would delay a query for a size.
const QUESTIONS_MAX: usize = 8;

/// Maximum size of a page that is read as a whole: enough for a listing of a hundred thousand names.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// A server, and the authentication there.
#[derive(Clone)]
pub struct HttpAccess {
    client: Client,
    base: url::Url,
    authorization: Option<HeaderValue>,
}

impl HttpAccess {
    /// Creates a client that follows redirects; nothing is sent yet.
    pub fn new(address: &Address, who: &Credentials, timeout: Duration) -> Result<HttpAccess> {
        let client = Client::new(timeout)?;
        let base = url::Url::parse(&address.http_endpoint())
            .map_err(|e| SourceError::Permanent(format!("bad server name: {e}")))?;
        Ok(HttpAccess { client, base, authorization: authorization(who)? })
    }

    /// Makes the client follow no redirect, as uploads need: a client that follows one turns a PUT into a GET, and a
    /// login page into success.
    pub fn without_redirects(self) -> HttpAccess {
        HttpAccess { client: self.client.without_redirects(), ..self }
    }

    /// The URL of a path that has its percent signs resolved.
    pub fn url(&self, path: &str) -> url::Url {
        let mut url = self.base.clone();
        url.set_path(&path.replace('%', "%25"));
        url
    }

    /// A request on behalf of the user.
    pub fn request(&self, method: Method, path: &str) -> Builder {
        let request = Request::builder().method(method).uri(self.url(path).as_str()).header(ACCEPT, "*/*");
        match &self.authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        }
    }

    /// Sends a request without a body.
    pub async fn send(&self, request: Builder) -> Result<Response<Incoming>> {
        self.send_with(request, client::whole(Buffer::new())).await
    }

    /// Sends a request.
    pub async fn send_with(&self, request: Builder, body: Body) -> Result<Response<Incoming>> {
        let request = request.body(body).map_err(|e| SourceError::Permanent(format!("no http request: {e}")))?;
        self.client.send(request).await.map_err(failure::of_http)
    }

    /// Version of the file: by HEAD, or by the probe where the server has no HEAD or omits the size in its answer.
    pub async fn stat(&self, path: &str) -> Result<Version> {
        if path.ends_with('/') {
            return Err(SourceError::Permanent("it is a directory, not a file".into()));
        }
        let answer = self.send(self.request(Method::HEAD, path)).await?;
        let status = answer.status();
        let no_head = matches!(status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED);
        if !status.is_success() && !no_head {
            return Err(failure::of_status(status));
        }
        if let Some(size) = answer::length(answer.headers()).filter(|size| *size > 0 && !no_head) {
            return Ok(answer::version(answer.headers(), size));
        }
        let found = self.probe(path).await?;
        found.version.ok_or_else(|| SourceError::Permanent("the server does not report the size of the file".into()))
    }

    /// Requests byte 1 alone, and reads only the answer's head: a server that ignores `Range` sends the whole file.
    async fn probe(&self, path: &str) -> Result<Probe> {
        let answer = self.send(self.request(Method::GET, path).header(RANGE, "bytes=1-1")).await?;
        let (status, headers) = (answer.status(), answer.headers());
        let (ranges, size) = match status {
            StatusCode::PARTIAL_CONTENT => {
                let ranges = answer::check_range(status, headers, &(1..2)).is_ok();
                (ranges, answer::content_range(headers).1.filter(|_| ranges))
            }
            // There is no byte 1: the file is empty or has one byte, and the server supports ranges.
            StatusCode::RANGE_NOT_SATISFIABLE => (true, answer::content_range(headers).1.or(Some(0))),
            StatusCode::OK => (false, answer::length(headers)),
            status => return Err(failure::of_status(status)),
        };
        Ok(Probe { ranges, version: size.map(|size| answer::version(headers, size)) })
    }

    /// Sends a request that changes something and must succeed; `what` names its purpose in messages.
    pub async fn done(&self, request: Builder, body: Body, what: &str) -> Result<()> {
        match self.send_with(request, body).await?.status() {
            // The body of a 207 lists failures.
            status if status.is_success() && status != StatusCode::MULTI_STATUS => Ok(()),
            status => Err(failure::of_status(status).map(|text| format!("{what}: {text}"))),
        }
    }
}

/// Value of `Authorization`, if there are credentials.
fn authorization(who: &Credentials) -> Result<Option<HeaderValue>> {
    let value = match (&who.token, &who.user) {
        (Some(token), _) => format_authorization_by_bearer(token.reveal()),
        (None, Some(user)) => format_authorization_by_basic(user, who.password.as_ref().map_or("", Secret::reveal)),
        (None, None) => return Ok(None),
    };
    let mut value = HeaderValue::try_from(value.map_err(failure::of_opendal)?)
        .map_err(|_| SourceError::Permanent("the token has characters that no http header may have".into()))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Result of the probe.
struct Probe {
    /// Whether ranges are served.
    ranges: bool,
    /// Version of the file, if the answer contained its size.
    version: Option<Version>,
}

/// One session with a server on behalf of one user.
pub struct HttpSession {
    access: HttpAccess,
    transfers: Semaphore,
    questions: Semaphore,
    pub(crate) runtime: Arc<Runtime>,
}

impl HttpSession {
    /// Creates a session; nothing is sent yet.
    pub fn new(address: &Address, who: &Credentials, runtime: Arc<Runtime>) -> Result<HttpSession> {
        let access = HttpAccess::new(address, who, runtime.timeout)?;
        let (transfers, questions) = (Semaphore::new(TRANSFERS_MAX), Semaphore::new(QUESTIONS_MAX));
        Ok(HttpSession { access, transfers, questions, runtime })
    }

    /// Version of the file now.
    pub async fn version(&self, path: &str) -> Result<Version> {
        self.ask(self.access.stat(path)).await
    }

    /// Content of a page, with its URL and its content type.
    pub async fn page(&self, path: &str) -> Result<(url::Url, String, Vec<u8>)> {
        self.ask(async {
            let mut answer = self.access.send(self.access.request(Method::GET, path)).await?;
            if !answer.status().is_success() {
                return Err(failure::of_status(answer.status()));
            }
            let content_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default().to_string();
            let mut page = Vec::new();
            while let Some(frame) = answer.body_mut().frame().await {
                let Ok(bytes) = frame.map_err(|e| failure::of_http(e.into()))?.into_data() else { continue };
                if page.len() + bytes.len() > PAGE_BYTES_MAX {
                    let why = format!("its page is larger than {} MiB", PAGE_BYTES_MAX >> 20);
                    return Err(SourceError::Permanent(why));
                }
                page.extend_from_slice(&bytes);
            }
            Ok((self.access.url(path), content_type, page))
        })
        .await
    }

    async fn ask<T>(&self, question: impl Future<Output = Result<T>>) -> Result<T> {
        let _slot = self.questions.acquire().await.expect("the slots are never closed");
        question.await
    }

    /// Streams a range (all of it if `range` is `None`) to `each`, which returns whether to go on.
    async fn stream(
        &self,
        path: &str,
        version: &Version,
        range: Option<Range<u64>>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let _slot = self.transfers.acquire().await.expect("the slots are never closed");
        let moved = Moved::default();
        let transfer = async {
            let mut request = self.access.request(Method::GET, path);
            if let Some(range) = &range {
                request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
            }
            if let Some(tag) = &version.etag {
                request = request.header(IF_MATCH, tag);
            }
            let mut answer = self.access.send(request).await?;
            answer::check(answer.status(), answer.headers(), version, range.as_ref())?;
            let len = range.map_or(version.size, |range| range.end - range.start);
            let mut left = len;
            while let Some(frame) = answer.body_mut().frame().await {
                let Ok(bytes) = frame.map_err(|e| failure::of_http(e.into()))?.into_data() else { continue };
                left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                    SourceError::Permanent(format!("the server sent more than the {len} bytes asked for"))
                })?;
                moved.add(bytes.len());
                if !moved.hand_over(|| each(&bytes)) {
                    return Ok(());
                }
            }
            if left == 0 { Ok(()) } else { Err(failure::short(len - left, len)) }
        };
        while_moving("read", self.runtime.timeout, &moved, transfer).await
    }
}

/// One file at one server.
pub struct HttpSource {
    session: Arc<HttpSession>,
    path: String,
    guard: Guard,
    /// Whether ranges are served, once known. Locked during the probe, so that only one of several readers probes the
    /// server.
    ranges: Mutex<Option<bool>>,
}

impl HttpSource {
    /// Creates the file; nothing is sent yet.
    pub fn new(session: Arc<HttpSession>, path: &str) -> HttpSource {
        HttpSource { session, path: path.to_string(), guard: Guard::default(), ranges: Mutex::default() }
    }

    /// If there is a tag, it guards each request.
    fn check(&self, version: &Version) -> Result<()> {
        if version.etag.is_some() { Ok(()) } else { self.guard.check(version, || self.stat()) }
    }
}

impl Source for HttpSource {
    fn stat(&self) -> Result<Version> {
        let session = &self.session;
        session.runtime.wait("stat", 0, session.version(&self.path))
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        if !self.has_ranges()? {
            return Err(SourceError::Permanent("the server ignores ranges".into()));
        }
        self.check(version)?;
        let (len, mut filled) = (buf.len() as u64, 0);
        let mut each = |bytes: &[u8]| {
            buf[filled..filled + bytes.len()].copy_from_slice(bytes);
            filled += bytes.len();
            arrived.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            true
        };
        let session = &self.session;
        let read = session.stream(&self.path, version, Some(offset..offset + len), &mut each);
        session.runtime.wait("read", len, read)
    }

    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        self.check(version)?;
        let session = &self.session;
        session.runtime.wait("read", version.size, session.stream(&self.path, version, None, each))
    }

    fn has_ranges(&self) -> Result<bool> {
        let mut ranges = self.ranges.lock();
        if let Some(known) = *ranges {
            return Ok(known);
        }
        let session = &self.session;
        let found = session.runtime.wait("probe", 0, session.ask(session.access.probe(&self.path)))?;
        Ok(*ranges.insert(found.ranges))
    }
}
