//! How many actors a rescale asks for.

use std::num::NonZeroU32;

/// The target of `SET PARALLELISM`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// As many as there are workers' cores.
    Adaptive,
    /// So many.
    Fixed(NonZeroU32),
    /// Adaptive, but at most so many.
    Bounded(NonZeroU32),
    /// This part of adaptive.
    Ratio(f64),
}

impl Target {
    /// Reads `4`, `0`, `adaptive`, `default`, `bounded(4)`, `ratio(0.5)`.
    ///
    /// # Errors
    /// RisingWave's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lowered = text.trim().to_ascii_lowercase();
        let inner = |name: &str| lowered.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')').map(str::trim);
        let parsed = if matches!(lowered.as_str(), "0" | "adaptive" | "default") {
            Some(Self::Adaptive)
        } else if let Some(n) = inner("bounded") {
            n.parse().ok().map(Self::Bounded)
        } else if let Some(r) = inner("ratio") {
            r.parse().ok().filter(|r| *r > 0.0 && *r <= 1.0).map(Self::Ratio)
        } else {
            lowered.parse().ok().map(Self::Fixed)
        };
        parsed.ok_or_else(|| {
            format!("target parallelism must be a valid number, adaptive, bounded(n), or ratio(r): {text}")
        })
    }
}
