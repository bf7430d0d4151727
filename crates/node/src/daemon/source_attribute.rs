//! The attribute `user.entrepot.source`: a write of URIs works like `entrepot source set`; a read returns the record.

use crate::mount::Sources;
use crate::{Error, Result};
use engine::file::File;
use engine::source::Identity;
use engine::stage::Stager;
use object::users::user;
use std::sync::Arc;

/// Group of a user that is not in the password file: it owns nothing, so it allows nothing. The mount passes only the
/// user's number, so the group is looked up.
const NO_GROUP: u32 = 65534;

impl Sources for Stager {
    fn set(&self, file: &Arc<File>, uid: u32, text: &str) -> Result<()> {
        let uris: Vec<String> = text.split_whitespace().map(str::to_string).collect();
        let gid = if uid == 0 { 0 } else { user(uid).map_or(NO_GROUP, |user| user.gid) };
        let who = Identity { uid, gid, ..Identity::default() };
        let set = self.silent(&who).source_set_on(file, "the file", &uris, false);
        set.map(|_| ()).map_err(|e| {
            tracing::debug!(uid, "a source was not set through the attribute: {e}");
            Error::Invalid(e.to_string())
        })
    }

    fn show(&self, file: &Arc<File>) -> Result<Option<String>> {
        file.source()
    }
}
