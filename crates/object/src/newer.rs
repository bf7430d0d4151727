//! Message about anything that a newer program wrote, wherever its version is recorded: `docs/reference/format.md`,
//! "Versions".

/// Message about a format of a newer program.
pub fn newer_than(what: &str, found: u32, known: u32) -> String {
    format!(
        "{what} has format {found}, and this program reads formats up to {known} only: it was written by a newer \
         entrepot"
    )
}
