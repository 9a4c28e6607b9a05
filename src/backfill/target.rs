//! What `SET PARALLELISM` may be set to.

use std::fmt;
use std::num::NonZeroU32;

/// The most actors that a fragment may have.
pub const MAX_PARALLELISM: u32 = 1024;

/// A target parallelism, as asked for: it becomes a number of actors by [`Target::resolve`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// As many actors as there is room for.
    Adaptive,
    /// Exactly so many.
    Fixed(NonZeroU32),
    /// As many as there is room for, but at most so many.
    Bounded(NonZeroU32),
    /// This part of the room, over 0 and up to 1; at least one actor.
    Ratio(f64),
}

impl Target {
    /// Reads `4`, `0`, `adaptive`, `default`, `bounded(4)` or `ratio(0.5)`, in any case. `0` and `default` mean
    /// `adaptive`, as in RisingWave.
    ///
    /// # Errors
    /// RisingWave's message, then what was wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: String| {
            Err(format!("target parallelism must be a valid number, adaptive, bounded(n), or ratio(r): {what}"))
        };
        let lower = text.trim().to_ascii_lowercase();
        if matches!(lower.as_str(), "0" | "adaptive" | "default") {
            return Ok(Self::Adaptive);
        }
        if let Some(argument) = argument(&lower, "ratio") {
            return match argument.parse::<f64>() {
                Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(Self::Ratio(ratio)),
                Ok(_) | Err(_) => wrong(format!("{} is not over 0 and up to 1", text.trim())),
            };
        }
        let bound = argument(&lower, "bounded");
        let number = bound.unwrap_or(&lower);
        match number.parse::<i128>() {
            Ok(n) => match u32::try_from(n).ok().filter(|n| *n <= MAX_PARALLELISM).and_then(NonZeroU32::new) {
                Some(n) => Ok(if bound.is_some() { Self::Bounded(n) } else { Self::Fixed(n) }),
                None => {
                    // A bound of 0 would leave nothing.
                    let least = u8::from(bound.is_some());
                    wrong(format!("{} is not in the range {least} to {MAX_PARALLELISM}", text.trim()))
                }
            },
            Err(_) => wrong(format!("\"{}\"", text.trim())),
        }
    }

    /// The number of actors, from 1 to [`MAX_PARALLELISM`], given that there is room for `available`.
    pub fn resolve(&self, available: u32) -> u32 {
        let actors = match self {
            Self::Adaptive => available,
            Self::Fixed(n) => n.get(),
            Self::Bounded(n) => available.min(n.get()),
            // The small addend undoes binary rounding: 0.29 of 100 is 29. The cast saturates.
            Self::Ratio(ratio) => (f64::from(available) * ratio + 1e-6).floor() as u32,
        };
        actors.clamp(1, MAX_PARALLELISM)
    }
}

/// The text between `name(` and `)`, trimmed.
fn argument<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')').map(str::trim)
}

/// The form that `parse` reads: `4`, `adaptive`, `bounded(4)`, `ratio(0.5)`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("adaptive"),
            Self::Fixed(n) => n.fmt(f),
            Self::Bounded(n) => write!(f, "bounded({n})"),
            Self::Ratio(ratio) => write!(f, "ratio({ratio})"),
        }
    }
}
