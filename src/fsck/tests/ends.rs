use super::super::meaning::{Death, Meaning};
use super::super::refusal::Cure;
use super::super::{Findings, Refusal, Tool, ext_exit};
use super::{ended, found, recorded, said};
use crate::facts::tool::{End, Ran, Why};

/// One word for a meaning, and what was found first.
fn word(meaning: &Meaning) -> (&'static str, String) {
    let first = |findings: &Findings| findings.lines().first().cloned().unwrap_or_default();
    let (word, text) = match meaning {
        Meaning::Clean => ("clean", String::new()),
        Meaning::Replayed => ("replayed", String::new()),
        Meaning::Repaired(found) => ("repaired", first(found)),
        Meaning::Damaged(found) => ("damaged", first(found)),
        Meaning::TooOld { said } => ("too old", said.clone()),
        Meaning::DirtyLog => ("dirty log", String::new()),
        Meaning::DeviceTooSmall(found) => ("too small", first(found)),
        Meaning::DeviceRead(found) => ("device", first(found)),
        Meaning::InUse => ("in use", String::new()),
        Meaning::NoSuperblock(_) => ("no superblock", String::new()),
        Meaning::NoRoom => ("no room", String::new()),
        Meaning::Unusable { said, .. } => ("unusable", first(said)),
        Meaning::Died(_) => ("died", String::new()),
        Meaning::Cancelled => ("cancelled", String::new()),
        Meaning::Stuck => ("stuck", String::new()),
        Meaning::Flood(_) => ("flood", String::new()),
        Meaning::Unexplained { said, .. } => ("unexplained", first(said)),
    };
    (word, text)
}

#[test]
fn every_recorded_end_of_e2fsck_has_its_meaning() {
    let links = "Inode 12 ref count is 5, should be 1.  FIXED.";
    let group = "Superblock has an invalid journal (inode 8).";
    let short = "Error reading block 8322 (Attempt to read block from filesystem resulted in \
                 short read).";
    let lost = "Corrupt group descriptor: bad block for block bitmap";
    for (case, ran, expected) in [
        ("clean", recorded!("ext-clean"), ("clean", "")),
        ("forced", recorded!("ext-clean-forced"), ("clean", "")),
        ("proof", recorded!("ext-proof-clean"), ("clean", "")),
        ("M4: error flag, nothing wrong", recorded!("ext-error-flag"), ("clean", "")),
        ("11, M5: dirty journal", recorded!("ext-replayed"), ("replayed", "")),
        ("dirty journal, forced", recorded!("ext-replayed-forced"), ("replayed", "")),
        ("orphans", recorded!("ext-orphan"), ("replayed", "")),
        ("link count", recorded!("ext-repaired"), ("repaired", links)),
        (
            "link count in a proof",
            recorded!("ext-proof-damaged"),
            ("damaged", "Inode 12 ref count is 5, should be 1.  Fix? no"),
        ),
        ("1, M9: group descriptors", recorded!("ext-gave-up"), ("damaged", group)),
        ("M9, -f -y", recorded!("ext-repaired-from-backup"), ("repaired", lost)),
        ("a proof by a backup", recorded!("ext-proof-by-backup"), ("damaged", lost)),
        ("M10", recorded!("ext-unknown-compat"), ("too old", "FEATURE_C31")),
        ("M11", recorded!("ext-unknown-ro-compat"), ("too old", "FEATURE_R31")),
        ("M12", recorded!("ext-unknown-incompat"), ("too old", "FEATURE_I31")),
        ("M13", recorded!("ext-no-superblock"), ("no superblock", "")),
        ("M15 in a file", recorded!("ext-short-read"), ("device", short)),
        ("M16, 5, 6, 37", recorded!("ext-in-use"), ("in use", "")),
        ("20: no such option", recorded!("ext-usage"), ("unusable", "invalid option -- 'Q'")),
        (
            "no such file",
            recorded!("ext-missing"),
            ("unexplained", "Possibly non-existent device?"),
        ),
    ] {
        let meaning = ext_exit::read(&ran);
        let (word, first) = word(&meaning);
        assert_eq!((word, first.as_str()), expected, "{case}: {meaning:?}");
    }
    let short = ext_exit::read(&recorded!("ext-short-read-proof"));
    assert_eq!(word(&short).0, "device");
    let lost = ext_exit::read(&recorded!("ext-repaired-with-b"));
    assert_eq!(word(&lost).0, "repaired");
}

#[test]
fn ends_that_need_a_fault_have_their_meaning_too() {
    let size = "The filesystem size (according to the superblock) is 16384 blocks\n\
                The physical size of the device is 8192 blocks\n";
    let full = "e2fsck: No space left on device while flushing\n";
    let eio = "e2fsck: Input/output error while reading block 7\n";
    let crash = "Signal (11) SIGSEGV si_code=SEGV_MAPERR fault addr=(nil)\n";
    let old = "v has unsupported feature(s): FEATURE_C12 FEATURE_R16\n\
               e2fsck: Get a newer version of e2fsck!\n";
    for (case, ran, expected) in [
        ("M15, 24", said(4, size, ""), "too small"),
        ("a full disk under 12", said(12, "", full), "no room"),
        ("a full disk under 1, \"fixed\"", said(1, "v: FIXED.\n", full), "no room"),
        ("25: EIO under 8", said(8, "", eio), "device"),
        ("EIO under 4, as real damage", said(4, eio, ""), "device"),
        (
            "25: ENODATA",
            said(8, "", "e2fsck: No data available while trying to open v\n"),
            "device",
        ),
        ("a crash", said(8, "", crash), "died"),
        ("17, 18: an old e2fsck", said(8, "", old), "too old"),
        ("17 under 12", said(12, "", old), "too old"),
        (
            "M16: mounted",
            said(8, "v is mounted.\n", "e2fsck: Cannot continue, aborting.\n"),
            "in use",
        ),
        ("20: busybox", said(1, "", "BusyBox v1.29.3\n\nUsage: fsck [-ANPRTV]\n"), "unusable"),
        ("20: no applet", said(127, "", "e2fsck: applet not found\n"), "unusable"),
        ("a missing library", said(127, "", "cannot open shared object file\n"), "unusable"),
        ("12 alone", said(12, "", ""), "unexplained"),
        ("8 alone", said(8, "", ""), "unexplained"),
        ("4 alone", said(4, "", ""), "damaged"),
        ("2, reboot", said(3, "v: Inode 7 odd.  FIXED.\n", ""), "repaired"),
        ("0, and unknown words", said(0, "v: something new\n", ""), "repaired"),
        ("32", said(32, "", ""), "died"),
        ("a library", said(128, "", ""), "unusable"),
        ("64", said(64, "", ""), "unexplained"),
        ("negative", said(-1, "", ""), "unexplained"),
        ("10: hangs in the kernel", ended(End::Stuck { pid: 7, why: Why::Deadline }), "stuck"),
        ("a deadline", ended(End::Killed(Why::Deadline)), "died"),
        ("a flood", ended(End::Killed(Why::Flood)), "flood"),
        ("an Unstage", ended(End::Killed(Why::Cancelled)), "cancelled"),
        ("out of memory", ended(End::Signalled(9)), "died"),
    ] {
        let meaning = ext_exit::read(&ran);
        assert_eq!(word(&meaning).0, expected, "{case}: {meaning:?}");
    }
}

#[test]
fn names_from_the_filesystem_are_not_the_checkers_words() {
    let line =
        "v: Entry 'No space left on device' in /x (12) has deleted/unused inode 13.  CLEARED.";
    assert_eq!(word(&ext_exit::read(&said(1, line, ""))).0, "repaired");
    let line = "v: Entry 'a: 1/2 files, 3/4 blocks' in /x (12) has a zero-length name.  CLEARED.";
    assert_eq!(word(&ext_exit::read(&said(1, line, ""))).0, "repaired");
}

#[test]
fn a_label_does_not_hide_how_full_a_filesystem_is() {
    for line in [
        "my: label: clean, 11/16 files (0.0% non-contiguous), 3/4 blocks (check in 3 mounts)",
        "pvc: 11/16 files (0.0% non-contiguous), 3/4 blocks",
    ] {
        assert_eq!(ext_exit::read(&said(0, line, "")), Meaning::Clean, "{line}");
    }
}

#[test]
fn no_exit_code_alone_means_go_on_but_0_and_1() {
    for exit in -300..300 {
        let meaning = ext_exit::read(&said(exit, "", ""));
        let goes_on = matches!(meaning, Meaning::Clean | Meaning::Replayed | Meaning::Repaired(_));
        assert!(!goes_on || (0..4).contains(&exit), "{exit}: {meaning:?}");
    }
}

#[test]
fn findings_are_short_ascii_and_counted() {
    let long = "x".repeat(500);
    let lines = ["gr\u{f6}\u{df}e \u{1b}[2J", &long, "third", "fourth", "fifth"];
    let findings = Findings::of(lines);
    assert_eq!(findings.lines()[0], "gr??e ?[2J");
    assert_eq!(findings.lines()[1].len(), 130);
    assert!(findings.to_string().ends_with("third\" and 2 more lines"));
    assert!(findings.to_string().len() < 450);
}

#[test]
fn a_death_says_how() {
    for (ran, death) in [
        (ended(End::Signalled(9)), Death::Signal(9)),
        (ended(End::Killed(Why::Deadline)), Death::Deadline),
        (said(32, "", ""), Death::Asked),
    ] {
        assert_eq!(ext_exit::read(&ran), Meaning::Died(death));
    }
    let flood = Ran { stdout: "v: odd\n".to_owned(), ..ended(End::Killed(Why::Flood)) };
    assert_eq!(ext_exit::read(&flood), Meaning::Flood(found("odd")));
}

#[test]
fn the_longest_refusal_leaves_room_for_the_device_in_an_answer() {
    let line = "x".repeat(500);
    let found = Findings::of([line.as_str(); 9]);
    let tool = Tool::XfsRepair;
    let cure = Cure::Repair;
    for refusal in [
        Refusal::Damaged { tool, found: found.clone(), cure },
        Refusal::NotRepaired { tool, found: found.clone(), left: found.clone() },
        Refusal::RepairTooLarge { tool, found },
    ] {
        let text = format!("{refusal}; {}", refusal.remedy("/dev/longhorn/v".as_ref()));
        assert!(text.is_ascii() && text.len() < 700, "{} bytes: {text}", text.len());
    }
}
