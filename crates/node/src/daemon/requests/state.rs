//! `state.*`: a backup of the state of a running volume.

use crate::control::answers::Dump;
use crate::control::{Caller, Problem};
use crate::daemon::Core;
use meta::state::dump as rows_of;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time after a backup of the state in which files that get objects also leave their first bytes in the namespace.
/// The namespace is being copied then, and the copy may have the files without their objects. A guess: long enough to
/// copy any namespace.
const BYTES_STAY: Duration = Duration::from_secs(24 * 3600);

pub fn dump(core: &Core, caller: &Caller, file: &Path) -> Result<Dump, Problem> {
    caller.must_be_operator("back up the state of the volume")?;
    if !file.is_absolute() {
        return Err(Problem::wrong(format!("{} is no absolute path", file.display())));
    }
    let until = (core.pool.clock)().0.saturating_add(BYTES_STAY.as_nanos() as u64);
    core.pool.stub_bytes_stay_until.store(until, Ordering::Relaxed);
    let rows = rows_of::write(&**core.volume.state(), core.volume.id(), file);
    let rows = rows.map_err(|e| Problem::failed(e.to_string()).so("there is no new backup"))?;
    Ok(Dump { file: file.to_owned(), rows })
}
