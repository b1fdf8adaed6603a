//! What a call may do, and its answer may say, after an earlier call to the same path was lost
//! sight of: the guard was restarted, or the plugin broke the connection.
//!
//! Kubelet was told nothing final about that earlier call, so it holds the path for *uncertain*
//! and will undo it one day. Two things would end that too early: a final refusal of a later
//! Stage or Publish (kubelet then forgets a mount that may be there: measured, `facts/csi.md`
//! 1.12), and an OK to an Unstage while the earlier Stage still runs in the plugin (the mount
//! appears after it). And an Unstage that still runs would take a later Stage's mount away.

use std::time::Duration;

use super::Outcome;
use crate::facts::call::{Effect, Method};

/// How long an unseen Stage or Publish is thought to run, if the plugin was not restarted since.
///
/// Five minutes cover a check and a mkfs of all but huge volumes. At half, a slow mkfs outlives
/// the belief and its mount can be lost; at double, a pod that is deleted meanwhile stays in
/// Terminating that much longer.
const MOUNTING: Duration = Duration::from_secs(300);

/// How long an unseen Unstage or Unpublish is thought to run: Longhorn forces an unmount after
/// 30 s and then makes it lazy (longhorn-manager `csi/util.go`), so a minute is twice that.
const UNMOUNTING: Duration = Duration::from_secs(60);

/// An earlier call to the same path, as seen from now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    pub method: Method,
    /// The plugin that took it has not been restarted since, as far as can be told.
    pub same_plugin: bool,
    /// Since the guard lost sight of it.
    pub age: Duration,
}

impl Earlier {
    fn may_run(self) -> bool {
        self.same_plugin
            && match self.method.effect() {
                Effect::Mounts => self.age < MOUNTING,
                Effect::Unmounts => self.age < UNMOUNTING,
                Effect::Neither => false,
            }
    }
}

/// May a call of `method` be sent at all?
pub(super) fn may_send(earlier: Earlier, method: Method) -> bool {
    let unmount_runs = earlier.method.effect() == Effect::Unmounts && earlier.may_run();
    !(unmount_runs && method.effect() == Effect::Mounts)
}

/// What becomes of the plugin's answer, from the mildest ruling to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ruling {
    /// It is passed on, and the earlier call is over and done with.
    PassAndSettle,
    /// It is passed on; the earlier call stays unsettled.
    Pass,
    /// It is not passed on: kubelet would forget a mount that may be there.
    Withhold,
    /// It is not passed on: what it undid may come back.
    WithholdUntilOver,
}

/// Judges the answer to a call of `method`.
pub(super) fn judge(earlier: Earlier, method: Method, outcome: &Outcome) -> Ruling {
    match (method.effect(), outcome) {
        (Effect::Mounts, Outcome::Done) => Ruling::PassAndSettle,
        (Effect::Mounts, Outcome::FailedForGood { .. }) => Ruling::Withhold,
        (Effect::Unmounts, Outcome::Done) => {
            match earlier.method.effect() == Effect::Mounts && earlier.may_run() {
                true => Ruling::WithholdUntilOver,
                false => Ruling::PassAndSettle,
            }
        }
        // Kubelet tries an unmount again whatever the code.
        (Effect::Unmounts, Outcome::FailedForGood { .. })
        | (Effect::Mounts | Effect::Unmounts, Outcome::FailedForNow)
        | (Effect::Neither, _) => Ruling::Pass,
    }
}

#[cfg(test)]
mod tests {
    use Method::{Expand, Publish, Stage, Unpublish, Unstage};
    use Ruling::{Pass, PassAndSettle, Withhold, WithholdUntilOver};

    use super::*;

    const FINAL: Outcome = Outcome::FailedForGood { code: "INTERNAL", text: String::new() };

    fn seen(method: Method, same_plugin: bool, age_secs: u64) -> Earlier {
        Earlier { method, same_plugin, age: Duration::from_secs(age_secs) }
    }

    #[test]
    fn an_answer_is_withheld_only_where_kubelet_would_forget_a_mount() {
        for (earlier, method, outcome, ruling) in [
            (seen(Stage, true, 1), Stage, Outcome::Done, PassAndSettle),
            (seen(Stage, true, 1), Stage, FINAL, Withhold),
            (seen(Stage, false, 9999), Stage, FINAL, Withhold),
            (seen(Stage, true, 1), Stage, Outcome::FailedForNow, Pass),
            (seen(Stage, true, 1), Unstage, Outcome::Done, WithholdUntilOver),
            (seen(Stage, true, 299), Unstage, Outcome::Done, WithholdUntilOver),
            (seen(Stage, true, 300), Unstage, Outcome::Done, PassAndSettle),
            (seen(Stage, false, 1), Unstage, Outcome::Done, PassAndSettle),
            (seen(Stage, true, 1), Unstage, FINAL, Pass),
            (seen(Unstage, true, 1), Unstage, Outcome::Done, PassAndSettle),
            (seen(Unstage, true, 1), Unstage, FINAL, Pass),
            (seen(Unstage, true, 61), Stage, Outcome::Done, PassAndSettle),
            (seen(Unstage, true, 61), Stage, FINAL, Withhold),
            (seen(Publish, true, 1), Publish, FINAL, Withhold),
            (seen(Publish, true, 1), Unpublish, Outcome::Done, WithholdUntilOver),
            (seen(Publish, true, 1), Expand, Outcome::Done, Pass),
            (seen(Publish, true, 1), Expand, FINAL, Pass),
        ] {
            assert_eq!(
                judge(earlier, method, &outcome),
                ruling,
                "{earlier:?} {method} {outcome:?}"
            );
        }
    }

    #[test]
    fn nothing_is_mounted_while_an_unseen_unmount_may_still_run() {
        for (earlier, method, may) in [
            (seen(Unstage, true, 1), Stage, false),
            (seen(Unstage, true, 60), Stage, true),
            (seen(Unstage, false, 1), Stage, true),
            (seen(Unpublish, true, 1), Publish, false),
            (seen(Unstage, true, 1), Unstage, true),
            (seen(Stage, true, 1), Stage, true),
            (seen(Stage, true, 1), Unstage, true),
        ] {
            assert_eq!(may_send(earlier, method), may, "{earlier:?} {method}");
        }
    }
}
