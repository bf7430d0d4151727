//! The runner with real processes in temporary directories.

mod datawarp;
mod earlier;
mod life;
mod notices;
mod retry;
mod rights;
mod transfers;
mod world;
