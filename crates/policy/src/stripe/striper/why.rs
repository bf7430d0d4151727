//! Reasons of the striper's actions, in numbers and in words.

use std::fmt;

/// Cause of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Requests will be faster.
    Faster,
    /// The rules demand it.
    Rules,
    /// With a choice between copies, reads wait less.
    Choice,
    /// Space is scarce.
    SpaceScarce,
    /// The file has too many writes.
    Written,
}

/// Reason for an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Why {
    /// Cause of the action.
    pub cause: Cause,
    /// Requests per second.
    pub rate: f64,
    /// Mean bytes of a request.
    pub bytes: f64,
    /// Predicted response time now, in seconds; infinite: the devices cannot bear the load; not a number: unknown.
    pub now_s: f64,
    /// Predicted response time after the change.
    pub then_s: f64,
    /// Time for which the copy keeps the devices busy, in seconds.
    pub copy_s: f64,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::SpaceScarce => return f.write_str("space is scarce"),
            Cause::Written => return f.write_str("it is written too often to keep copies in step"),
            Cause::Faster => f.write_str("the model expects shorter response times")?,
            Cause::Rules => f.write_str("the rules give this layout")?,
            Cause::Choice => {
                f.write_str(
                    "with two copies striped differently, reads can take the shorter queue and the better unit",
                )?;
            }
        }
        write!(f, " at {:.1} requests/s of {:.0} KiB", self.rate, self.bytes / 1024.0)?;
        let ms = |s: f64| if s.is_finite() { format!("{:.1} ms", s * 1e3) } else { "more than they can bear".into() };
        if !self.now_s.is_nan() {
            write!(f, ": {} now, {} then", ms(self.now_s), ms(self.then_s))?;
        }
        if self.copy_s > 0.0 {
            write!(f, ", for a copy of {:.1} s", self.copy_s)?;
        }
        Ok(())
    }
}
