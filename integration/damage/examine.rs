//! What the guard makes of an image: the one place that knows how it is asked.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use mount_guard::facts::bytes::{DeviceBytes, Outcome};
use mount_guard::facts::memory::{Kills, Marks};
use mount_guard::facts::superblock::ext::health::Health;
use mount_guard::facts::superblock::xfs::Superblock;
use mount_guard::facts::superblock::xfs::log::{self, LogState};
use mount_guard::format::{self, Content, Decision, Filesystem, Found, Memory, PrimaryLost};
use mount_guard::fsck::{self, Backup, Keep, Mode, Plan, Verdict, Wanted, ext, xfs};
use mount_guard::host::trial::Apply;
use mount_guard::volume::FsType;

use super::climb::{Climb, climb};
use crate::content::image::look;

/// The answer.
#[derive(Debug)]
pub struct Examined {
    pub answer: Answer,
    /// Whether something was written to the image.
    pub applied: bool,
    /// In the guard's words.
    pub reason: String,
    pub took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    Go,
    Refuse,
    Wait,
    /// It would be formatted.
    Format,
}

/// Judges `image` in this mode, and applies what the mode allows. `state` is a directory for it.
pub fn examine(image: &Path, is_xfs: bool, mode: Mode, state: &Path) -> Examined {
    let begun = Instant::now();
    let (content, _) = look(image);
    let (answer, applied, reason) = match plan(&content, image, is_xfs, mode) {
        Planned::Answer(answer, reason) => (answer, false, reason),
        Planned::Check(Plan::NoCheck(why)) => (Answer::Go, false, format!("{why:?}")),
        Planned::Check(Plan::Forward(why)) => (Answer::Go, false, why.to_string()),
        Planned::Check(Plan::Refuse(why)) => (Answer::Refuse, false, why.to_string()),
        Planned::Check(Plan::Trial(ladder)) => answer(climb(image, state, ladder), is_xfs),
    };
    Examined { answer, applied, reason, took: begun.elapsed() }
}

enum Planned {
    Answer(Answer, String),
    Check(Plan),
}

fn plan(content: &Content, image: &Path, is_xfs: bool, mode: Mode) -> Planned {
    let size_bytes = std::fs::metadata(image).unwrap().len();
    let wanted = FsType::parse(if is_xfs { "xfs" } else { "ext4" }).unwrap();
    let question = format::Question {
        wanted: &format::Wanted::Filesystem(Some(wanted)),
        memory: &Memory::Nothing,
        size_bytes,
        mode: format::Mode::Enforce,
        may_repair: mode == Mode::Repair,
        format_allowed: false,
        blank_settled: true,
        written_bytes: None,
    };
    match format::judge(content, &question) {
        Decision::HandOn { .. } => Planned::Check(plan_check(content, size_bytes, mode)),
        Decision::RepairFirst(lost) => Planned::Check(plan_lost(&lost, image, size_bytes, mode)),
        Decision::Refuse(why) => Planned::Answer(Answer::Refuse, why.to_string()),
        Decision::HandOnToFormat => Planned::Answer(Answer::Format, String::new()),
        other => Planned::Answer(Answer::Wait, format!("{other:?}")),
    }
}

/// An operator asks by hand: xfs is looked at too, though no mount of it failed.
fn question(mode: Mode, is_xfs: bool) -> fsck::Question {
    let (marks, kills) = (Marks { recheck: is_xfs, ..Marks::default() }, Kills::default());
    let (wanted, backup) = (Wanted::ReadWrite, Backup::Undo);
    fsck::Question { wanted, mode, backup, encrypted: false, marks, kills }
}

fn plan_check(content: &Content, size_bytes: u64, mode: Mode) -> Plan {
    match content {
        Content::Filesystem(Filesystem::Ext(superblock)) => {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
            let health = Health::of(superblock, now);
            let facts = ext::Facts {
                superblock: ext::Superblock::Intact(&health),
                fs_bytes: superblock.fs_bytes(),
                size_bytes,
            };
            ext::plan(&facts, &question(mode, false))
        }
        Content::Filesystem(Filesystem::Xfs { superblock, log }) => {
            plan_xfs(superblock, *log, size_bytes, mode)
        }
        other => panic!("handed on: {other:?}"),
    }
}

fn plan_lost(lost: &PrimaryLost, image: &Path, size_bytes: u64, mode: Mode) -> Plan {
    let backup = lost.backup.as_ref().expect("it is to be repaired from it");
    match backup.found() {
        Found::Ext(superblock) => {
            let copy =
                backup.ext_block.map(|(block, block_bytes)| ext::Copy { block, block_bytes });
            let fs_bytes = superblock.fs_bytes();
            let superblock = ext::Superblock::Lost(copy);
            let facts = ext::Facts { superblock, fs_bytes, size_bytes };
            ext::plan(&facts, &question(mode, false))
        }
        Found::Xfs(superblock) => plan_xfs(superblock, log_of(image, superblock), size_bytes, mode),
        other => panic!("to be repaired: {other:?}"),
    }
}

/// The log lies where the copy of the superblock says.
fn log_of(image: &Path, superblock: &Superblock) -> LogState {
    let file = File::open(image).unwrap();
    let mut bytes = DeviceBytes::new(file.metadata().unwrap().len());
    loop {
        match log::search(&bytes, superblock) {
            log::Search::Found(state) => return state,
            log::Search::Wants(range) => {
                let mut content = vec![0; usize::try_from(range.len_bytes).unwrap()];
                file.read_exact_at(&mut content, range.offset_bytes).unwrap();
                bytes.put(range, Outcome::Bytes(content));
            }
            other @ log::Search::Failed { .. } => panic!("{other:?}"),
        }
    }
}

fn plan_xfs(superblock: &Superblock, log: LogState, size_bytes: u64, mode: Mode) -> Plan {
    let moment = xfs::Moment::BeforeMount;
    xfs::plan(&xfs::Facts { superblock, log, size_bytes, moment }, &question(mode, true))
}

fn answer(climb: Climb, is_xfs: bool) -> (Answer, bool, String) {
    match climb.verdict {
        Verdict::Apply { keep, report } => {
            let apply = Apply {
                fs_uuid: None,
                marks: Vec::new(),
                last: vec![if is_xfs { 0 } else { 1024 }],
                keep_undo: keep == Keep::Undo,
            };
            let trial = climb.trial.expect("its verdict is to be applied");
            let difference = trial.finish().unwrap();
            let applied = !difference.is_empty();
            difference.apply(&apply, &mut |_| {}).unwrap();
            (Answer::Go, applied, format!("{report:?}"))
        }
        Verdict::Sound(report) => (Answer::Go, false, format!("{report:?}")),
        Verdict::Forward(why) => (Answer::Go, false, why.to_string()),
        Verdict::Refuse(why) => (Answer::Refuse, false, why.to_string()),
        Verdict::Wait(why) => (Answer::Wait, false, why.to_string()),
        other => (Answer::Wait, false, format!("{other:?}")),
    }
}
