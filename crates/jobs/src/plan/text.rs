//! The plan as text for users.

use crate::directives::datawarp;
use crate::directory;
use crate::limit;
use crate::request::{DataWarp, Part, PartKind, Plan, Queue};
use std::fmt::Write;

/// The plan as text, one part after the other, then the warnings.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "job {}", plan.name);
    for (part, number) in plan.parts.iter().zip(1..) {
        let _ = render_part(&mut out, part, number);
    }
    for checkpoint in &plan.checkpoints {
        let app = checkpoint.app.as_deref().unwrap_or(&plan.name);
        let _ = writeln!(out, "\ncheckpoints of {app}: {}   (line {})", checkpoint.path, checkpoint.line);
    }
    let _ = render_directories(&mut out, &plan.datawarp);
    if let Some(mail) = &plan.mail {
        let types = [(mail.stage_out, "STAGE_OUT"), (mail.fail, "FAIL"), (mail.end, "END")];
        let types: Vec<_> = types.into_iter().filter_map(|(on, name)| on.then_some(name)).collect();
        let _ = writeln!(out, "\nmail to {}: {}", mail.to.as_deref().unwrap_or("its owner"), types.join(", "));
    }
    for warning in &plan.warnings {
        let _ = writeln!(out, "note: {warning}");
    }
    out
}

/// Directories and the variables by which the script finds them.
fn render_directories(out: &mut String, datawarp: &DataWarp) -> std::fmt::Result {
    if let Some(own) = &datawarp.own {
        let variables: Vec<_> = directory::variables_of(own).map(|(name, _)| format!("${name}")).collect();
        let (names, size) = (variables.join(" and "), policy::units::show_bytes(own.capacity_bytes));
        writeln!(out, "\ndirectory of the job: {names}, made for {size}, removed at its end   (line {})", own.line)?;
    }
    for one in &datawarp.persistent {
        let made = if one.create_bytes.is_some() { ", made where it is missing" } else { "" };
        writeln!(out, "\ndirectory that stays: ${}{}{made}   (line {})", datawarp::PERSISTENT, one.name, one.line)?;
    }
    Ok(())
}

fn render_part(out: &mut String, part: &Part, number: usize) -> std::fmt::Result {
    let queue = match part.queue {
        Queue::Batch => "batch",
        Queue::Dataxfer => "dataxfer",
    };
    write!(out, "\n{number}. {}: queue {queue}, ", part.kind)?;
    match part.cores {
        0 => write!(out, "no cores")?,
        1 => write!(out, "1 core")?,
        n => write!(out, "{n} cores")?,
    }
    write!(out, ", at most {}", duration(part.walltime_s))?;
    if let Some(after) = part.after {
        write!(out, ", after {after} succeeded")?;
    }
    if part.kind != PartKind::Compute {
        match part.retries {
            0 => write!(out, ", 1 attempt for each command")?,
            n => write!(out, ", {} attempts for each command", u64::from(n) + 1)?,
        }
    }
    writeln!(out)?;
    for command in &part.commands {
        if part.kind == PartKind::Compute {
            writeln!(out, "   {} SCRIPT   (the script without its directives)", quoted(&command.argv))?;
            continue;
        }
        writeln!(out, "   {}   (line {})", quoted(&command.argv), command.line)?;
        let ours = command.argv.first().is_some_and(|program| program == "entrepot");
        if let Ok(Some(rate)) = limit::among(&command.argv)
            && ours
        {
            writeln!(out, "      no faster than {}/s", policy::units::show_bytes(rate))?;
        }
        for source in &command.sources {
            writeln!(out, "      source of {}: {}", source.path, source.uri)?;
        }
    }
    for words in &part.parameters {
        writeln!(out, "   scheduler parameters: {}", quoted(words))?;
    }
    Ok(())
}

/// Words as one could type them.
fn quoted(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| format!("{words:?}"))
}

/// `D-HH:MM:SS`, without the days where there are none.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}-{clock}") } else { clock }
}
