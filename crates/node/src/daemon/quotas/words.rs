//! Events of quotas: one for each change of state against a soft limit.

use crate::control::QuotaOf;
use engine::events::{Event, Kind};
use policy::quota::{Resource, Standing};
use policy::units::show_bytes;

/// Name of a subject, for people.
pub fn name(of: &QuotaOf) -> String {
    match of {
        QuotaOf::User(uid) => format!("user {uid}"),
        QuotaOf::Group(gid) => format!("group {gid}"),
        QuotaOf::Directory(path) if path.is_empty() => "the whole volume".into(),
        QuotaOf::Directory(path) => format!("directory {path}"),
    }
}

fn amount(resource: Resource, n: u64) -> String {
    match resource {
        Resource::Bytes => show_bytes(n),
        Resource::Files => format!("{n} files"),
    }
}

/// Event of a change of state, visible to the user that it concerns, too.
pub fn told(of: &QuotaOf, resource: Resource, standing: Standing, (soft, used): (u64, u64)) -> Event {
    let (name, used, soft) = (name(of), amount(resource, used), amount(resource, soft));
    let what = match standing {
        Standing::Within => format!("quota: {name} is within the soft limit again, with {used}"),
        Standing::Over { since, until } => {
            let grace_s = until.since(since).0 / 1_000_000_000;
            let grace = policy::units::show_span_s(grace_s);
            format!("quota: {name} has {used}, more than the soft limit of {soft}, and may grow for {grace}")
        }
        Standing::Expired { .. } => {
            format!(
                "quota: {name} has {used}, more than the soft limit of {soft}, for longer than the grace: it may not grow"
            )
        }
    };
    let owner = if let QuotaOf::User(uid) = of { Some(*uid) } else { None };
    Event { owner, ..Event::new(Kind::Quota, what) }
}
