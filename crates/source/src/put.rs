//! Uploads over http and webdav: PUT under a temporary name, and MOVE.

use crate::client;
use crate::failure;
use crate::http::HttpAccess;
use crate::runtime::Runtime;
use bytes::Bytes;
use engine::source::{Result, SourceError, Upload, Version};
use http::{Method, StatusCode};
use opendal::Buffer;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of blocks of an upload that wait for the network.
const BLOCKS_AHEAD: usize = 4;

/// An upload by PUT under a temporary name beside the destination, and MOVE.
pub struct HttpUpload {
    access: HttpAccess,
    runtime: Arc<Runtime>,
    temporary: String,
    path: String,
    blocks: Option<mpsc::Sender<Result<Bytes, std::io::Error>>>,
    answer: Option<JoinHandle<Result<()>>>,
    complete: bool,
}

impl HttpUpload {
    /// Starts the PUT.
    pub fn start(access: HttpAccess, runtime: Arc<Runtime>, path: &str, temporary: String) -> Result<HttpUpload> {
        let (sender, receiver) = mpsc::channel(BLOCKS_AHEAD);
        let blocks = futures_util::stream::unfold(receiver, |mut r| async { r.recv().await.map(|block| (block, r)) });
        let sent = {
            let (access, request) = (access.clone(), access.request(Method::PUT, &temporary));
            async move { access.done(request, client::blocks(blocks), "PUT").await }
        };
        let answer = Some(runtime.handle()?.spawn(sent));
        let (path, blocks) = (path.to_string(), Some(sender));
        Ok(HttpUpload { access, runtime, temporary, path, blocks, answer, complete: false })
    }

    /// The answer to the PUT.
    fn answer(&mut self) -> Result<()> {
        self.blocks = None;
        let Some(task) = self.answer.take() else { return Ok(()) };
        let joined = async { task.await.map_err(|e| SourceError::Passing(format!("PUT ended early: {e}")))? };
        self.runtime.wait("PUT", 64 << 20, joined)
    }

    fn arrive(&mut self, expect_size: u64) -> Result<()> {
        self.answer()?;
        let there = self.runtime.wait("stat", 0, self.access.stat(&self.temporary))?;
        failure::same_size(there.size, expect_size)?;
        self.complete = true;
        Ok(())
    }

    fn rename(&mut self, expect_size: u64) -> Result<Version> {
        let access = &self.access;
        let rename = access.request(Method::from_bytes(b"MOVE").expect("a method"), &self.temporary);
        let rename = rename.header("Destination", access.url(&self.path).as_str()).header("Overwrite", "T");
        let renamed = access.done(rename, client::whole(Buffer::new()), "MOVE to the final name");
        self.runtime.wait("MOVE", 0, renamed)?;
        // The server's success is not trusted: the file is checked under its name.
        let there = self.runtime.wait("stat", 0, access.stat(&self.path))?;
        failure::same_size(there.size, expect_size)?;
        Ok(there)
    }

    /// Removes the temporary file. A missing one is no error.
    fn remove(&mut self) -> Result<()> {
        let delete = self.access.request(Method::DELETE, &self.temporary);
        let gone = async {
            match self.access.send(delete).await?.status() {
                StatusCode::NOT_FOUND | StatusCode::GONE => Ok(()),
                status if status.is_success() => Ok(()),
                status => Err(failure::of_status(status)),
            }
        };
        self.runtime.wait("DELETE", 0, gone)
    }
}

impl Upload for HttpUpload {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let Some(blocks) = &self.blocks else { return Err(SourceError::Passing("the upload has ended".into())) };
        let block = Ok(Bytes::copy_from_slice(data));
        let sent = async { blocks.send(block).await.map_err(|_| SourceError::Passing("the server hung up".into())) };
        match self.runtime.wait("write", data.len() as u64, sent) {
            Ok(()) => Ok(()),
            // The server's own answer is more informative than the closed channel.
            Err(e) => self.answer().and(Err(e)),
        }
    }

    fn complete(&mut self, expect_size: u64) -> Result<()> {
        self.arrive(expect_size)
    }

    fn finish(mut self: Box<Self>, expect_size: u64) -> Result<Version> {
        let arrived = if self.complete { Ok(()) } else { self.arrive(expect_size) };
        let result = arrived.and_then(|()| self.rename(expect_size));
        result.map_err(|e| failure::left(e, self.remove(), self.access.url(&self.temporary).as_str()))
    }

    fn abort(mut self: Box<Self>) -> Option<String> {
        if let Some(blocks) = self.blocks.take() {
            // After an error in the body, the client breaks the connection, so that the server does not keep half a
            // file as complete.
            let broken = async {
                blocks.send(Err(std::io::Error::other("given up"))).await.map_err(|_| failure::timeout("abort"))
            };
            let _ = self.runtime.wait("abort", 0, broken);
        }
        let _ = self.answer();
        failure::lies(self.remove(), self.access.url(&self.temporary).as_str())
    }
}
