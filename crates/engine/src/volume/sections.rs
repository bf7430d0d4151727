//! The sections of a `volume.toml`, each one table of its keys.

mod accounting;
mod burst;
mod cache;
mod endpoint;
mod files;
mod jobs;
mod purge;
mod stage;
mod state;
mod stripes;
mod target;
mod tiering;
mod top;

pub use accounting::Accounting;
pub use burst::Burst;
pub use cache::{Cache, CacheKeys};
pub use endpoint::Endpoint;
pub use files::{
    Checksums, Health, Io, LayoutConfig, Mount, Mover, Names, Passthrough, Prefer, Recovery, Scrub, Summed,
};
pub use jobs::{Jobs, Offload, QueueName, Replication, ReplicationPolicy};
pub use purge::{Purge, PurgeRule};
pub use stage::Stage;
pub use state::{StateConfig, StateStore, roots_directory};
pub use stripes::Stripes;
pub use target::{ConnectionsConfig, TargetKeys, TierKeys, connections};
pub use tiering::{Tiering, TieringPolicy};
pub use top::Top;

use super::keys::Key;

/// All keys, in the order of the template.
pub const SECTIONS: [(&str, &[Key]); 22] = [
    ("Top level", Top::KEYS),
    ("[tier.NAME]", TierKeys::KEYS),
    ("[[target]]", TargetKeys::KEYS),
    ("[[target]] with connections", ConnectionsConfig::KEYS),
    ("[layout]", LayoutConfig::KEYS),
    ("[mount]", Mount::KEYS),
    ("[cache]", CacheKeys::KEYS),
    ("[health]", Health::KEYS),
    ("[mover]", Mover::KEYS),
    ("[tiering]", Tiering::KEYS),
    ("[recovery]", Recovery::KEYS),
    ("[stage]", Stage::KEYS),
    ("[jobs]", Jobs::KEYS),
    ("[replication]", Replication::KEYS),
    ("[stripes]", Stripes::KEYS),
    ("[purge]", Purge::KEYS),
    ("[[purge.rule]]", PurgeRule::KEYS),
    ("[accounting]", Accounting::KEYS),
    ("[checksums]", Checksums::KEYS),
    ("[scrub]", Scrub::KEYS),
    ("[burst]", Burst::KEYS),
    ("[endpoint]", Endpoint::KEYS),
];
