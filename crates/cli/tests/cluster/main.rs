//! Several hosts on one machine: what a shared file system keeps between them, and a volume on it. Skipped with the
//! reason where there is no root, GlusterFS or Redis, or where no namespaces are allowed.

mod accounting;
mod again;
mod agent;
mod appends;
mod audit;
mod away;
mod balanced;
mod bench;
mod brick;
mod bursts;
mod ceph;
mod drained;
mod facts;
mod forgetful;
mod forgotten;
mod frozen;
mod gluster;
mod heard;
mod hosts;
mod jobs;
mod killed;
mod local;
mod locks;
mod moved;
mod mpi;
mod names;
mod promised;
mod quotas;
mod random;
#[allow(dead_code, reason = "some of it is for other tests")]
#[path = "../end_to_end/real.rs"]
mod real;
mod rebuilt;
mod records;
mod removed;
mod replaced;
mod requests;
mod same;
mod saved;
mod saves;
mod soak;
mod space;
mod staged;
mod user;
mod volume;
mod wanted;
mod web;
mod writers;
