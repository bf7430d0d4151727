//! `state.*`: a backup of the state of a running volume.

use super::{read, unknown};
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use crate::state::dump;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// So long after a backup of the state files that get objects leave their first bytes in the namespace, too: it is being copied, and the
/// copy may have seen them without objects. A guess: long enough to copy any namespace.
const BYTES_STAY: Duration = Duration::from_secs(24 * 3600);

#[derive(serde::Deserialize)]
struct Args {
    file: PathBuf,
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    _: &mut Responder<'_>,
) -> Result<Value, Problem> {
    if verb != "dump" {
        return Err(unknown(&format!("state.{verb}")));
    }
    caller.must_be_operator("back up the state of the volume")?;
    let Args { file } = read(args)?;
    if !file.is_absolute() {
        return Err(Problem::wrong(format!("{} is no absolute path", file.display())));
    }
    let until = (core.pool.clock)().0.saturating_add(BYTES_STAY.as_nanos() as u64);
    core.pool.stub_bytes_stay_until.store(until, Ordering::Relaxed);
    let rows = dump::write(&**core.volume.state(), core.volume.id(), &file);
    let rows = rows.map_err(|e| Problem::failed(e.to_string()).so("there is no new backup"))?;
    Ok(json!({"file": file, "rows": rows}))
}
