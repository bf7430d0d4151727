//! Parts shared by the command lines of `entrepot` and `entrepot-lab`: failures, answers, the log, served mount
//! points, manual pages and completions.

pub mod completions;
pub mod failure;
pub mod log;
pub mod man;
pub mod screen;
pub mod served;
pub mod shown;
pub mod signals;
pub mod table;

/// Meanings of the exit codes, for the end of the help.
pub const EXIT_CODES: &str = "\
EXIT CODES (the same cause has the same code in every command):
  0 done   1 failed   2 wrong input or configuration   3 no daemon answers
  4 not allowed (also by permissions)   5 not found (a file or a name)   6 in use, nothing changed
  7 incomplete or data lost   130 interrupted, can be resumed";
