//! Progress of a long request: a bar with rate and time left on a terminal; after Ctrl-C completed work stays.

use crate::answer;
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::Output;
use engine::stage::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use node::control::{Request, exit};
use serde_json::Value;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use terminal::signals::{self, INTERRUPTS};

/// Sends a request and shows its progress. With `resume`, Ctrl-C ends the program with that hint; the daemon then
/// stops, and completed work stays.
pub fn follow<E: Into<Failure>>(
    request: impl FnOnce(&mut dyn FnMut(Value)) -> std::result::Result<Value, E>,
    resume: Option<&str>,
) -> Result<Value> {
    let bar = bar();
    let done = Arc::new(AtomicBool::new(false));
    if let Some(hint) = resume {
        on_interrupt(bar.clone(), done.clone(), hint.to_string())?;
    }
    let mut show = |value: Value| show(&bar, value);
    let answer = request(&mut show);
    done.store(true, Ordering::Release);
    bar.finish_and_clear();
    answer.map_err(Into::into)
}

/// Sends a request to the daemon, and shows its progress and the sentence of its answer.
pub fn order(context: &Context, request: &Request, output: Output) -> Result<u8> {
    let mut client = context.connect()?;
    answer::show_text(output, follow(|progress| client.ask(request, progress), None)?)?;
    Ok(0)
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {prefix}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn show(bar: &ProgressBar, value: Value) {
    if let Some(text) = value.as_str() {
        bar.set_message(text.to_string());
        return;
    }
    let Ok(progress) = serde_json::from_value::<Progress>(value) else { return };
    bar.set_length(progress.total_bytes);
    bar.set_position(progress.done_bytes);
    let rate = crate::shown::bytes(progress.rate_bytes_s as u64);
    let left = progress.left_s.map_or(String::new(), |s| format!(", {} left", crate::shown::span_s(s.ceil() as u64)));
    bar.set_prefix(format!("{rate}/s{left}"));
    bar.set_message(progress.what);
}

/// Ends the program on Ctrl-C or SIGTERM, unless the request is done.
fn on_interrupt(bar: ProgressBar, done: Arc<AtomicBool>, hint: String) -> std::io::Result<()> {
    signals::on(INTERRUPTS, move |_| {
        if !done.load(Ordering::Acquire) {
            bar.finish_and_clear();
            eprintln!("interrupted: completed work is kept\n  next: {hint}");
            std::process::exit(exit::INTERRUPTED.into());
        }
        true
    })
}

/// At Ctrl-C or SIGTERM, prints `words` and ends the program; the awaited work goes on.
pub fn say_at_interrupt(words: String) -> std::io::Result<()> {
    signals::on(INTERRUPTS, move |_| {
        eprintln!("{words}");
        std::process::exit(exit::INTERRUPTED.into())
    })
}

/// Makes Ctrl-C and SIGTERM the regular end of an endless command, with exit code 0.
pub fn end_at_interrupt() -> std::io::Result<()> {
    signals::on(INTERRUPTS, |_| std::process::exit(0))
}
