//! Users whose mounts and daemons a client trusts: root and the user that runs the client.
//!
//! Every user can mount a file system that names itself an Entrepot volume (`fusermount3`), and can listen on sockets of
//! their own. The kernel's table of mounts has the user of each mount, and the kernel reports the user of a listener.

/// The client's own user, and the number of the container's outside root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    own: u32,
    /// Number under which the kernel reports users that a container's user namespace does not have, such as its root
    /// outside. None outside of containers.
    outside: Option<u32>,
}

/// Default of the kernel for that number.
const OVERFLOW_UID: u32 = 65534;

impl Trust {
    /// The trust of this process.
    pub fn of_process() -> Trust {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let number = || std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok();
        let outside = (!is_whole(&map)).then(|| number().unwrap_or(OVERFLOW_UID));
        Trust { own: rustix::process::geteuid().as_raw(), outside }
    }

    /// The trust of a user outside of containers.
    #[cfg(test)]
    pub fn of_user(own: u32) -> Trust {
        Trust { own, outside: None }
    }

    /// Whether a mount of that user is trusted. The table has numbers from outside of containers.
    pub fn mount(&self, user: u32) -> bool {
        user == 0 || user == self.own
    }

    /// Whether the listener of a control socket may get a request.
    pub fn daemon(&self, user: u32) -> bool {
        self.mount(user) || Some(user) == self.outside
    }
}

/// Whether a user namespace has all users, as the initial one has.
fn is_whole(uid_map: &str) -> bool {
    uid_map.trim().is_empty() || uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-341]
    #[test]
    fn root_and_the_own_user_are_trusted() {
        let alice = Trust { own: 48301, outside: None };
        for (user, trusted) in [(0, true), (48301, true), (48302, false), (65534, false)] {
            assert_eq!((alice.mount(user), alice.daemon(user)), (trusted, trusted), "{user}");
        }
        let root = Trust { own: 0, ..alice };
        assert!(root.mount(0) && !root.mount(48301) && !root.daemon(48301));
    }

    #[test]
    fn root_outside_a_container_is_trusted_as_a_listener() {
        assert!(is_whole("         0          0 4294967295\n") && is_whole(""));
        assert!(!is_whole("      1000       1000          1\n"));
        let inside = Trust { own: 48301, outside: Some(65534) };
        assert!(inside.daemon(65534) && inside.daemon(48301) && inside.mount(0));
        assert!(!inside.daemon(48302) && !inside.mount(65534));
    }
}
