//! Limit of the files that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limit of requested descriptors, whatever `fs.nr_open` allows: each open file costs kernel memory and ours.
const WANTED_MAX: u64 = 1 << 20;

/// Raises the limits on open descriptors as far as the process may, root also the hard one, and says how many it may have.
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
