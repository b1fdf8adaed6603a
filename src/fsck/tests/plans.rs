use super::super::ext::{self, Copy, Facts, Superblock};
use super::super::refusal::Cure;
use super::super::{
    Backup, Forward, MAX_KILLS, Mode, NoCheck, Plan, Question, Refusal, Tool, Wanted,
};
use super::{question, words};
use crate::facts::memory::{Kills, Marks};
use crate::facts::superblock::ext::features::Features;
use crate::facts::superblock::ext::health::{Due, Health};

pub(super) fn clean() -> Health {
    Health {
        marked_clean: true,
        error_flag: false,
        error_count: 0,
        last_error: None,
        orphans: false,
        journal_to_replay: false,
        check_due: None,
        descriptors: None,
        unknown_features: Features::default(),
        external_journal: false,
        multiple_mount_protection: false,
    }
}

pub(super) fn dirty() -> Health {
    Health { journal_to_replay: true, ..clean() }
}

pub(super) fn facts(health: &Health) -> Facts<'_> {
    Facts { superblock: Superblock::Intact(health), fs_bytes: 100, size_bytes: 100 }
}

/// What a plan is, in a few words.
fn told(plan: &Plan) -> String {
    match plan {
        Plan::NoCheck(why) => format!("no check: {why:?}"),
        Plan::Forward(why) => format!("forward: {why}"),
        Plan::Refuse(why) => format!("refuse: {}", why.label()),
        Plan::Trial(ladder) => words(&ladder.first()),
    }
}

#[test]
fn a_clean_filesystem_costs_no_process_and_a_marked_one_a_full_check() {
    let marks = Marks::default();
    let incident = Marks { incident: true, ..marks };
    let interrupted = Marks { interrupted: true, ..marks };
    let recheck = Marks { recheck: true, ..marks };
    let due = Due::Mounts { mounts: 20, max: 20 };
    for (case, health, marks, expected) in [
        ("8, 9: clean", clean(), marks, "no check: Clean"),
        ("11: dirty journal", dirty(), marks, "e2fsck -p"),
        ("error flag", Health { error_flag: true, ..clean() }, marks, "e2fsck -p"),
        ("error count", Health { error_count: 1, ..clean() }, marks, "e2fsck -f -p"),
        ("orphans", Health { orphans: true, ..clean() }, marks, "e2fsck -p"),
        ("due", Health { check_due: Some(due), ..clean() }, marks, "e2fsck -p"),
        ("not clean", Health { marked_clean: false, ..clean() }, marks, "e2fsck -p"),
        ("an observed abort", clean(), incident, "e2fsck -f -p"),
        ("an interruption", dirty(), interrupted, "e2fsck -f -p"),
        ("38: recheck", clean(), recheck, "e2fsck -f -p"),
    ] {
        let question = Question { marks, ..question(Mode::Preen) };
        assert_eq!(told(&ext::plan(&facts(&health), &question)), expected, "{case}");
    }
}

#[test]
fn nobody_is_checked_who_did_not_ask_for_a_filesystem_to_write_to() {
    let asked = question(Mode::Repair);
    for (case, question, why) in [
        ("126: block", Question { wanted: Wanted::Block, ..asked }, NoCheck::Block),
        ("33: read-only", Question { wanted: Wanted::ReadOnly, ..asked }, NoCheck::ReadOnly),
        ("8: off", Question { mode: Mode::Off, ..asked }, NoCheck::Off),
    ] {
        assert_eq!(ext::plan(&facts(&dirty()), &question), Plan::NoCheck(why), "{case}");
    }
}

#[test]
fn what_a_trial_cannot_hold_is_forwarded_and_said() {
    let external = Health { external_journal: true, ..dirty() };
    let mmp = Health { multiple_mount_protection: true, ..dirty() };
    for (health, why) in
        [(external.clone(), Forward::ExternalJournal), (mmp, Forward::MultipleMountProtection)]
    {
        let plan = ext::plan(&facts(&health), &question(Mode::Repair));
        assert_eq!(plan, Plan::Forward(why));
    }
    let clean = Health { journal_to_replay: false, ..external };
    let plan = ext::plan(&facts(&clean), &question(Mode::Preen));
    assert_eq!(plan, Plan::NoCheck(NoCheck::Clean), "there is nothing to check");
}

#[test]
fn a_device_smaller_than_its_filesystem_is_refused_before_any_check() {
    for mode in [Mode::Check, Mode::Preen, Mode::Repair] {
        for health in [clean(), dirty()] {
            let facts = Facts { size_bytes: 99, ..facts(&health) };
            let plan = ext::plan(&facts, &question(mode));
            assert_eq!(told(&plan), "refuse: device_too_small", "24, M15: {mode:?}");
        }
    }
}

#[test]
fn three_deaths_in_a_row_end_the_trying_until_the_operator_asks() {
    let dead = Question { kills: Kills { check: MAX_KILLS, repair: 0 }, ..question(Mode::Repair) };
    let plan = ext::plan(&facts(&dirty()), &dead);
    assert_eq!(plan, Plan::Forward(Forward::Killed { kills: MAX_KILLS }));
    let marks = Marks { recheck: true, ..Marks::default() };
    let plan = ext::plan(&facts(&dirty()), &Question { marks, ..dead });
    assert_eq!(told(&plan), "e2fsck -f -p");
    let twice = Question { kills: Kills { check: MAX_KILLS - 1, repair: 0 }, ..dead };
    assert_eq!(told(&ext::plan(&facts(&dirty()), &twice)), "e2fsck -p");
}

#[test]
fn a_lost_superblock_is_rebuilt_from_its_copy_in_mode_repair_only() {
    let copy = Copy { block: 32_768, block_bytes: 4096 };
    let plan = |copy, question: Question| {
        let superblock = Superblock::Lost(copy);
        ext::plan(&Facts { superblock, fs_bytes: 100, size_bytes: 100 }, &question)
    };
    let lost = |repairable| Plan::Refuse(Refusal::SuperblockLost { repairable });
    let repair = plan(Some(copy), question(Mode::Repair));
    assert_eq!(told(&repair), "e2fsck -f -y -b 32768 -B 4096");
    assert_eq!(plan(Some(copy), question(Mode::Preen)), lost(true));
    assert_eq!(plan(Some(copy), question(Mode::Check)), lost(true));
    assert_eq!(plan(None, question(Mode::Repair)), lost(false));
    let encrypted = Question { encrypted: true, ..question(Mode::Repair) };
    let Plan::Refuse(Refusal::Damaged { tool, cure, .. }) = plan(Some(copy), encrypted) else {
        panic!("an encrypted volume has no undo record");
    };
    assert_eq!((tool, cure), (Tool::E2fsck, Cure::BackupOfEncrypted));
    let with_snapshot = Question { backup: Backup::Snapshot, ..encrypted };
    assert_eq!(told(&plan(Some(copy), with_snapshot)), "e2fsck -f -y -b 32768 -B 4096");
}

#[test]
fn values_of_flags_are_read_or_they_are_none() {
    assert_eq!(Mode::parse("repair"), Some(Mode::Repair));
    assert_eq!(Backup::parse("snapshot"), Some(Backup::Snapshot));
    for text in ["", "Preen", "yes", "repair "] {
        assert_eq!((Mode::parse(text), Backup::parse(text)), (None, None), "{text:?}");
    }
}
