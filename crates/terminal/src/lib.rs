//! What the command lines of `entrepot` and `entrepot-lab` share: failures, answers, the log, mount points that are served.

pub mod failure;
pub mod log;
pub mod served;
pub mod shown;
