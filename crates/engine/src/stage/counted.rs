//! Staged files in quotas: a file counts for its user from the moment it is in place. The quota is also checked before
//! the fetch.

use super::place::Place;
use super::{Result, StageError, Stager, Transfer};
use meta::quota::{Changed, Payers, Quotas, Reserved, counts};
use object::error::Refused;
use object::host::{descriptor_path, fstat};
use rustix::fs::Stat;
use rustix::io::Errno;

impl Stager {
    fn quotas(&self) -> Option<&Quotas> {
        Some(&*self.files.pool().quotas).filter(|quotas| quotas.is_on())
    }

    /// Reserves quota for a file that has its owner and is about to be put in place. Dropping the reservation returns
    /// it.
    pub(super) fn reserve(&self, place: &Place, stat: &Stat, bytes: u64) -> Result<Option<Reserved>> {
        let Some(quotas) = self.quotas() else { return Ok(None) };
        let payers = payers(quotas, place, (stat.st_uid, stat.st_gid))?;
        let reserved = quotas.reserve(payers, Changed { bytes, files: 1 });
        reserved.map(Some).map_err(|refused| not_admitted(place, refused))
    }

    /// Releases the quota of a file that was replaced.
    pub(super) fn counts_no_more(&self, place: &Place, stat: &Stat) {
        if let Some(Ok(payers)) = self.quotas().map(|quotas| payers(quotas, place, (stat.st_uid, stat.st_gid))) {
            payers.give(counts(stat));
        }
    }
}

impl Transfer<'_> {
    /// Checks the quotas of a file of that size before the fetch.
    ///
    /// # Errors
    /// EDQUOT if a payer of the file has reached its quota.
    pub(super) fn admit(&self, place: &Place, bytes: u64) -> Result<()> {
        let Some(quotas) = self.quotas() else { return Ok(()) };
        let above = fstat(place.parent())?;
        let gid = if above.st_mode & 0o2000 != 0 { above.st_gid } else { self.who.gid };
        let payers = payers(quotas, place, (self.who.uid, gid))?;
        quotas.admit(&payers, Changed { bytes, files: 1 }).map_err(|refused| not_admitted(place, refused))
    }
}

fn payers(quotas: &Quotas, place: &Place, owner: (u32, u32)) -> Result<Payers> {
    let parent = std::fs::read_link(descriptor_path(place.parent()));
    let parent = parent.map_err(|_| StageError::refused(&place.shown, Errno::NOENT))?;
    Ok(quotas.payers_at(owner, &parent.join(&place.name)))
}

fn not_admitted(place: &Place, refused: Refused) -> StageError {
    StageError::Path { path: place.shown.clone(), why: refused.to_string(), errno: Some(Errno::DQUOT) }
}
