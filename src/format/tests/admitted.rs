use nix::errno::Errno;

use super::*;
use crate::facts::superblock::Uuid;
use crate::format::{Decision, Memory, Mode, Note, Question, Refusal, Remembered, Wanted, judge};
use crate::volume::{FsType, VolumeId};

const PLAIN: Wanted = Wanted::Filesystem(None);

fn asked(name: &str) -> Wanted {
    Wanted::Filesystem(Some(FsType::parse(name).unwrap()))
}

fn question<'a>(wanted: &'a Wanted, memory: &'a Memory) -> Question<'a> {
    Question {
        wanted,
        memory,
        size_bytes: 1 << 30,
        mode: Mode::Enforce,
        may_repair: false,
        format_allowed: false,
        blank_settled: true,
        written_bytes: None,
    }
}

fn held(name: &str) -> Memory {
    Memory::Held(Remembered { name: name.into(), uuid: Some(Uuid::from_bytes([0xab; 16])) })
}

fn forwarded() -> Memory {
    Memory::FormatForwarded { at_seconds: 1 }
}

/// The refusal's label, or what was decided instead.
fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::HandOn { notes } if notes.is_empty() => "hand on",
        Decision::HandOn { .. } => "hand on with a note",
        Decision::HandOnToFormat => "format",
        Decision::LookAgain { doubtful: false } => "look again",
        Decision::LookAgain { doubtful: true } => "look again, twice as long",
        Decision::RepairFirst(_) => "repair first",
        Decision::Wait { .. } => "wait",
        Decision::Refuse(refusal) => refusal.label(),
    }
}

fn check(disk: &Disk, wanted: &Wanted, memory: &Memory, expected: &str) {
    let content = disk.content();
    let decision = judge(&content, &question(wanted, memory));
    assert_eq!(word(&decision), expected, "{content:?} {wanted:?} {memory:?}");
}

fn blank() -> Disk {
    Disk::new(1 << 30)
}

#[test]
fn a_blank_device_is_formatted_only_if_its_volume_held_nothing() {
    check(&blank(), &PLAIN, &Memory::Nothing, "format");
    check(&blank(), &PLAIN, &forwarded(), "format");
    check(&blank(), &PLAIN, &held("ext4"), "blank_but_held");
    check(&blank(), &PLAIN, &Memory::Unreadable { missing: "the PV" }, "wait");
    check(&blank(), &Wanted::Luks, &held("LUKS"), "blank_but_held");
    check(&blank(), &Wanted::Luks, &Memory::Nothing, "format");
}

#[test]
fn the_operator_may_give_up_what_was_held() {
    for memory in [held("ext4"), Memory::Unreadable { missing: "the PV" }] {
        let question = Question { format_allowed: true, ..question(&PLAIN, &memory) };
        assert_eq!(judge(&blank().content(), &question), Decision::HandOnToFormat);
    }
}

#[test]
fn a_blank_device_is_looked_at_again_before_it_counts() {
    let mut question = Question { blank_settled: false, ..question(&PLAIN, &Memory::Nothing) };
    let content = blank().content();
    assert_eq!(judge(&content, &question), Decision::LookAgain { doubtful: false });
    question.written_bytes = Some(0);
    assert_eq!(judge(&content, &question), Decision::LookAgain { doubtful: false });
    question.written_bytes = Some(1);
    assert_eq!(judge(&content, &question), Decision::LookAgain { doubtful: true });
}

#[test]
fn a_device_that_cannot_be_read_is_refused_whatever_is_allowed() {
    let content = blank().broken(0, Failure::Errno(Errno::EIO)).content();
    for memory in [Memory::Nothing, forwarded(), held("ext4")] {
        let question = Question { format_allowed: true, ..question(&PLAIN, &memory) };
        assert_eq!(word(&judge(&content, &question)), "unreadable");
    }
}

#[test]
fn what_a_cut_off_format_left_may_be_formatted_again() {
    let disk = blank().with(2 << 20, vec![1]);
    check(&disk, &PLAIN, &forwarded(), "format");
    check(&disk, &PLAIN, &Memory::Nothing, "unknown_content");
    check(&disk, &PLAIN, &held("ext4"), "unknown_content");
}

#[test]
fn a_copy_of_a_superblock_is_never_formatted_on_a_records_word() {
    let disk = Disk::ext4().with(1024, vec![0; 1024]);
    for memory in [Memory::Nothing, forwarded(), held("ext4")] {
        check(&disk, &PLAIN, &memory, "primary_lost");
    }
    let memory = held("ext4");
    let repair = Question { may_repair: true, ..question(&PLAIN, &memory) };
    assert_eq!(word(&judge(&disk.content(), &repair)), "repair first");
    let xfs = asked("xfs");
    let other = Question { wanted: &xfs, ..repair };
    assert_eq!(word(&judge(&disk.content(), &other)), "primary_lost");
    let btrfs = Disk::btrfs().with(btrfs::PRIMARY_OFFSET_BYTES, vec![0; 4096]);
    let wanted = asked("btrfs");
    let other = Question { wanted: &wanted, ..repair };
    assert_eq!(word(&judge(&btrfs.content(), &other)), "primary_lost");
}

#[test]
fn a_copy_of_the_very_format_that_was_forwarded_may_be_formatted_again() {
    let mut copy = ext::tests::sample(1);
    copy[0x108] = 100;
    ext::tests::sum(&mut copy);
    let disk = Disk::new(512 << 20).with(128 << 20, copy);
    for (at_seconds, expected) in [(99, "format"), (100, "format"), (101, "primary_lost")] {
        check(&disk, &PLAIN, &Memory::FormatForwarded { at_seconds }, expected);
    }
    check(&disk, &PLAIN, &Memory::Nothing, "primary_lost");
    let damaged = disk.with(1024 + 0x38, vec![0x53, 0xef]);
    check(&damaged, &PLAIN, &forwarded(), "primary_lost");
}

#[test]
fn the_family_of_ext_is_one_type_and_the_default() {
    for name in ["ext2", "ext3", "ext4"] {
        check(&Disk::ext4(), &asked(name), &Memory::Nothing, "hand on");
    }
    check(&Disk::ext4(), &PLAIN, &Memory::Nothing, "hand on");
    check(&Disk::ext4(), &asked("xfs"), &Memory::Nothing, "other_type");
    check(&Disk::xfs(), &asked("xfs"), &Memory::Nothing, "hand on");
    check(&Disk::xfs(), &PLAIN, &Memory::Nothing, "other_type");
    check(&Disk::btrfs(), &asked("btrfs"), &Memory::Nothing, "hand on");
}

#[test]
fn encryption_is_what_was_asked_for_or_refused() {
    check(&Disk::luks(), &Wanted::Luks, &Memory::Nothing, "hand on");
    check(&Disk::luks(), &PLAIN, &Memory::Nothing, "encrypted");
    check(&Disk::ext4(), &Wanted::Luks, &Memory::Nothing, "not_encrypted");
}

#[test]
fn a_raw_volume_is_nobodys_business() {
    for disk in [Disk::luks(), blank().broken(0, Failure::Short), blank()] {
        check(&disk, &Wanted::Block, &held("ext4"), "hand on");
    }
}

#[test]
fn another_filesystem_than_the_remembered_one_is_noted() {
    check(&Disk::ext4(), &PLAIN, &held("ext4"), "hand on");
    check(&Disk::ext4(), &PLAIN, &held("ext3"), "hand on");
    check(&Disk::xfs(), &asked("xfs"), &held("ext4"), "hand on with a note");
}

#[test]
fn a_device_smaller_than_its_filesystem_is_named_as_such() {
    let content = Disk::ext4().content();
    let question = Question { size_bytes: 409_600_000 - 512, ..question(&PLAIN, &Memory::Nothing) };
    assert_eq!(word(&judge(&content, &question)), "device_too_small");
}

#[test]
fn report_says_what_enforce_would_do_and_off_says_nothing() {
    let memory = held("ext4");
    let report = Question { mode: Mode::Report, ..question(&PLAIN, &memory) };
    let Decision::HandOn { notes } = judge(&blank().content(), &report) else { panic!() };
    assert!(matches!(&notes[..], [Note::WouldRefuse(Refusal::BlankButHeld { .. })]));
    let off = Question { mode: Mode::Off, ..report };
    assert_eq!(word(&judge(&blank().content(), &off)), "hand on");
}

#[test]
fn every_refusal_is_short_ascii_and_says_what_would_change_it() {
    let lvm = blank().with(0, b"bluestore block device".as_slice());
    let disks = [
        blank(),
        blank().with(5000, vec![1]),
        blank().broken(0, Failure::Errno(Errno::EIO)),
        Disk::ext4().with(1024, vec![0; 1024]),
        Disk::ext4().with(1024 + 0x68, vec![1]),
        Disk::luks(),
        Disk::xfs(),
        lvm,
    ];
    let memory = held("ext4");
    for disk in disks {
        let content = disk.content();
        let Decision::Refuse(refusal) = judge(&content, &question(&PLAIN, &memory)) else {
            panic!("{content:?}")
        };
        let remedy =
            refusal.remedy(&VolumeId::parse("pvc-1").unwrap(), "/dev/longhorn/pvc-1".as_ref());
        let text = format!("{refusal}; {remedy}");
        assert!(text.is_ascii() && text.len() < 500, "{text}");
        assert!(!text.contains("  ") && !remedy.ends_with('.'), "{text}");
    }
}

#[test]
fn a_refusal_reads_like_a_sentence() {
    let memory = held("ext4");
    let mut question = question(&PLAIN, &memory);
    question.written_bytes = Some(4096);
    let Decision::Refuse(refusal) = judge(&Disk::new(8192).content(), &question) else { panic!() };
    assert_eq!(
        refusal.to_string(),
        "it reads as zeros (8192 bytes looked at) but held ext4 \
         abababab-abab-abab-abab-abababababab, and Longhorn counts 4096 bytes written"
    );
}
