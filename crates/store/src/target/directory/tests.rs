//! Directories as targets.
