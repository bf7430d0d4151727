//! Uploads over sftp: a temporary file beside the destination, its size checked there, renamed there.

use crate::failure;
use crate::sftp::{Live, SftpSession, remote_path, stat};
use engine::source::{Result, SourceError, Upload, Version};
use openssh_sftp_client::file::File;
use std::sync::Arc;

/// A running upload.
pub struct SftpUpload {
    session: Arc<SftpSession>,
    live: Arc<Live>,
    file: Option<File>,
    temporary: String,
    path: String,
    arrived: Option<Version>,
}

impl SftpUpload {
    /// Creates the temporary file; it must not exist yet.
    pub fn start(session: Arc<SftpSession>, path: &str, temporary: &str) -> Result<SftpUpload> {
        let (path, temporary) = (remote_path(path).to_string(), remote_path(temporary).to_string());
        session.remove_left(&path);
        let create = || {
            session.run_over("create", 0, async |sftp| {
                let file = sftp.options().write(true).create_new(true).open(&temporary).await;
                file.map_err(|e| failure::of_sftp("create the temporary file", e))
            })
        };
        // The session of an earlier upload may have died since: the call is repeated over a new one.
        let created = create().or_else(|e| if matches!(e, SourceError::Passing(_)) { create() } else { Err(e) });
        let (live, file) = created?;
        Ok(SftpUpload { session, live, file: Some(file), temporary, path, arrived: None })
    }

    fn arrive(&mut self, expect_size: u64) -> Result<Version> {
        let runtime = self.session.runtime.clone();
        let (sftp, file) = (&self.live.sftp, self.file.take());
        runtime.wait("finish", 0, async {
            if let Some(mut file) = file {
                if sftp.support_fsync() {
                    file.sync_all().await.map_err(|e| failure::of_sftp("sync", e))?;
                }
                file.close().await.map_err(|e| failure::of_sftp("close", e))?;
            }
            let arrived = stat(sftp, &self.temporary).await?;
            failure::same_size(arrived.size, expect_size)?;
            Ok(arrived)
        })
    }

    fn rename(&self) -> Result<()> {
        let sftp = &self.live.sftp;
        self.session.runtime.wait("rename", 0, async {
            let renamed = sftp.fs().rename(&self.temporary, &self.path).await;
            renamed.map_err(|e| failure::of_sftp("rename to the final name", e))
        })
    }

    fn remove(&mut self) -> Result<()> {
        drop(self.file.take());
        let removed = self.session.remove(&self.temporary);
        if removed.is_err() {
            self.session.remember_left(&self.path, &self.temporary);
        }
        removed
    }
}

impl Upload for SftpUpload {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let runtime = self.session.runtime.clone();
        let Some(file) = &mut self.file else { return Err(SourceError::Passing("the upload has ended".into())) };
        runtime.wait("write", data.len() as u64, async {
            file.write_all(data).await.map_err(|e| failure::of_sftp("write", e))
        })
    }

    fn complete(&mut self, expect_size: u64) -> Result<()> {
        self.arrived = Some(self.arrive(expect_size)?);
        Ok(())
    }

    fn finish(mut self: Box<Self>, expect_size: u64) -> Result<Version> {
        let arrived = self.arrived.take().map_or_else(|| self.arrive(expect_size), Ok);
        let result = arrived.and_then(|version| self.rename().map(|()| version));
        result.map_err(|e| failure::left(e, self.remove(), &self.temporary.clone()))
    }

    fn abort(mut self: Box<Self>) -> Option<String> {
        failure::lies(self.remove(), &self.temporary)
    }
}
