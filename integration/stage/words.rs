//! The words of every refusal, for whoever reads them at night: each names the device, what ails
//! it, and the one thing that would change the answer.
//!
//! After a change of words: `INSTA_UPDATE=always`, and read what `git diff` shows of `snapshots/`.

use std::fmt::Write;
use std::time::Duration;

use mount_guard::facts::bytes::Failure;
use mount_guard::facts::call::Method;
use mount_guard::facts::device::{DeviceFacts, ExclusiveOpen};
use mount_guard::facts::superblock::partition::{Kind, Table};
use mount_guard::facts::superblock::{Family, Uuid};
use mount_guard::facts::tool::{End, Ran};
use mount_guard::format::{self, Lost, PrimaryLost, Remembered};
use mount_guard::fsck::refusal::Cure;
use mount_guard::fsck::{self, Findings, Forward, Meaning, Tool, Wait, ext_exit};
use mount_guard::guard::activity::Doing;
use mount_guard::guard::answer::Own;
use mount_guard::guard::reason::Reason;
use mount_guard::volume::{DevNumber, VolumeId};
use nix::errno::Errno;

use super::scene::Staged;
use super::sound::{debugfs, zero_group_descriptors};
use crate::support::disk::{Loop, LoopDisk};
use crate::support::scene::{VOLUME, make_node};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        every_refusal_of_a_content_can_be_acted_on,
        every_refusal_of_a_check_can_be_acted_on,
        every_check_that_is_not_made_says_what_would_change_that,
        every_own_answer_says_what_goes_on,
        loop_refusals_of_real_devices_can_be_acted_on,
    ]
}

fn volume() -> VolumeId {
    VolumeId::parse(VOLUME).unwrap()
}

fn facts() -> DeviceFacts {
    let number = DevNumber { major: 8, minor: 32 };
    let path = format!("/dev/longhorn/{VOLUME}").into();
    DeviceFacts::unread(path, number, ExclusiveOpen::Granted)
}

fn uuid() -> Uuid {
    Uuid::parse("263d07d0-4509-4566-aebc-cfa0523460e0").unwrap()
}

/// What e2fsck says of a filesystem whose group descriptors are gone.
fn found() -> Findings {
    let stdout = "trial: Group descriptor 0 checksum is 0x0000, should be 0x4ab1.  \n\
                  trial: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n"
        .to_owned();
    let (end, stderr) = (End::Exited(4), String::new());
    let ran = Ran { end, stdout, stderr, took: Duration::from_secs(1) };
    let Meaning::Damaged(found) = ext_exit::read(&ran) else { panic!("damage") };
    found
}

/// All answers with these reasons, one each line.
fn refused(reasons: impl IntoIterator<Item = (&'static str, String, String)>) -> String {
    let mut all = String::new();
    for (kind, why, remedy) in reasons {
        assert!(!remedy.is_empty(), "{kind}: what would change it?");
        let reason = Reason::of(kind, &facts(), &why, &remedy);
        let (volume, method) = (volume(), Method::Stage);
        let text = Own::Refused { volume, method, reason }.text();
        is_fit(&text);
        for words in [VOLUME, "/dev/longhorn/pvc-", "(8:32)", &remedy] {
            assert!(text.contains(words), "{words:?} is not in: {text}");
        }
        writeln!(all, "{text}\n").unwrap();
    }
    all
}

#[track_caller]
fn is_fit(text: &str) {
    assert!(text.starts_with("mount-guard: ") && text.len() < 900 && text.is_ascii(), "{text}");
    assert!(!text.contains("  ") && !text.contains("VOLUME") && !text.ends_with('.'), "{text}");
}

fn every_refusal_of_a_content_can_be_acted_on() {
    use format::Refusal;
    let ext4 = || Remembered { name: "ext4".into(), uuid: Some(uuid()) };
    let lost = |lost: Lost| PrimaryLost { lost, damage: None, backup: None };
    let refusals = [
        Refusal::Unreadable { failure: Failure::Errno(Errno::EIO), offset_bytes: 0 },
        Refusal::Unreadable { failure: Failure::Short, offset_bytes: 4096 },
        Refusal::BlankButHeld { held: ext4(), proved_bytes: 6_291_456, written_bytes: None },
        Refusal::BlankButHeld { held: ext4(), proved_bytes: 6_291_456, written_bytes: Some(9) },
        Refusal::UnknownContent { offset_bytes: 65_536, held: None },
        Refusal::UnknownContent { offset_bytes: 65_536, held: Some(ext4()) },
        Refusal::PrimaryLost { lost: lost(Lost::Superblock(Family::Ext)), repairable: true },
        Refusal::PrimaryLost { lost: lost(Lost::LuksHeader), repairable: false },
        Refusal::Unfinished { uuid: uuid() },
        Refusal::PartitionTable { table: Table { kind: Kind::Gpt, offset_bytes: 512 } },
        Refusal::OtherType { found: ext4(), asked: "xfs".into() },
        Refusal::NotEncrypted { found: ext4() },
        Refusal::Encrypted { found: Remembered { name: "LUKS".into(), uuid: Some(uuid()) } },
        Refusal::DeviceTooSmall { found: ext4(), fs_bytes: 33_554_432, size_bytes: 25_165_824 },
    ];
    let texts =
        refusals.map(|it| (it.label(), it.to_string(), it.remedy(&volume(), &facts().path)));
    insta::assert_snapshot!("content", refused(texts));
}

fn every_refusal_of_a_check_can_be_acted_on() {
    use fsck::Refusal;
    let damaged = |tool, cure| Refusal::Damaged { tool, found: found(), cure };
    let (ext, xfs) = (Tool::E2fsck, Tool::XfsRepair);
    let refusals = [
        damaged(ext, Cure::Repair),
        damaged(xfs, Cure::Repair),
        damaged(ext, Cure::BackupOfEncrypted),
        damaged(ext, Cure::ByHandAfterKills { kills: 3 }),
        damaged(xfs, Cure::ByHand),
        damaged(Tool::Btrfs, Cure::ByHand),
        Refusal::NotRepaired { tool: ext, found: found(), left: found() },
        Refusal::RepairTooLarge { tool: ext, found: found() },
        Refusal::SuperblockLost { repairable: true },
        Refusal::SuperblockLost { repairable: false },
        Refusal::DeviceTooSmall { fs_bytes: Some(33_554_432), size_bytes: Some(25_165_824) },
        Refusal::DeviceTooSmall { fs_bytes: None, size_bytes: None },
        Refusal::LogUnreplayable { errno: 117 },
        Refusal::DuplicateUuid { uuid: uuid(), device: "/dev/longhorn/pvc-2".into() },
        Refusal::KernelTooOld { features: "ro_compat 0x80000000".into() },
    ];
    let texts = refusals.map(|it| (it.label(), it.to_string(), it.remedy(&facts().path)));
    insta::assert_snapshot!("check", refused(texts));
}

fn every_check_that_is_not_made_says_what_would_change_that() {
    let tool = Tool::E2fsck;
    let forwards = [
        Forward::ExternalJournal,
        Forward::MultipleMountProtection,
        Forward::Killed { kills: 3 },
        Forward::NoTrial,
        Forward::NoTool(tool),
        Forward::TooOld { tool, features: "FEATURE_C12 FEATURE_R16".into() },
        Forward::Unusable { tool, exit: 127, said: found() },
        Forward::NoRoom,
        Forward::NoReplay,
    ];
    let forwards = forwards.map(|it| ("not_checked", it.to_string(), it.remedy(&volume())));
    let waits = [
        Wait::DeviceRead { errno: Some(5) },
        Wait::DeviceRead { errno: None },
        Wait::DeviceChanged { offset_bytes: 4096 },
        Wait::InUse,
        Wait::Stuck,
        Wait::Unexplained { tool, exit: 8, said: found() },
    ];
    let waits = waits.map(|it| ("wait", it.to_string(), it.remedy(&facts().path)));
    insta::assert_snapshot!("not_checked", refused(forwards));
    insta::assert_snapshot!("waits", refused(waits));
}

fn every_own_answer_says_what_goes_on() {
    let (method, age) = (Method::Stage, Duration::from_secs(42));
    let why = || "connection refused".to_owned();
    let answers = [
        Own::CalledOff { volume: volume(), method },
        Own::NotProven { volume: volume(), method, why: "but nothing is mounted at /k".into() },
        Own::Busy {
            volume: volume(),
            asked: Method::Unstage,
            running: method,
            age,
            doing: Doing::Applying,
        },
        Own::StillRunning { volume: volume(), method, age, doing: Doing::Queued { place: 2 } },
        Own::StillRunning {
            volume: volume(),
            method,
            age: age * 10,
            doing: Doing::Checking { tool: "e2fsck", progress: None },
        },
        Own::MayStillRun { volume: volume(), method, earlier: Method::Unstage },
        Own::Withheld { volume: volume(), method, code: "INTERNAL", text: "mount failed".into() },
        Own::PluginAway { volume: volume(), method, why: why() },
        Own::PluginLost { volume: volume(), method, why: why() },
        Own::Leaving { volume: volume(), method },
        Own::Broken { volume: volume(), method },
    ];
    let mut all = String::new();
    for answer in answers {
        let text = answer.text();
        is_fit(&text);
        assert!(text.contains(VOLUME), "{text}");
        writeln!(all, "{text}\n").unwrap();
    }
    insta::assert_snapshot!("own", all);
}

/// Without what differs from run to run.
fn settled(text: &str, staged: &Staged) -> String {
    let devices = staged.scene.devices();
    let number = format!("({})", staged.scene.disk.attachment().number());
    let text = text.replace(devices.to_str().unwrap(), "/dev/longhorn").replace(&number, "(M:N)");
    assert!(text.contains(&format!("device /dev/longhorn/{VOLUME} (M:N): ")), "{text}");
    is_fit(&text);
    text
}

fn loop_refusals_of_real_devices_can_be_acted_on() {
    let ext4 = || LoopDisk::with_filesystem("ext4", &[("a", b"1")]);
    let damaged = ext4();
    debugfs(&damaged, "ssv state 0");
    zero_group_descriptors(&damaged);
    let lost = ext4();
    lost.zero(1024, 1024);
    let bad_sum = ext4();
    bad_sum.write_at(1024 + 0x3fc, &[1, 2, 3, 4]);
    let unknown = LoopDisk::new(32 << 20);
    unknown.write_at(9 << 20, &[0xa5; 1 << 20]);
    let swap = LoopDisk::new(32 << 20);
    crate::support::disk::run("mkswap", &[swap.device().to_str().unwrap()]);
    let xfs = LoopDisk::with_filesystem("xfs", &[]);
    let mut all = String::new();
    for disk in [damaged, lost, bad_sum, unknown, swap, xfs] {
        let staged = Staged::new(disk, "ext4", &[]);
        let text = staged.is_refused_untouched(&[]);
        writeln!(all, "{}\n", settled(&text, &staged)).unwrap();
    }
    let staged = Staged::new(ext4(), "ext4", &[]);
    staged.scene.disk.attachment().set_read_only(true);
    writeln!(all, "{}\n", settled(&staged.is_refused(&[]), &staged)).unwrap();
    staged.scene.disk.attachment().set_read_only(false);
    let on_top = Loop::over(staged.scene.disk.device());
    writeln!(all, "{}\n", settled(&staged.is_refused(&[]), &staged)).unwrap();
    drop(on_top);
    make_node(staged.scene.disk.device(), &staged.scene.devices().join("pvc-other"));
    let text = staged.is_refused(&["detach the volume that does not own"]);
    let number = staged.scene.disk.attachment().number();
    writeln!(all, "{}\n", settled(&text, &staged).replace(&number, "M:N")).unwrap();
    insta::with_settings!({filters => [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", "UUID"),
        (r"0x[0-9a-f]{4,8}\b", "0xSUM"),
        (r"/dev/loop\d+", "/dev/loopN"),
        (r"\(/dev/[^)]*\)", "(FILE)"),
    ]}, {
        insta::assert_snapshot!("devices", all);
    });
}
