//! Remote sources of staged data: the one crate that knows OpenDAL, ssh and an asynchronous runtime.
//!
//! [`Sources`] implements `engine::source::Opener`. Its protocols are http, https and webdav (through hyper), s3 and
//! ftp (through OpenDAL), sftp (through the user's own `ssh`) and local files. Calls block and have deadlines; they may
//! come from any thread that is not part of an asynchronous runtime.

mod address;
mod answer;
mod client;
mod connect;
mod credentials;
mod dal;
mod entries;
mod failure;
mod guard;
mod http;
mod index;
mod listing;
mod local;
mod put;
mod recognise;
mod repository;
mod runtime;
mod send;
mod sftp;
mod sources;
mod transport;

pub use address::{Address, Scheme};
pub use credentials::CREDENTIAL_VARIABLES;
pub use recognise::{Recognised, recognise};
pub use sources::{Settings, Sources};
