//! The system calls that take a user's rights, and those that read the result back.
//!
//! They allocate nothing and take no lock, since they also run between `fork` and `exec`. All of them act on the calling
//! thread only.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities, capabilities_secure_bits,
    clear_ambient_capability_set, no_new_privs, remove_capability_from_bounding_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// No capability in any set.
const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// First descriptor after the standard ones.
const FIRST_DESCRIPTOR: libc::c_int = 3;

/// A step of taking a user's rights that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RightsError {
    /// The kernel refused it.
    #[error("{0}: {1}")]
    Refused(&'static str, Errno),
    /// The kernel accepted the step and reports another value afterwards.
    #[error("{0}: the kernel reports other rights than requested")]
    Differs(&'static str),
}

impl From<RightsError> for std::io::Error {
    fn from(error: RightsError) -> std::io::Error {
        match error {
            RightsError::Refused(_, errno) => errno.into(),
            RightsError::Differs(_) => Errno::PERM.into(),
        }
    }
}

/// Number of ids that are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Effective ids only.
    Effective,
    /// Real, effective and saved ids.
    All,
}

/// A user's ids and groups, ready to be taken.
#[derive(Clone, Debug)]
pub struct Rights {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// Buffer to read the groups back: one place more than there are groups, so that an additional one is detected.
    room: Vec<libc::gid_t>,
}

impl Rights {
    /// Rights of a user. Root has its capabilities as well.
    ///
    /// # Errors
    /// An id that means "unchanged" to the kernel.
    pub fn new(uid: u32, gid: u32, groups: impl IntoIterator<Item = u32>) -> Result<Rights, RightsError> {
        let mut groups: Vec<u32> = groups.into_iter().collect();
        groups.sort_unstable();
        groups.dedup();
        if [&[uid, gid], &groups[..]].concat().contains(&u32::MAX) {
            return Err(RightsError::Refused("ids", Errno::INVAL));
        }
        let room = vec![0; groups.len() + 1];
        let groups = groups.into_iter().map(Gid::from_raw).collect();
        Ok(Rights { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), groups, room })
    }

    /// Sets the thread's effective ids to the user's, for its remaining life. Real and saved ids stay, so that the user
    /// can neither signal nor trace the thread.
    pub(super) fn take_effective(&mut self) -> Result<(), RightsError> {
        self.take(Extent::Effective)?;
        set_no_new_privs(true).map_err(|e| RightsError::Refused("no_new_privs", e))
    }

    /// Sets all ids of this process to the user's, for good. The process must have one thread. A setuid program that it
    /// executes gets its rights, as in a login session.
    pub fn take_for_good(&mut self) -> Result<(), RightsError> {
        self.take(Extent::All)?;
        close_on_exec()
    }

    /// Does the same, so that no executed program can ever gain rights.
    pub(super) fn take_without_return(&mut self) -> Result<(), RightsError> {
        empty_bounding_set();
        self.take(Extent::All)?;
        set_no_new_privs(true).map_err(|e| RightsError::Refused("no_new_privs", e))?;
        if !no_new_privs().is_ok_and(|set| set) {
            return Err(RightsError::Differs("no_new_privs"));
        }
        close_on_exec()
    }

    /// Sets the groups, then the group, then the user, since each step needs privileges that the later ones drop.
    /// Securebits are first, because they could keep capabilities across the change of the user.
    fn take(&mut self, extent: Extent) -> Result<(), RightsError> {
        let refused = |step| move |errno| RightsError::Refused(step, errno);
        if capabilities_secure_bits().map_err(refused("securebits"))? != CapabilitiesSecureBits::empty() {
            set_capabilities_secure_bits(CapabilitiesSecureBits::empty()).map_err(refused("securebits"))?;
        }
        set_thread_groups(&self.groups).map_err(refused("groups"))?;
        let others = extent == Extent::All;
        set_thread_res_gid(others.then_some(self.gid), self.gid, others.then_some(self.gid))
            .map_err(refused("group"))?;
        set_thread_res_uid(others.then_some(self.uid), self.uid, others.then_some(self.uid))
            .map_err(refused("user"))?;
        if !self.uid.is_root() {
            clear_ambient_capability_set().map_err(refused("ambient capabilities"))?;
            set_capabilities(None, NO_CAPABILITIES).map_err(refused("capabilities"))?;
        }
        self.read_back(extent)
    }

    /// Compares with the kernel's report. The ambient set is a subset of the permitted one, so it needs no check.
    fn read_back(&mut self, extent: Extent) -> Result<(), RightsError> {
        let same = |ids: [u32; 3], id: u32| if extent == Extent::All { ids == [id; 3] } else { ids[1] == id };
        let (mut uids, mut gids) = ([u32::MAX; 3], [u32::MAX; 3]);
        // SAFETY: each call writes three ids to valid places.
        unsafe {
            libc::getresuid(&mut uids[0], &mut uids[1], &mut uids[2]);
            libc::getresgid(&mut gids[0], &mut gids[1], &mut gids[2]);
        }
        if !same(uids, self.uid.as_raw()) {
            return Err(RightsError::Differs("user"));
        }
        if !same(gids, self.gid.as_raw()) {
            return Err(RightsError::Differs("group"));
        }
        // SAFETY: the kernel writes at most as many groups as the buffer has places.
        let count = unsafe { libc::getgroups(self.room.len() as libc::c_int, self.room.as_mut_ptr()) };
        // The kernel reports groups in order.
        let reported = usize::try_from(count).ok().and_then(|count| self.room.get(..count));
        if !reported.is_some_and(|reported| reported.iter().copied().eq(self.groups.iter().map(|g| g.as_raw()))) {
            return Err(RightsError::Differs("groups"));
        }
        if !self.uid.is_root() && capabilities(None) != Ok(NO_CAPABILITIES) {
            return Err(RightsError::Differs("capabilities"));
        }
        if capabilities_secure_bits() != Ok(CapabilitiesSecureBits::empty()) {
            return Err(RightsError::Differs("securebits"));
        }
        Ok(())
    }
}

/// Empties the bounding set where this is allowed. Without CAP_SETPCAP, only no_new_privs protects.
fn empty_bounding_set() {
    for bit in 0..u64::BITS {
        if remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)).is_err() {
            return; // the first number that the kernel does not have, or not allowed
        }
    }
}

/// Marks all descriptors but the standard ones to be closed by `exec`.
pub(super) fn close_on_exec() -> Result<(), RightsError> {
    // SAFETY: only flags of descriptors change.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST_DESCRIPTOR, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // Kernels before 5.11 lack the call or its flag, so each descriptor is marked by itself.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| libc::c_int::try_from(limit).ok()).unwrap_or(libc::c_int::MAX);
    for descriptor in FIRST_DESCRIPTOR..limit {
        // SAFETY: only a flag changes; a number without a descriptor is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}
