//! Answers of the daemon: as JSON for programs, as text for users.

use crate::failure::Result;
use crate::shown::{self, Output};
use node::control::answers::{Text, read, write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Writes an answer as JSON, or as the text that `render` makes of it.
pub fn show<T: DeserializeOwned>(output: Output, answer: Value, render: impl FnOnce(&T) -> String) -> Result<()> {
    match output {
        Output::Json => shown::json(&answer)?,
        Output::Text => shown::text(&render(&read(answer)?))?,
    }
    Ok(())
}

/// The name that a variant has in the JSON, with spaces.
pub fn words(variant: impl Serialize) -> String {
    write(&variant).as_str().unwrap_or_default().replace('_', " ")
}

/// Writes an answer in words.
pub fn show_text(output: Output, answer: Value) -> Result<()> {
    show(output, answer, |answer: &Text| format!("{}\n", answer.text))
}
