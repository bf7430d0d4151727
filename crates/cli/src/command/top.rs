//! `entrepot top`: present users, jobs, files and targets of the volume, on a whole terminal, in lines, or as json.

mod board;
mod frame;
mod moment;
mod rows;
#[cfg(test)]
mod tests;

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use crate::users::name_of;
use crate::values;
use board::{Board, Next, Sort, View};
use clap::Args;
use clap::builder::ValueParser;
use moment::Daemon;
use node::control::Problem;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use terminal::screen::{self, Happened, Screen};

/// Limits of the interval. A shorter one costs the daemon work and cannot be read; longer intervals are the task of
/// metrics.
const EVERY_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

/// Show the present activity of users, jobs, files and targets
///
/// On a terminal the display continues until `q` or Ctrl-C; elsewhere each sample is a table. The first table has
/// totals: of users and targets since the start of the daemon, of files since their open. Each further table has rates
/// since the one before. Root and the user who runs the daemon see all; other users see their own row, files and jobs,
/// and all targets.
///
/// Reads and writes that the kernel serves alone are not counted: those of its page cache, and those of passed-through
/// files. On a volume of several nodes, users, files and targets are those of this node; jobs are those of all nodes.
#[derive(Debug, Args)]
#[command(after_help = "\
KEYS:
  1 2 3 4, Tab     users, jobs, files, targets
  s, r             sort by the next column; the other way round
  arrows, PgUp, PgDn   rows that do not fit
  q, Ctrl-C        end

EXAMPLES:
  entrepot top
  entrepot top --by files --sort latency --every 10s
  entrepot top --once --by users
  entrepot top --once --output json | jq '.users[] | [.user, .written_bytes]'")]
pub struct Top {
    /// View at the start.
    #[arg(long, value_enum, default_value = "users")]
    by: View,
    /// Sort order at the start: the largest come first, names from A.
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Sort,
    /// Time between two samples, `100ms` to `1h`.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = span())]
    every: Duration,
    /// Show the totals and end.
    #[arg(long)]
    once: bool,
    /// Format of the output; `json` has users, jobs, files and targets in one object per line, with counters that only
    /// grow.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

fn span() -> ValueParser {
    ValueParser::from(|text: &str| {
        let ms = values::span_ms(text).ok().filter(|ms| EVERY_MS.contains(ms));
        ms.map(Duration::from_millis).ok_or("give a span from `100ms` to `1h`, such as `5s`")
    })
}

impl Top {
    pub fn run(self, context: &Context) -> Result<u8> {
        if !self.by.sorts().contains(&self.sort) {
            return Err(Problem::wrong(
                "reads and writes of a job are not counted apart, so jobs cannot be sorted by them",
            )
            .so("nothing is shown")
            .try_this("sort jobs by bytes, which are those that are staged, or by name; or use --by users")
            .into());
        }
        let mut daemon = Daemon::new(context.find()?.socket());
        match self.output {
            Output::Json => self.write_json(&mut daemon),
            Output::Text if self.once || !screen::is_there() => self.write_tables(&mut daemon),
            Output::Text => self.fill_the_screen(&mut daemon),
        }
    }

    fn write_json(&self, daemon: &mut Daemon) -> Result<u8> {
        crate::command::work::end_at_interrupt()?;
        let mut names = BTreeMap::new();
        loop {
            let mut moment = daemon.ask(true)?;
            moment.warn();
            for user in &mut moment.top.users {
                user.user = user.uid.and_then(|uid| names.entry(uid).or_insert_with(|| name_of(uid)).clone());
            }
            shown::json_line(&moment)?;
            if self.once {
                return Ok(0);
            }
            std::thread::sleep(self.every);
        }
    }

    fn write_tables(&self, daemon: &mut Daemon) -> Result<u8> {
        crate::command::work::end_at_interrupt()?;
        let mut board = self.board(daemon)?;
        loop {
            board.learn_names(usize::MAX);
            shown::text(&frame::text(&board))?;
            if self.once {
                return Ok(0);
            }
            shown::text("\n")?;
            std::thread::sleep(self.every);
            board.now_is(daemon.ask(self.by == View::Jobs)?);
        }
    }

    fn fill_the_screen(&self, daemon: &mut Daemon) -> Result<u8> {
        let mut board = self.board(daemon)?;
        let mut screen = Screen::take()?;
        loop {
            let until = Instant::now() + self.every;
            loop {
                // A limited number of lookups, so that a slow directory service does not delay the screen.
                board.learn_names(NAMES_AT_ONCE);
                let size = screen.size();
                screen.draw(&frame::lines(&board, size))?;
                match screen.wait(until)? {
                    Happened::Nothing => break,
                    Happened::Resized => {}
                    Happened::Key(key) => match board.press(key, frame::rows_in(size)) {
                        Next::Goes => {}
                        Next::Asks => break,
                        Next::Ends => return Ok(0),
                    },
                }
            }
            match daemon.ask(board.view == View::Jobs) {
                Ok(moment) => board.now_is(moment),
                // The display keeps the last numbers, since the daemon may return.
                Err(problem) => board.note = Some(problem.cause),
            }
        }
    }

    fn board(&self, daemon: &mut Daemon) -> Result<Board> {
        let moment = daemon.ask(self.by == View::Jobs)?;
        if !screen::is_there() || self.once {
            moment.warn();
        }
        Ok(Board::new(self.by, self.sort, moment))
    }
}

/// Most names of users that are looked up before a screen is drawn.
const NAMES_AT_ONCE: usize = 20;
