//! Limit of the files that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit of requested descriptors, even if `fs.nr_open` allows more: each open file costs memory here and in the
/// kernel.
const WANTED_MAX: u64 = 1 << 20;

/// Raises the limits on open descriptors as far as possible; root's process raises the hard one, too. Returns the new
/// limit.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let allowed = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let most = allowed.unwrap_or(WANTED_MAX).min(WANTED_MAX);
    if limit.maximum.is_some_and(|hard| hard < most) {
        // Only root's process may raise the hard limit.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let hard = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    getrlimit(Resource::Nofile).current.unwrap_or(WANTED_MAX)
}
