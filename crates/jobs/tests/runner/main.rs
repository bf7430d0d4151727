//! The runner with real processes in temporary directories.

mod life;
mod rights;
mod world;
