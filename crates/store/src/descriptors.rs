//! Limit of the files that this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More is not asked for, whatever `fs.nr_open` allows: each open file costs memory of the kernel and of ours.
const WANTED_MAX: u64 = 1 << 20;

/// Raises the limits on open descriptors as far as the process may, root also the hard one, and says how many it may have.
pub fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let allowed = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let most = allowed.unwrap_or(WANTED_MAX).min(WANTED_MAX);
    if limit.maximum.is_some_and(|hard| hard < most) {
        // Refused unless the process is root's.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) });
    }
    let hard = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard });
    getrlimit(Resource::Nofile).current.unwrap_or(WANTED_MAX)
}
