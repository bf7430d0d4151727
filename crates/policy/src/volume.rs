//! A volume: the mechanisms that adapt it to its load, and which of them decides.

pub mod ownership;
