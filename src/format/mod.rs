//! DECIDE: what is on a device, and may it be handed on to something that formats blank devices?
//!
//! [`identify()`] turns what was read into [`Content`], asking for more ranges until it knows;
//! [`judge`] weighs that against what was asked for and what the volume is known to hold. Both are
//! plain functions. Whoever calls them reads the device, waits, records and refuses.

pub mod admit;
pub mod content;
pub mod identify;
pub mod lost;
pub mod memory;
pub mod plan;
pub mod refusal;
pub mod scan;

pub use admit::{Decision, Mode, Note, Question, Wanted, judge};
pub use content::{Content, Filesystem};
pub use identify::{Step, identify};
pub use lost::{Backup, Lost, PrimaryLost};
pub use memory::{Memory, Remembered};
pub use plan::ReadPlan;
pub use refusal::Refusal;
pub use scan::Found;

#[cfg(test)]
mod tests;
