//! `entrepot quota`: limits and use of users, groups and directories.

mod rows;

use crate::answer;
use crate::connect::Context;
use crate::failure::Result;
use crate::shown;
use crate::table::Output;
use crate::users;
use crate::values;
use clap::{Args, Subcommand};
use node::control::{Client, NewLimit, Problem, QuotaOf, Request, SetQuota};
use std::path::PathBuf;

/// Show and set limits of users, groups and directories
///
/// A limit applies to bytes (lengths of files, with holes, without mirrors) or to files (every inode). Usage above a
/// soft limit may grow during the grace period, and afterwards only when it has been below again. A hard limit is never
/// passed on one node, and on several nodes only by the writes of about two seconds. At a limit, new files and writes
/// that extend a file fail with "Disk quota exceeded"; reading, overwriting, truncating and removing do not. Without a
/// subcommand your own limits are shown.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
EXAMPLES:
  entrepot quota                                                  your limits and usage
  entrepot quota set --user ada --soft 800GiB --hard 1TiB
  entrepot quota set --directory /mnt/scratch/climate --hard 20TiB --files-hard 5000000
  entrepot quota list                                             all limits"
)]
pub struct Quota {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Subject of limits.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// A user, by name or number.
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// A group, by name or number.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// A directory, with everything below it.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show limits and usage of one user, group or directory
    #[command(
        after_help = "EXAMPLES:\n  entrepot quota show --user ada\n  entrepot quota show --directory /mnt/scratch/climate"
    )]
    Show {
        #[command(flatten)]
        of: Of,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// List all limits, with the usage of each
    #[command(after_help = "EXAMPLES:\n  entrepot quota list\n  entrepot quota list --output csv > quotas.csv")]
    List {
        /// Format of the output; `csv` is for spreadsheets, in bytes and seconds.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Set limits; those that are not named stay, and `none` removes one
    #[command(
        after_help = "EXAMPLES:\n  entrepot quota set --user ada --soft 800GiB --hard 1TiB --grace 3d\n  entrepot quota set --group physics --files-hard 1000000\n  entrepot quota set --user ada --soft none"
    )]
    Set {
        #[command(flatten)]
        of: Of,
        /// Number of bytes that may be exceeded during the grace period.
        #[arg(long, value_name = "SIZE", value_parser = size)]
        soft: Option<NewLimit>,
        /// Largest number of bytes.
        #[arg(long, value_name = "SIZE", value_parser = size)]
        hard: Option<NewLimit>,
        /// Number of files that may be exceeded during the grace period.
        #[arg(long, value_name = "N", value_parser = number)]
        files_soft: Option<NewLimit>,
        /// Largest number of files.
        #[arg(long, value_name = "N", value_parser = number)]
        files_hard: Option<NewLimit>,
        /// Grace period of a soft limit; the default is seven days.
        #[arg(long, value_name = "SPAN", value_parser = values::span_s)]
        grace: Option<u64>,
    },
    /// Remove all limits of one user, group or directory
    #[command(after_help = "EXAMPLES:\n  entrepot quota remove --user ada")]
    Remove {
        #[command(flatten)]
        of: Of,
    },
}

fn size(text: &str) -> std::result::Result<NewLimit, &'static str> {
    if text == "none" { Ok(NewLimit::Off) } else { values::size(text).map(NewLimit::At) }
}

fn number(text: &str) -> std::result::Result<NewLimit, std::num::ParseIntError> {
    if text == "none" { Ok(NewLimit::Off) } else { text.parse().map(NewLimit::At) }
}

impl Of {
    /// Its key, and a connection to the daemon of its volume.
    fn resolve(self, context: &Context) -> Result<(QuotaOf, Client)> {
        match (self.user, self.group, self.directory) {
            (_, _, Some(directory)) => {
                let inside = context.inside(&directory)?;
                Ok((QuotaOf::Directory(inside.path), Client::connect(&inside.volume.socket())?))
            }
            (_, Some(group), _) => Ok((QuotaOf::Group(users::group_number_of(&group)?), context.connect()?)),
            (user, ..) => Ok((QuotaOf::User(users::number_of(&user.unwrap_or_default())?), context.connect()?)),
        }
    }
}

impl Quota {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            None => {
                let answer = context.ask_store(&Request::ShowQuota { of: None })?;
                rows::show(answer, self.output, "nothing limits you in this volume\n")?;
            }
            Some(Verb::List { output }) => {
                let answer = context.ask_store(&Request::Quotas {})?;
                rows::show(answer, output, "no user has a quota in this volume; `entrepot quota set` gives one\n")?;
            }
            Some(Verb::Show { of, output }) => {
                let (of, mut client) = of.resolve(context)?;
                rows::show(client.ask(&Request::ShowQuota { of: Some(of) }, &mut |_| {})?, output, "")?;
            }
            Some(Verb::Set { of, soft, hard, files_soft, files_hard, grace: grace_s }) => {
                if [soft, hard, files_soft, files_hard].iter().all(Option::is_none) && grace_s.is_none() {
                    let next = "name one or more of --soft, --hard, --files-soft, --files-hard and --grace";
                    return Err(Problem::wrong("no limit is named").try_this(next).into());
                }
                let (of, mut client) = of.resolve(context)?;
                let asked = SetQuota { of, soft, hard, files_soft, files_hard, grace_s };
                rows::show(client.ask(&Request::SetQuota(asked), &mut |_| {})?, Output::Text, "")?;
            }
            Some(Verb::Remove { of }) => {
                let (of, mut client) = of.resolve(context)?;
                answer::show_text(shown::Output::Text, client.ask(&Request::RemoveQuota { of }, &mut |_| {})?)?;
            }
        }
        Ok(0)
    }
}
