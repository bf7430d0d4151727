//! What the planner cannot know of a script's directives: whether our own commands in them are ones we understand.

use crate::command::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use jobs::directives::Complaint;
use jobs::plan::{Plan, paths};
use jobs::request::PartKind;

/// What is wrong with the commands of ours in a plan: options, words and URIs. Looks at nothing but the words.
pub fn check(plan: &Plan) -> Vec<Complaint> {
    let staging = plan.parts.iter().filter(|part| part.kind != PartKind::Compute);
    let ours = staging.flat_map(|part| &part.commands).filter(|c| c.argv.first().is_some_and(|a| a == "entrepot"));
    ours.flat_map(|command| check_words(&command.argv, command.line)).collect()
}

fn check_words(argv: &[String], line: u32) -> Vec<Complaint> {
    if let Err(error) = Cli::try_parse_from(argv) {
        let cause = match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => "the command stages nothing".to_string(),
            _ => first_line(&error.to_string()),
        };
        let mend = "write: entrepot stage in URI PATH, or: entrepot stage out PATH URI".to_string();
        return vec![Complaint { line, cause, mend }];
    }
    let uris = match (paths::stage_in_words(argv), argv) {
        (Some(words), _) => words.uris,
        (None, [_, stage, out, .., uri])
            if stage == "stage" && out == "out" && !argv.iter().any(|w| w == "--manifest") =>
        {
            vec![uri.clone()]
        }
        _ => Vec::new(),
    };
    let wrong = uris.into_iter().filter_map(|uri| {
        let why = match source::Address::parse(&uri) {
            Ok(address) if address.scheme == source::Scheme::Other => "this scheme is not known".to_string(),
            Ok(_) => return None,
            Err(error) => error.to_string(),
        };
        Some((why, uri))
    });
    wrong
        .map(|(why, uri)| Complaint {
            line,
            cause: format!("{uri}: {why}"),
            mend: "write SCHEME://HOST/PATH; for a local file file:///PATH".into(),
        })
        .collect()
}

/// Clap's message without its usage and hints, on one line.
fn first_line(text: &str) -> String {
    let said = text.split("\n\nUsage").next().unwrap_or_default();
    let words: Vec<&str> = said.split_ascii_whitespace().collect();
    words.join(" ").trim_start_matches("error: ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(line: &str) -> Vec<Complaint> {
        check_words(&line.split(' ').map(String::from).collect::<Vec<_>>(), 4)
    }

    #[test]
    fn our_own_commands_are_checked_before_they_are_queued() {
        for good in
            ["entrepot stage in http://h/a /m/a", "entrepot stage out --retry 3 /m/a sftp://h/a", "entrepot status"]
        {
            assert_eq!(complaints(good), [], "{good}");
        }
        for (bad, why) in [
            ("entrepot stage in http://h/a", "<PATH>"),
            ("entrepot stage in --quickly http://h/a /m/a", "--quickly"),
            ("entrepot stage in gopher://h/a /m/a", "gopher"),
            ("entrepot stage out /m/a h/a", "h/a"),
            ("entrepot stag in http://h/a /m/a", "stag"),
            ("entrepot --help", "stages nothing"),
        ] {
            let found = complaints(bad);
            assert!(found.len() == 1 && found[0].line == 4 && found[0].cause.contains(why), "{bad}: {found:?}");
        }
    }
}
