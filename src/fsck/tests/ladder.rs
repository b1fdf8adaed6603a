use super::super::meaning::Death;
use super::super::refusal::Cure;
use super::super::{
    Backup, Bounds, Forward, Keep, Ladder, Mode, Next, Plan, Question, Refusal, Report, Step, Tool,
    Verdict, Wait, ext,
};
use super::plans::{dirty, facts};
use super::{climb, ended, question, recorded, said};
use crate::facts::memory::{Kills, Stage};
use crate::facts::tool::{End, Outcome, Ran, Trouble, Why};

const PREEN: &str = "e2fsck -p";
const PROOF: &str = "e2fsck -f -n";
const REPAIR: &str = "e2fsck -f -y";
const REPAIR_ANEW: &str = "+e2fsck -f -y";

fn ladder(question: &Question) -> Ladder {
    match ext::plan(&facts(&dirty()), question) {
        Plan::Trial(ladder) => ladder,
        other => panic!("{other:?}"),
    }
}

fn run(question: &Question, ends: Vec<Ran>) -> (Vec<String>, Verdict) {
    climb(ladder(question), ends.into_iter().map(Outcome::Ran).collect())
}

fn check(mode: Mode, ends: Vec<Ran>, steps: &[&str], expected: impl Fn(&Verdict) -> bool) {
    let (climbed, verdict) = run(&question(mode), ends);
    assert_eq!(climbed, steps, "{mode:?}: {verdict:?}");
    assert!(expected(&verdict), "{mode:?}: {verdict:?}");
}

fn clean() -> Ran {
    recorded!("ext-clean")
}
fn replayed() -> Ran {
    recorded!("ext-replayed")
}
fn repaired() -> Ran {
    recorded!("ext-repaired")
}
fn gave_up() -> Ran {
    recorded!("ext-gave-up")
}
fn proved() -> Ran {
    recorded!("ext-proof-clean")
}
fn disproved() -> Ran {
    recorded!("ext-proof-damaged")
}

#[test]
fn a_replay_is_applied_without_a_second_look() {
    for (end, report) in [(clean(), Report::Clean), (replayed(), Report::Replayed)] {
        for mode in [Mode::Preen, Mode::Repair] {
            let expected = Verdict::Apply { keep: Keep::Nothing, report: report.clone() };
            check(mode, vec![end.clone()], &[PREEN], |verdict| *verdict == expected);
        }
        let sound = Verdict::Sound(report);
        check(Mode::Check, vec![end], &[PREEN], |verdict| *verdict == sound);
    }
}

#[test]
fn what_preen_repaired_is_applied_if_a_second_pass_is_clean() {
    check(Mode::Preen, vec![repaired(), proved()], &[PREEN, PROOF], |verdict| {
        matches!(verdict, Verdict::Apply { keep: Keep::Nothing, report: Report::Repaired(_) })
    });
    check(Mode::Check, vec![repaired(), proved()], &[PREEN, PROOF], |verdict| {
        matches!(verdict, Verdict::Sound(Report::WouldRepair(_)))
    });
}

#[test]
fn nothing_but_a_clean_second_pass_proves_a_repair() {
    let skipped =
        "Warning: skipping journal recovery because doing a read-only filesystem check.\n";
    for (case, end) in [
        ("damage is left", disproved()),
        ("a backup superblock was read", recorded!("ext-proof-by-backup")),
        (
            "a backup superblock, and 0",
            said(0, "", "e2fsck: Superblock invalid, trying backup blocks...\n"),
        ),
        ("the journal was skipped", said(0, "", skipped)),
        ("it printed without end", ended(End::Killed(Why::Flood))),
        ("it did not end", ended(End::Killed(Why::Deadline))),
    ] {
        let (steps, verdict) = run(&question(Mode::Preen), vec![repaired(), end]);
        assert_eq!(steps, [PREEN, PROOF], "{case}");
        assert!(matches!(verdict, Verdict::Refuse(Refusal::Damaged { .. })), "{case}: {verdict:?}");
    }
}

#[test]
fn a_second_pass_is_bounded_by_the_first() {
    let Next::Go { step: Step::Run(command), .. } =
        ladder(&question(Mode::Preen)).next(&Outcome::Ran(repaired()))
    else {
        panic!("a repair is proved");
    };
    assert_eq!(command.bounds, Bounds::proof(std::time::Duration::from_secs(10)));
    assert_eq!(command.bounds.deadline.as_secs(), 100);
}

#[test]
fn proven_damage_is_refused_and_says_what_repair_would_do() {
    for mode in [Mode::Check, Mode::Preen] {
        // 1, 2, M9.
        let (steps, verdict) = run(&question(mode), vec![gave_up()]);
        assert_eq!(steps, [PREEN]);
        let Verdict::Refuse(refusal) = verdict else { panic!("{verdict:?}") };
        let text = format!("{refusal}; {}", refusal.remedy("/dev/longhorn/v".as_ref()));
        assert!(text.contains("e2fsck found \"Superblock has an invalid journal"), "{text}");
        assert!(text.contains("mount-guard check /dev/longhorn/v --repair"), "{text}");
        assert!(text.contains("snapshot"), "{text}");
        assert!(text.is_ascii() && text.len() < 700, "{} bytes: {text}", text.len());
    }
}

#[test]
fn a_repair_begins_anew_and_is_proved() {
    for (backup, keep) in [
        (Backup::Undo, Keep::Undo),
        (Backup::Snapshot, Keep::SnapshotFirst),
        (Backup::None, Keep::Nothing),
    ] {
        // 2, 3: opt-in, and what is kept of it.
        let question = Question { backup, ..question(Mode::Repair) };
        let (steps, verdict) =
            run(&question, vec![gave_up(), recorded!("ext-repaired-from-backup"), proved()]);
        assert_eq!(steps, [PREEN, REPAIR_ANEW, PROOF]);
        assert!(matches!(verdict, Verdict::Apply { keep: kept, .. } if kept == keep));
    }
}

#[test]
fn a_preen_that_cannot_be_proved_is_repaired_anew_too() {
    let ends = vec![repaired(), disproved(), repaired(), proved()];
    check(Mode::Repair, ends, &[PREEN, PROOF, REPAIR_ANEW, PROOF], |verdict| {
        matches!(verdict, Verdict::Apply { keep: Keep::Undo, .. })
    });
}

#[test]
fn a_repair_has_three_passes() {
    let left = said(4, "v: still odd\n", "");
    let ends = vec![gave_up(), left.clone(), repaired(), disproved(), repaired(), proved()];
    check(Mode::Repair, ends, &[PREEN, REPAIR_ANEW, REPAIR, PROOF, REPAIR, PROOF], |verdict| {
        matches!(verdict, Verdict::Apply { .. })
    });
    let ends = vec![gave_up(), left.clone(), left.clone(), left];
    check(Mode::Repair, ends, &[PREEN, REPAIR_ANEW, REPAIR, REPAIR], |verdict| {
        matches!(verdict, Verdict::Refuse(Refusal::NotRepaired { .. }))
    });
}

#[test]
fn a_repair_that_leaves_no_file_is_none() {
    let mut emptied = proved();
    emptied.stdout = emptied.stdout.replace("19/4096 files", "11/4096 files");
    check(
        Mode::Repair,
        vec![gave_up(), repaired(), emptied],
        &[PREEN, REPAIR_ANEW, PROOF],
        |end| {
            matches!(end, Verdict::Refuse(why @ Refusal::NotRepaired { .. })
            if why.to_string().contains("would leave no file"))
        },
    );
}

#[test]
fn a_checker_that_writes_behind_the_device_has_met_damage() {
    let beyond = || Outcome::Spoiled(Trouble::BeyondEnd { offset_bytes: 1 << 40 });
    let (_, verdict) = climb(ladder(&question(Mode::Preen)), vec![beyond()]);
    assert!(matches!(&verdict, Verdict::Refuse(Refusal::Damaged { .. })), "{verdict:?}");
    let repair = || ladder(&question(Mode::Repair));
    let (steps, verdict) =
        climb(repair(), vec![beyond(), Outcome::Ran(repaired()), Outcome::Ran(proved())]);
    assert_eq!(steps, [PREEN, REPAIR_ANEW, PROOF]);
    assert!(matches!(&verdict, Verdict::Apply { .. }), "{verdict:?}");
    let (_, verdict) = climb(repair(), vec![beyond(), beyond()]);
    assert!(matches!(&verdict, Verdict::Refuse(Refusal::NotRepaired { .. })), "{verdict:?}");
}

#[test]
fn the_copy_of_a_lost_superblock_is_named_in_the_first_pass_only() {
    let copy = Some(ext::Copy { block: 8193, block_bytes: 1024 });
    let superblock = ext::Superblock::Lost(copy);
    let facts = ext::Facts { superblock, fs_bytes: 1, size_bytes: 1 };
    let Plan::Trial(ladder) = ext::plan(&facts, &question(Mode::Repair)) else { panic!() };
    assert_eq!(ladder.stage(), Stage::Repair);
    let ends = [recorded!("ext-repaired-with-b"), disproved(), repaired(), proved()];
    let (steps, verdict) = climb(ladder, ends.into_iter().map(Outcome::Ran).collect());
    assert_eq!(steps, ["e2fsck -f -y -b 8193 -B 1024", PROOF, REPAIR, PROOF]);
    assert!(matches!(verdict, Verdict::Apply { keep: Keep::Undo, .. }));
}

#[test]
fn what_stands_against_a_repair_is_said() {
    let repair = question(Mode::Repair);
    for (question, cure) in [
        (Question { encrypted: true, ..repair }, Cure::BackupOfEncrypted),
        (
            Question { kills: Kills { check: 0, repair: 3 }, ..repair },
            Cure::ByHandAfterKills { kills: 3 },
        ),
    ] {
        let (steps, verdict) = run(&question, vec![gave_up()]);
        assert_eq!(steps, [PREEN]);
        let Verdict::Refuse(Refusal::Damaged { cure: said, .. }) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(said, cure);
    }
    let snapshot = Question { encrypted: true, backup: Backup::Snapshot, ..repair };
    let (steps, _) = run(&snapshot, vec![gave_up(), repaired(), proved()]);
    assert_eq!(steps, [PREEN, REPAIR_ANEW, PROOF]);
}

#[test]
fn the_guards_own_trouble_stops_nobody_before_damage_is_proven() {
    for (case, outcome, why) in [
        ("no FUSE", Outcome::NoTrial, Forward::NoTrial),
        ("21: no e2fsck", Outcome::NoTool, Forward::NoTool(Tool::E2fsck)),
        ("over the quota", Outcome::Spoiled(Trouble::NoRoom), Forward::NoRoom),
        (
            "17, 18, M10: an old e2fsck",
            Outcome::Ran(recorded!("ext-unknown-compat")),
            Forward::TooOld { tool: Tool::E2fsck, features: "FEATURE_C31".to_owned() },
        ),
    ] {
        let (_, verdict) = climb(ladder(&question(Mode::Repair)), vec![outcome.clone()]);
        assert_eq!(verdict, Verdict::Forward(why.clone()), "{case}");
        assert!(why.to_string().starts_with("not checked: "));
        let after_damage = vec![Outcome::Ran(gave_up()), outcome];
        let (_, verdict) = climb(ladder(&question(Mode::Repair)), after_damage);
        assert!(matches!(verdict, Verdict::Refuse(_)), "{case}: {verdict:?}");
    }
}

#[test]
fn what_the_device_does_is_waited_for() {
    let eio = Trouble::DeviceRead { offset_bytes: 4096, errno: 5 };
    for (case, outcome, wait) in [
        ("25, 26: EIO", Outcome::Spoiled(eio), Wait::DeviceRead { errno: Some(5) }),
        (
            "4: somebody writes",
            Outcome::Spoiled(Trouble::DeviceChanged { offset_bytes: 8 }),
            Wait::DeviceChanged { offset_bytes: 8 },
        ),
        ("5, 6, M16: in use", Outcome::Ran(recorded!("ext-in-use")), Wait::InUse),
        (
            "10: it hangs",
            Outcome::Ran(ended(End::Stuck { pid: 7, why: Why::Deadline })),
            Wait::Stuck,
        ),
    ] {
        let (_, verdict) = climb(ladder(&question(Mode::Preen)), vec![outcome]);
        assert_eq!(verdict, Verdict::Wait(wait), "{case}");
    }
}

#[test]
fn a_death_counts_for_what_it_died_of() {
    let killed = ended(End::Signalled(9));
    let death = Death::Signal(9);
    let (_, verdict) = run(&question(Mode::Repair), vec![killed.clone()]);
    assert_eq!(verdict, Verdict::Died { death, stage: Stage::Check });
    let (_, verdict) = run(&question(Mode::Repair), vec![gave_up(), killed]);
    assert_eq!(verdict, Verdict::Died { death, stage: Stage::Repair });
    let (_, verdict) = climb(ladder(&question(Mode::Preen)), vec![Outcome::Cancelled]);
    assert_eq!(verdict, Verdict::Cancelled);
}

#[test]
fn no_end_of_any_step_is_written_but_a_sound_one() {
    let quiet = (-2..260).map(|exit| said(exit, "", ""));
    let loud = (-2..260).map(|exit| said(exit, "v: odd\n", "e2fsck: odd\n"));
    for end in quiet.chain(loud) {
        let sound = end.end == End::Exited(0) && end.stderr.is_empty();
        let (last, before): (_, [Vec<Ran>; 2]) =
            (end, [vec![repaired()], vec![gave_up(), repaired()]]);
        for mut ends in before {
            ends.push(last.clone());
            let mut ladder = ladder(&question(Mode::Repair));
            for end in ends {
                match ladder.clone().next(&Outcome::Ran(end)) {
                    Next::Go { ladder: higher, .. } => ladder = higher,
                    Next::Done(verdict) => {
                        let applied = matches!(verdict, Verdict::Apply { .. });
                        let quiet = last.stdout.is_empty()
                            && (0..4).any(|exit| last.end == End::Exited(exit));
                        assert!(!applied || sound || quiet, "{last:?}: {verdict:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn arguments_are_built_word_by_word() {
    let Step::Run(command) = ladder(&question(Mode::Preen)).first() else { panic!() };
    let launch = command.launch();
    assert_eq!(launch.options, ["-p"]);
    assert!(launch.reports_progress);
    assert_eq!(launch.candidates, Tool::E2fsck.candidates());
    // 19, 20: the image's own, and never one that a PATH finds.
    for tool in [Tool::E2fsck, Tool::XfsRepair, Tool::Btrfs] {
        assert!(tool.candidates().iter().all(|path| path.starts_with('/')));
    }
}
