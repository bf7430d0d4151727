//! `entrepot layout`: shows and changes the layout of a file.

use crate::answer;
use crate::command::work;
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use clap::{Args, Subcommand};
use node::control::answers::{self, Text, read};
use node::control::{Merge, Problem, Request};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Show where the bytes of a file lie, or change it
///
/// A layout has mirrors (complete copies), each cut into segments, each striped round-robin over objects on targets.
/// The commands copy first, then switch, then remove; the file stays in use.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
EXAMPLES:
  entrepot layout /mnt/scratch/big.dat
  entrepot layout /mnt/scratch/big.dat --output json
  entrepot layout set /mnt/scratch/dir stripe_count=4 stripe_size=4M     for new files in it
  entrepot layout add-mirror /mnt/scratch/big.dat --tier capacity
  entrepot layout replace /mnt/scratch/big.dat --from t2 --to t5
  entrepot layout merge /mnt/scratch/run/u.dat /mnt/scratch/run/v.dat    read together
  entrepot layout split /mnt/scratch/run/u.dat                           with objects of its own"
)]
pub struct Layout {
    /// A file; for a directory, the layout that new files in it get.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Set the layout of an empty file, or of new files in a directory
    #[command(
        after_help = "EXAMPLES:\n  entrepot layout set /mnt/scratch/dir stripe_count=4 stripe_size=4M\n  entrepot layout set /mnt/scratch/dir mirrors=2 tier=fast\n  entrepot layout set /mnt/scratch/dir                inherit again"
    )]
    Set {
        /// An empty file or a directory.
        path: PathBuf,
        /// KEY=VALUE with the keys stripe_count, stripe_size, single_max, mirrors, tier.
        request: Vec<String>,
        /// Format of the output.
        #[arg(long, value_enum, default_value = "text")]
        output: Output,
    },
    /// Add a mirror, which is another complete copy
    #[command(
        after_help = "EXAMPLES:\n  entrepot layout add-mirror /mnt/scratch/big.dat --tier capacity --stripe-count 2"
    )]
    AddMirror {
        /// File in the volume.
        file: PathBuf,
        /// Tier of the mirror.
        #[arg(long)]
        tier: Option<String>,
        /// Number of targets to stripe it over.
        #[arg(long, value_name = "N")]
        stripe_count: Option<usize>,
    },
    /// Drop a mirror
    #[command(after_help = "EXAMPLES:\n  entrepot layout drop-mirror /mnt/scratch/big.dat 1")]
    DropMirror {
        /// File in the volume.
        file: PathBuf,
        /// Number of the mirror in `entrepot layout FILE`.
        mirror: usize,
    },
    /// Move the objects of a file from one target to another
    #[command(
        after_help = "EXAMPLES:\n  entrepot layout replace /mnt/scratch/big.dat --from t2\n  entrepot layout replace /mnt/scratch/big.dat --from t2 --to t5"
    )]
    Replace {
        /// File in the volume.
        file: PathBuf,
        /// Target that has the objects now.
        #[arg(long, value_name = "TARGET")]
        from: String,
        /// Target that gets the objects; chosen automatically if not given.
        #[arg(long, value_name = "TARGET")]
        to: Option<String>,
    },
    /// Move a segment to other targets
    #[command(after_help = "EXAMPLES:\n  entrepot layout move /mnt/scratch/big.dat --segment 1 --to t1,t2,t3")]
    Move {
        /// File in the volume.
        file: PathBuf,
        /// Index of the mirror.
        #[arg(long, value_name = "N", default_value_t = 0)]
        mirror: usize,
        /// Index of the segment.
        #[arg(long, value_name = "N")]
        segment: usize,
        /// The targets, in stripe order.
        #[arg(long, value_name = "TARGETS", value_delimiter = ',', required = true)]
        to: Vec<String>,
    },
    /// Merge files that are read together, piece by piece, into shared objects
    ///
    /// Merged files take turns in shared objects, so that the device reads them sequentially if they are read together.
    /// Each remains a file of its own: it is read, written, truncated, renamed and removed as before.
    #[command(
        after_help = "EXAMPLES:\n  entrepot layout merge /mnt/scratch/run/u.dat /mnt/scratch/run/v.dat /mnt/scratch/run/w.dat\n  entrepot layout merge a.idx a.dat --stripe-size 256KiB --stripe-count 4"
    )]
    Merge {
        /// The files, in the order in which they are read; from 2 to 64, each with one mirror.
        #[arg(required = true, num_args = 2.., value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Bytes of one turn: about the bytes that are read of one file before the next; default: the volume's
        /// `stripe_size`.
        #[arg(long, value_name = "SIZE")]
        stripe_size: Option<String>,
        /// Number of targets to stripe over; default: that of the first file.
        #[arg(long, value_name = "N")]
        stripe_count: Option<usize>,
        /// Tier of the shared objects; default: that of the first file.
        #[arg(long)]
        tier: Option<String>,
    },
    /// Give merged files their own objects again
    #[command(after_help = "EXAMPLES:\n  entrepot layout split /mnt/scratch/run/u.dat /mnt/scratch/run/v.dat")]
    Split {
        /// Files in the volume.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Bring stale mirrors up to date now
    #[command(after_help = "EXAMPLES:\n  entrepot layout resync /mnt/scratch/big.dat")]
    Resync {
        /// File in the volume.
        file: PathBuf,
    },
}

impl Layout {
    pub fn run(self, context: &Context) -> Result<u8> {
        let answer = match self.verb {
            None => return show(context, self.file.as_deref().unwrap_or(Path::new(".")), self.output),
            Some(Verb::Set { path, request, output }) => {
                let inside = set(context, &path, &request.join(" "))?;
                if output == Output::Json {
                    shown::json(&Requested { path: inside, directory: None, request: Some(request.join(" ")) })?;
                }
                return Ok(0);
            }
            Some(Verb::AddMirror { file, tier, stripe_count }) => {
                order(context, &file, |path| Request::AddMirror { path, tier, stripe_count })
            }
            Some(Verb::DropMirror { file, mirror }) => {
                order(context, &file, |path| Request::DropMirror { path, mirror })
            }
            Some(Verb::Replace { file, from, to }) => order(context, &file, |path| Request::Replace { path, from, to }),
            Some(Verb::Move { file, mirror, segment, to }) => {
                order(context, &file, |path| Request::Move { path, mirror, segment, to })
            }
            Some(Verb::Merge { files, stripe_size, stripe_count, tier }) => {
                let request = merged(context, &files, stripe_size.as_deref(), stripe_count, tier)?;
                order(context, &files[0], |_| request)
            }
            Some(Verb::Split { files }) => return split(context, &files),
            Some(Verb::Resync { file }) => order(context, &file, |path| Request::Resync { path }),
        };
        answer::show_text(Output::Text, answer?)?;
        Ok(0)
    }
}

/// Sends the request about a file, and shows its progress.
fn order(context: &Context, file: &Path, request: impl FnOnce(String) -> Request) -> Result<Value> {
    work::follow(|progress: &mut dyn FnMut(Value)| context.ask_about(file, request, progress), None)
}

/// Request to the daemon about files to merge; they must be of one volume.
fn merged(
    context: &Context,
    files: &[PathBuf],
    stripe_size: Option<&str>,
    stripe_count: Option<usize>,
    tier: Option<String>,
) -> Result<Request> {
    let wrong = |cause: String, mend: &str| Failure::Problem(Problem::wrong(cause).try_this(mend));
    let parse = |text: &str| {
        let cause = || format!("`{text}` is no size");
        policy::units::bytes(text).ok_or_else(|| wrong(cause(), "give one such as 1MiB"))
    };
    let stripe_size = stripe_size.map(parse).transpose()?;
    let first = context.inside(&files[0])?;
    let mut others = Vec::new();
    for file in &files[1..] {
        let other = context.inside(file)?;
        if other.volume.socket() != first.volume.socket() {
            let cause = format!("{} and {} are not in the same volume", files[0].display(), file.display());
            return Err(wrong(cause, "merge files of one volume"));
        }
        others.push(other.path);
    }
    Ok(Request::Merge(Merge { path: first.path, others, stripe_size, stripe_count, tier }))
}

/// Splits one file after the other, and prints each when done: after an error the remaining ones are known.
fn split(context: &Context, files: &[PathBuf]) -> Result<u8> {
    for file in files {
        let answer: Text = read(order(context, file, |path| Request::Split { path })?)?;
        shown::text(&format!("{}: {}\n", file.display(), answer.text))?;
    }
    Ok(0)
}

fn show(context: &Context, file: &Path, output: Output) -> Result<u8> {
    if file.is_dir() {
        return show_request(context, file, output);
    }
    let answer = context.ask_about(file, |path| Request::Layout { path }, &mut |_| {})?;
    answer::show(output, answer, render)?;
    Ok(0)
}

/// A requested layout in JSON.
#[derive(Serialize)]
struct Requested {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<bool>,
    request: Option<String>,
}

/// The virtual attribute that requests a layout.
const NAME: &str = "user.entrepot.layout";

/// Shows the layout that a directory requests. New directories in it inherit it, so parents need no check.
fn show_request(context: &Context, dir: &Path, output: Output) -> Result<u8> {
    let inside = context.inside(dir)?;
    let mut text = vec![0; 64 << 10];
    let request = match rustix::fs::getxattr(dir, NAME, &mut text) {
        Ok(len) => Some(String::from_utf8_lossy(&text[..len]).into_owned()),
        Err(Errno::NODATA) => None,
        Err(e) => return Err(Failure::of_io(&dir.display().to_string(), &e.into()).into()),
    };
    let requested = Requested { path: inside.path, directory: Some(true), request };
    shown::value(output, &requested, |requested| match &requested.request {
        Some(request) => format!("new files in it: {request}\n"),
        None => "new files in it: as set in the volume's [layout]; the directory has no settings of its own\n".into(),
    })?;
    Ok(0)
}

/// Sets the virtual attribute: the mount checks permissions. The daemon checks the request before, since an errno
/// cannot explain what is wrong. Returns the path in the volume.
fn set(context: &Context, path: &Path, request: &str) -> Result<String> {
    let metadata = std::fs::symlink_metadata(path).map_err(|e| Failure::of_io(&path.display().to_string(), &e))?;
    context.ask_about(path, |_| Request::CheckLayout { request: request.into() }, &mut |_| {})?;
    let shown = path.display();
    let has_data = || {
        Problem::wrong(format!("{shown} was written to already, and its layout is chosen at its first byte")).try_this(
            format!(
                "set it on its directory and copy the file (`cp {shown} {shown}.new && mv {shown}.new {shown}`), or \
                 change where it lies with `entrepot layout move`, `add-mirror` and `drop-mirror`"
            ),
        )
    };
    if metadata.is_file() && metadata.len() > 0 {
        return Err(has_data().into());
    }
    let done = if request.is_empty() {
        rustix::fs::removexattr(path, NAME)
    } else {
        rustix::fs::setxattr(path, NAME, request.as_bytes(), rustix::fs::XattrFlags::empty())
    };
    match done {
        Ok(()) | Err(Errno::NODATA) => Ok(context.inside(path)?.path),
        Err(Errno::BUSY) => Err(has_data().into()),
        Err(Errno::PERM) => Err(Problem::denied(format!("the layout of {shown} was not set: it is not yours"))
            .try_this("ask its owner")
            .into()),
        Err(e) => Err(Failure::of_io(&format!("the layout of {shown} was not set"), &e.into()).into()),
    }
}

fn render(answer: &answers::Layout) -> String {
    let size = shown::bytes(answer.size);
    if answer.inline {
        return format!("{size} in the stub: the file is small and has no objects\n");
    }
    let mut text = format!("{size}, generation {}\n", answer.generation.unwrap_or(0));
    for (m, mirror) in answer.mirrors.iter().enumerate() {
        let _ = writeln!(text, "mirror {m}: {}", mirror.state.replace('_', " "));
        for (s, segment) in mirror.segments.iter().enumerate() {
            let (start, end) = (shown::bytes(segment.start), segment.end.map_or("end of file".into(), shown::bytes));
            let (width, stripe) = (segment.objects.len(), shown::bytes(segment.stripe_size));
            let _ = writeln!(text, "  segment {s}: from {start} to {end}, {width} wide, stripes of {stripe}");
            if let Some(turns) = segment.objects.iter().find_map(|object| object.merged.as_ref()) {
                let (turn, of, each) = (turns.slot + 1, turns.of, shown::bytes(turns.unit));
                let now = turns.names.map_or("unknown".into(), |names| names.to_string());
                text +=
                    &format!("    merged: turn {turn} of {of}, of {each} each; {now} files are in these objects now\n");
            }
            for object in &segment.objects {
                let doubt = match (&*object.state, &*object.target_state) {
                    ("complete", "ok") => String::new(),
                    ("complete", state) => format!("  (target {state})"),
                    (state, _) => format!("  ({state}: being recovered)"),
                };
                let _ = writeln!(text, "    {}  object {}{doubt}", object.target, object.object);
            }
        }
    }
    text
}
