//! What OpenDAL does not do for http: the one-byte probe for ranges, and uploads by PUT and MOVE.
//!
//! A server that ignores `Range` sends the whole file, and OpenDAL reads all of it before it says so. The probe looks at the answer's
//! status and drops the connection.

use crate::address::Address;
use crate::credentials::{Credentials, Secret};
use crate::failure;
use crate::runtime::Runtime;
use bytes::Bytes;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use store::origin::{OriginError, Upload, Version};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many blocks an upload may be ahead of the network.
const BLOCKS_AHEAD: usize = 4;

/// A server, and how to prove who asks.
#[derive(Clone)]
pub struct HttpAccess {
    client: Client,
    base: url::Url,
    user: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
}

/// What the probe found.
pub struct Probe {
    /// Whether ranges are served.
    pub ranges: bool,
    /// Size of the file, if the answer said so.
    pub size: Option<u64>,
}

impl HttpAccess {
    /// Prepares a client; nothing is sent yet.
    pub fn new(address: &Address, who: &Credentials, patience: Duration) -> Result<HttpAccess, OriginError> {
        let client = Client::builder()
            .connect_timeout(patience)
            .read_timeout(patience)
            .build()
            .map_err(|e| OriginError::Permanent(format!("no http client: {e}")))?;
        let base = url::Url::parse(&address.http_endpoint())
            .map_err(|e| OriginError::Permanent(format!("bad server name: {e}")))?;
        let (user, password, token) = (who.user.clone(), who.password.clone(), who.token.clone());
        Ok(HttpAccess { client, base, user, password, token })
    }

    fn url(&self, path: &str) -> url::Url {
        let mut url = self.base.clone();
        url.set_path(&path.replace('%', "%25"));
        url
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, self.url(path));
        match (&self.token, &self.user) {
            (Some(token), _) => request.bearer_auth(token.reveal()),
            (None, Some(user)) => request.basic_auth(user, self.password.as_ref().map(Secret::reveal)),
            (None, None) => request,
        }
    }

    /// Asks for byte 1 alone and looks what comes.
    pub async fn probe(&self, path: &str) -> Result<Probe, OriginError> {
        let answer = self.request(Method::GET, path).header("Range", "bytes=1-1").send().await;
        let answer = answer.map_err(failure::of_http)?;
        let total = header(&answer, "content-range").and_then(|v| v.rsplit('/').next()?.parse().ok());
        match answer.status() {
            StatusCode::PARTIAL_CONTENT => Ok(Probe { ranges: true, size: total }),
            // No byte 1: the file is empty or has one byte; ranges are understood.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Probe { ranges: true, size: total.or(Some(0)) }),
            StatusCode::OK => {
                Ok(Probe { ranges: false, size: header(&answer, "content-length").and_then(|v| v.parse().ok()) })
            }
            status => Err(failure::of_status("probing for ranges", status)),
        }
    }

    async fn simple(&self, request: RequestBuilder, what: &str) -> Result<Response, OriginError> {
        let answer = request.send().await.map_err(failure::of_http)?;
        let status = answer.status();
        if status.is_success() { Ok(answer) } else { Err(failure::of_status(what, status)) }
    }
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

/// An upload by PUT under a temporary name beside the destination, and MOVE.
pub struct HttpUpload {
    access: HttpAccess,
    runtime: Arc<Runtime>,
    temporary: String,
    path: String,
    blocks: Option<mpsc::Sender<Result<Bytes, std::io::Error>>>,
    answer: Option<JoinHandle<Result<(), OriginError>>>,
    complete: bool,
}

impl HttpUpload {
    /// Starts the PUT.
    pub fn start(access: HttpAccess, runtime: Arc<Runtime>, path: &str, temporary: String) -> HttpUpload {
        let (sender, receiver) = mpsc::channel(BLOCKS_AHEAD);
        let blocks = futures_util::stream::unfold(receiver, |mut r| async { r.recv().await.map(|block| (block, r)) });
        let request = access.request(Method::PUT, &temporary).body(reqwest::Body::wrap_stream(blocks));
        let sent = {
            let access = access.clone();
            async move { access.simple(request, "PUT").await.map(drop) }
        };
        let answer = Some(runtime.handle().spawn(sent));
        HttpUpload { access, runtime, temporary, path: path.to_string(), blocks: Some(sender), answer, complete: false }
    }

    /// The answer to the PUT.
    fn answer(&mut self) -> Result<(), OriginError> {
        self.blocks = None;
        let Some(task) = self.answer.take() else { return Ok(()) };
        let joined = async { task.await.map_err(|e| OriginError::Passing(format!("PUT ended early: {e}")))? };
        self.runtime.wait("PUT", 64 << 20, joined)
    }

    fn arrive(&mut self, expect_size: u64) -> Result<(), OriginError> {
        self.answer()?;
        let access = &self.access;
        let probe = self.runtime.wait("probe", 0, access.probe(&self.temporary))?;
        if probe.size.is_some_and(|size| size != expect_size) {
            let why = format!("{:?} bytes arrived, {expect_size} were sent", probe.size);
            return Err(OriginError::Passing(why));
        }
        self.complete = true;
        Ok(())
    }

    fn rename(&mut self, expect_size: u64) -> Result<Version, OriginError> {
        let access = &self.access;
        let rename = access
            .request(Method::from_bytes(b"MOVE").expect("a method"), &self.temporary)
            .header("Destination", access.url(&self.path).as_str())
            .header("Overwrite", "T");
        self.runtime.wait("MOVE", 0, access.simple(rename, "MOVE to the final name"))?;
        let head = access.request(Method::HEAD, &self.path);
        let answer = self.runtime.wait("HEAD", 0, access.simple(head, "looking at the result"))?;
        let etag = header(&answer, "etag").filter(|tag| !tag.starts_with("W/")).map(str::to_string);
        Ok(Version { size: expect_size, etag, modified_ns: None })
    }

    fn remove(&mut self) {
        let delete = self.access.request(Method::DELETE, &self.temporary);
        if let Err(e) = self.runtime.wait("DELETE", 0, self.access.simple(delete, "removing the temporary file")) {
            tracing::warn!("an upload that failed could not be removed again: {e}");
        }
    }
}

impl Upload for HttpUpload {
    fn append(&mut self, data: &[u8]) -> Result<(), OriginError> {
        let Some(blocks) = &self.blocks else { return Err(OriginError::Passing("the upload has ended".into())) };
        let block = Ok(Bytes::copy_from_slice(data));
        let sent = async { blocks.send(block).await.map_err(|_| OriginError::Passing("the server hung up".into())) };
        match self.runtime.wait("write", data.len() as u64, sent) {
            Ok(()) => Ok(()),
            // The server's own answer says more than that the channel is closed.
            Err(e) => self.answer().and(Err(e)),
        }
    }

    fn complete(&mut self, expect_size: u64) -> Result<(), OriginError> {
        self.arrive(expect_size)
    }

    fn finish(mut self: Box<Self>, expect_size: u64) -> Result<Version, OriginError> {
        let arrived = if self.complete { Ok(()) } else { self.arrive(expect_size) };
        let result = arrived.and_then(|()| self.rename(expect_size));
        if result.is_err() {
            self.remove();
        }
        result
    }

    fn abort(mut self: Box<Self>) {
        if let Some(blocks) = self.blocks.take() {
            // An error in the body makes the client break the connection, so that the server keeps no half file as whole.
            let broken = async {
                blocks.send(Err(std::io::Error::other("given up"))).await.map_err(|_| failure::timeout("abort"))
            };
            let _ = self.runtime.wait("abort", 0, broken);
        }
        let _ = self.answer();
        self.remove();
    }
}
