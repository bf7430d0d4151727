//! The tree below a directory on a plain http server, from the server's listings of directories.

use crate::entries::TEXT_BYTES_MAX;
use crate::http::HttpSession;
use crate::listing::{self, Kind};
use engine::source::{Entry, Result, SourceError};
use futures_util::{StreamExt, TryStreamExt, stream};

/// Most entries of a tree. More would take hours, since each size that a listing lacks is requested.
const ENTRIES_MAX: usize = 100_000;

/// Most directories of a tree: a link of the server that forms a cycle ends at one of these two limits.
const DIRECTORIES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 32;

/// Parallel requests for sizes: the number of query slots of a session.
const QUESTIONS: usize = 8;

/// Time limit of a listing, in bytes at the slowest rate.
const WORTH_BYTES: u64 = 64 << 20;

/// The tree below a directory, parents before children.
pub fn list(session: &HttpSession, path: &str) -> Result<Vec<Entry>> {
    session.runtime.wait("list", WORTH_BYTES, walk(session, path.trim_end_matches('/')))
}

async fn walk(session: &HttpSession, root: &str) -> Result<Vec<Entry>> {
    let (mut found, mut waiting, mut directories) = (Vec::new(), vec![String::new()], 0);
    let mut text_bytes = 0;
    while let Some(below) = waiting.pop() {
        directories += 1;
        let too_many = |what: &str| {
            let why = format!("its listings have {what}; a link of the server may lead back. Name a part of it");
            Err(SourceError::Permanent(why))
        };
        if directories > DIRECTORIES_MAX {
            return too_many(&format!("more than {DIRECTORIES_MAX} directories"));
        }
        if below.matches('/').count() > DEPTH_MAX {
            return too_many(&format!("more than {DEPTH_MAX} levels"));
        }
        for (name, kind) in names(session, &format!("{root}/{below}")).await? {
            let path = format!("{below}{name}");
            text_bytes += path.len();
            if text_bytes > TEXT_BYTES_MAX {
                return too_many(&format!("more than {} MiB of names", TEXT_BYTES_MAX >> 20));
            }
            if kind == Kind::Directory {
                waiting.push(format!("{path}/"));
            }
            found.push((path, kind));
        }
        if found.len() > ENTRIES_MAX {
            return too_many(&format!("more than {ENTRIES_MAX} entries"));
        }
    }
    let sized = stream::iter(found).map(|(path, kind)| async move {
        let size = match kind {
            Kind::File(None) => size(session, &format!("{root}/{path}")).await?,
            _ => 0,
        };
        Ok::<_, SourceError>(Entry { path, kind: kind.with_size(size) })
    });
    let mut entries: Vec<Entry> = sized.buffer_unordered(QUESTIONS).try_collect().await?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

async fn names(session: &HttpSession, directory: &str) -> Result<listing::Names> {
    let shown = |why: String| format!("{directory}: {why}");
    let (url, content_type, page) = session.page(directory).await.map_err(|e| match e {
        SourceError::Denied(why) => SourceError::Denied(shown(format!(
            "{why}; the server may make no listings: then name the files in a manifest (`stage in --manifest`)"
        ))),
        other => other.map(shown),
    })?;
    listing::read(&url, &content_type, &page).map_err(|why| {
        SourceError::Permanent(shown(format!("{why}; name the files in a manifest (`stage in --manifest`)")))
    })
}

async fn size(session: &HttpSession, path: &str) -> Result<u64> {
    match session.version(path).await {
        Ok(version) => Ok(version.size),
        Err(e) => Err(e.map(|why| format!("{path}: {why}"))),
    }
}
