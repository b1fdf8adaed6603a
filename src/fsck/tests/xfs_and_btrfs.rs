use super::super::xfs::{self, Facts, Moment};
use super::super::xfs_exit;
use super::super::{
    Forward, Keep, Ladder, Meaning, Mode, NoCheck, Plan, Question, Refusal, Report, Tool, Verdict,
    Wait, btrfs,
};
use super::{climb, question, recorded, said};
use crate::facts::memory::Marks;
use crate::facts::superblock::Uuid;
use crate::facts::superblock::xfs::log::LogState;
use crate::facts::superblock::xfs::{Features, LogPlace, Superblock};
use crate::facts::tool::{Outcome, Ran, Trouble};

const DIRTY: LogState = LogState::Dirty { head_block: 9, tail_block: 2 };
const FAILED: Moment<'_> = Moment::AfterFailedMount { twin: None };

fn superblock() -> Superblock {
    let uuid = Uuid::from_bytes([7; 16]);
    Superblock {
        version: 5,
        uuid,
        meta_uuid: uuid,
        label: String::new(),
        block_bytes: 4096,
        sector_bytes: 512,
        blocks: 10,
        ag_blocks: 10,
        ag_count: 1,
        ag_block_bits: 4,
        log: LogPlace::Inside { offset_bytes: 4096, len_bytes: 4096 },
        last_log_block: 0,
        in_progress: false,
        features: Features::default(),
    }
}

fn plan(log: LogState, moment: Moment<'_>, question: &Question) -> Plan {
    plan_of(&superblock(), log, moment, question)
}

fn plan_of(sb: &Superblock, log: LogState, moment: Moment<'_>, question: &Question) -> Plan {
    xfs::plan(&Facts { superblock: sb, log, size_bytes: 40_960, moment }, question)
}

fn ladder(log: LogState, mode: Mode) -> Ladder {
    match plan(log, FAILED, &question(mode)) {
        Plan::Trial(ladder) => ladder,
        other => panic!("{other:?}"),
    }
}

fn ran(ran: Ran) -> Outcome {
    Outcome::Ran(ran)
}

#[test]
fn every_recorded_end_of_xfs_repair_has_its_meaning() {
    assert_eq!(xfs_exit::read(&recorded!("xfs-proof-clean"), true), Meaning::Clean);
    assert_eq!(xfs_exit::read(&recorded!("xfs-clean"), false), Meaning::Clean);
    // 12, M7: a dirty log must not be read as corruption.
    assert_eq!(xfs_exit::read(&recorded!("xfs-proof-dirty-log"), true), Meaning::DirtyLog);
    assert_eq!(xfs_exit::read(&recorded!("xfs-dirty-log"), false), Meaning::DirtyLog);
    let said = "0x0/0x0/0x80000000".to_owned();
    let old = xfs_exit::read(&recorded!("xfs-unknown-feature"), true);
    assert!(matches!(&old, Meaning::TooOld { said } if said == "0x0/0x0/0x80000000"), "{said}");
    let Meaning::Damaged(found) = xfs_exit::read(&recorded!("xfs-proof-damaged"), true) else {
        panic!("AGF 0 is broken")
    };
    assert_eq!(found.lines()[0], "bad magic # 0x0 for agf 0");
    let repaired = xfs_exit::read(&recorded!("xfs-repaired"), false);
    assert!(matches!(repaired, Meaning::Repaired(_)), "{repaired:?}");
}

#[test]
fn an_end_of_xfs_repair_that_is_not_known_proves_nothing() {
    for exit in -2..260 {
        for looked_only in [true, false] {
            let meaning = xfs_exit::read(&said(exit, "", ""), looked_only);
            let sound = matches!(meaning, Meaning::Clean | Meaning::Repaired(_));
            assert!(!sound || exit == 0 || (exit == 4 && !looked_only), "{exit}: {meaning:?}");
        }
    }
    let eio = said(1, "", "xfs_repair: read failed: Input/output error\n");
    assert!(matches!(xfs_exit::read(&eio, true), Meaning::DeviceRead(_)));
}

#[test]
fn nothing_is_checked_before_a_mount_unless_the_operator_asked() {
    let before = Moment::BeforeMount;
    for (log, why) in [
        (LogState::Clean, NoCheck::OnlyAfterFailedMount),
        (DIRTY, NoCheck::MountReplays), // 12, 13
        (LogState::Unknown { what: "header" }, NoCheck::MountReplays),
    ] {
        assert_eq!(plan(log, before, &question(Mode::Repair)), Plan::NoCheck(why));
    }
    let marks = Marks { recheck: true, ..Marks::default() };
    let asked = Question { marks, ..question(Mode::Preen) };
    let Plan::Trial(ladder) = plan(DIRTY, before, &asked) else { panic!("38") };
    assert_eq!(super::words(&ladder.first()), "replay xfs");
}

#[test]
fn a_failed_mount_is_explained_without_a_check_where_it_can_be() {
    let twin = Moment::AfterFailedMount { twin: Some("/dev/longhorn/pvc-2 (8:32)") };
    // 14, M8.
    let Plan::Refuse(refusal) = plan(DIRTY, twin, &question(Mode::Repair)) else { panic!() };
    assert_eq!(refusal.label(), "duplicate_uuid");
    assert!(refusal.to_string().contains("pvc-2 (8:32)"), "{refusal}");
    // 16, M11.
    let features = Features { ro_compat: 0x100, ..Features::default() };
    let newer = Superblock { features, ..superblock() };
    let plan = plan_of(&newer, DIRTY, FAILED, &question(Mode::Repair));
    assert!(matches!(plan, Plan::Refuse(Refusal::KernelTooOld { .. })), "{plan:?}");
    let larger = Superblock { blocks: 11, ..superblock() };
    let plan = plan_of(&larger, DIRTY, FAILED, &question(Mode::Repair));
    assert!(matches!(plan, Plan::Refuse(Refusal::DeviceTooSmall { .. })), "{plan:?}");
    let external = super::super::xfs::plan(
        &Facts {
            superblock: &larger,
            log: LogState::External,
            size_bytes: 1 << 20,
            moment: FAILED,
        },
        &question(Mode::Preen),
    );
    assert_eq!(external, Plan::Forward(Forward::ExternalJournal));
}

#[test]
fn the_log_is_replayed_in_the_trial_before_anything_is_believed() {
    let outcomes = vec![Outcome::Replayed, ran(recorded!("xfs-proof-clean"))];
    let (steps, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert_eq!(steps, ["replay xfs", "xfs_repair -f -n"]);
    assert_eq!(verdict, Verdict::Sound(Report::Replayed));
}

#[test]
fn damage_is_refused_and_in_mode_repair_mended_and_proved() {
    let damaged = || vec![Outcome::Replayed, ran(recorded!("xfs-proof-damaged"))];
    for mode in [Mode::Check, Mode::Preen] {
        let (_, verdict) = climb(ladder(DIRTY, mode), damaged());
        let Verdict::Refuse(refusal) = verdict else { panic!("{verdict:?}") };
        let text = format!("{refusal}; {}", refusal.remedy("/dev/longhorn/v".as_ref()));
        assert!(text.contains("xfs_repair found \"bad magic # 0x0 for agf 0"), "{text}");
        assert!(text.contains("mount-guard check /dev/longhorn/v --repair"), "{text}");
    }
    let mut outcomes = damaged();
    outcomes.extend([ran(recorded!("xfs-repaired")), ran(recorded!("xfs-proof-clean"))]);
    let (steps, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    let look = "xfs_repair -f -n";
    assert_eq!(steps, ["replay xfs", look, "xfs_repair -f -e", look]);
    assert!(matches!(verdict, Verdict::Apply { keep: Keep::Undo, .. }), "{verdict:?}");
}

#[test]
fn a_repair_of_xfs_has_three_passes() {
    let pass = |proof| [ran(recorded!("xfs-repaired")), ran(proof)];
    let begun = || vec![Outcome::Replayed, ran(recorded!("xfs-proof-damaged"))];
    let mut outcomes = begun();
    outcomes.extend(pass(recorded!("xfs-proof-damaged")));
    outcomes.extend(pass(recorded!("xfs-proof-clean")));
    let (_, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert!(matches!(verdict, Verdict::Apply { .. }), "{verdict:?}");
    let mut outcomes = begun();
    for _ in 0..3 {
        outcomes.extend(pass(recorded!("xfs-proof-damaged")));
    }
    let (_, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert!(matches!(verdict, Verdict::Refuse(Refusal::NotRepaired { .. })), "{verdict:?}");
}

#[test]
fn a_log_that_no_mount_replays_is_never_thrown_away() {
    let refused = || Outcome::ReplayRefused { errno: 117 };
    for end in [recorded!("xfs-proof-dirty-log"), recorded!("xfs-proof-clean")] {
        let outcomes = vec![refused(), ran(end)];
        let (steps, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
        assert_eq!(steps, ["replay xfs", "xfs_repair -f -n"]);
        assert_eq!(verdict, Verdict::Refuse(Refusal::LogUnreplayable { errno: 117 }));
    }
    // `-n` looks at less of the log than a repair does.
    let damaged = ran(recorded!("xfs-proof-damaged"));
    let outcomes = vec![refused(), damaged, ran(recorded!("xfs-dirty-log"))];
    let (_, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert_eq!(verdict, Verdict::Refuse(Refusal::LogUnreplayable { errno: 117 }));
    // A clean log does not stand in the way of the truth.
    let outcomes = vec![refused(), ran(recorded!("xfs-proof-damaged"))];
    let (_, verdict) = climb(ladder(LogState::Clean, Mode::Preen), outcomes);
    assert!(matches!(verdict, Verdict::Refuse(Refusal::Damaged { .. })), "{verdict:?}");
    let (_, verdict) =
        climb(ladder(DIRTY, Mode::Repair), vec![Outcome::ReplayRefused { errno: 19 }]);
    assert_eq!(verdict, Verdict::Forward(Forward::NoReplay));
    let (_, verdict) = climb(ladder(DIRTY, Mode::Repair), vec![Outcome::ReplayHung]);
    assert_eq!(verdict, Verdict::Wait(Wait::Stuck));
}

#[test]
fn a_log_that_was_replayed_before_the_mount_failed_is_no_obstacle() {
    let refused = Outcome::ReplayRefused { errno: 117 };
    let outcomes = vec![
        refused,
        ran(recorded!("xfs-proof-damaged")),
        ran(recorded!("xfs-repaired")),
        ran(recorded!("xfs-proof-clean")),
    ];
    let (_, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert!(matches!(verdict, Verdict::Apply { keep: Keep::Undo, .. }), "{verdict:?}");
}

#[test]
fn no_step_of_xfs_ever_has_a_minus_l() {
    let outcomes = vec![
        Outcome::Replayed,
        ran(recorded!("xfs-proof-damaged")),
        ran(recorded!("xfs-dirty-log")),
    ];
    let (steps, verdict) = climb(ladder(DIRTY, Mode::Repair), outcomes);
    assert!(steps.iter().all(|step| !step.contains("-L")), "{steps:?}");
    assert!(matches!(verdict, Verdict::Refuse(Refusal::LogUnreplayable { .. })), "{verdict:?}");
}

#[test]
fn btrfs_is_looked_at_after_a_failed_mount_and_never_repaired() {
    let repair = question(Mode::Repair);
    assert_eq!(btrfs::plan(false, &repair), Plan::NoCheck(NoCheck::OnlyAfterFailedMount));
    for (end, label) in [
        (ran(recorded!("btrfs-clean")), "sound"),
        (ran(recorded!("btrfs-damaged")), "refuse"),
        (ran(recorded!("btrfs-none")), "refuse"),
        (ran(said(1, "", "ERROR: Input/output error\n")), "wait"),
        (ran(said(2, "", "")), "wait"),
        (Outcome::Spoiled(Trouble::DeviceRead { offset_bytes: 0, errno: 5 }), "wait"),
        (Outcome::NoTool, "forward"),
    ] {
        let Plan::Trial(ladder) = btrfs::plan(true, &repair) else { panic!() };
        let (steps, verdict) = climb(ladder, vec![end]);
        assert_eq!(steps, ["btrfs check check --readonly"]);
        assert_eq!(verdict.label(), label, "{verdict:?}");
        if let Verdict::Refuse(Refusal::Damaged { tool, .. }) = &verdict {
            assert_eq!(*tool, Tool::Btrfs);
        }
    }
}
