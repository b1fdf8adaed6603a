//! `mount-guard check DEVICE`: everything that is looked at before a mount, by hand.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::report;
use crate::claims::{Expected, Multipath};
use crate::config::{Check, CheckFormat};
use crate::facts::device::{Node, Target};
use crate::facts::memory::{Kills, Record, Remembered};
use crate::format::Wanted;
use crate::guard::activity::{Activity, Doing};
use crate::guard::examine::{Examination, Examiner, Go, Subject, Verdict};
use crate::guard::policy::Policy;
use crate::guard::queue::Queue;
use crate::guard::reason::Reason;
use crate::host::linux::LinuxHost;
use crate::host::{Host, LoopDevice};
use crate::telemetry::Telemetry;
use crate::volume::VolumeId;

/// How often a person at a terminal is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// What a name becomes that is no volume's.
const NAMELESS: &str = "by-hand";

/// Looks, says what was seen, and exits: 0 may be mounted, 1 refused, 3 could not find out.
pub(super) fn run(check: &Check, host: LinuxHost) -> ExitCode {
    let seen = super::wait_for(look(check, &host));
    let text = match check.format {
        CheckFormat::Json => report::json(&check.device, &seen),
        CheckFormat::Text => report::text(&check.device, &seen),
    };
    // Whoever closed the output still gets the exit code.
    let _ = writeln!(std::io::stdout(), "{text}");
    match &seen.verdict {
        Verdict::Go(Go::Sound | Go::ToFormat | Go::InUse) => ExitCode::SUCCESS,
        Verdict::Refuse(_) => ExitCode::from(1),
        // Not to have looked is not to know.
        Verdict::Go(Go::NoDevice | Go::Unchecked) | Verdict::Wait(_) | Verdict::CalledOff => {
            ExitCode::from(3)
        }
    }
}

async fn look(check: &Check, host: &LinuxHost) -> Examination {
    let image = match attach(&check.device) {
        Ok(image) => image,
        Err(error) => {
            let why = format!("cannot use {} as a disk: {error}", check.device.display());
            let verdict = Verdict::Wait(Reason::without_device("no_image", why));
            return Examination { verdict, ..Examination::unseen() };
        }
    };
    let device = image.as_ref().map_or(check.device.as_path(), LoopDevice::path);
    let volume = match &image {
        Some(_) => volume_of_image(&check.device),
        None => volume_of(check, host).await,
    };
    let record = host.recall(&volume).await.map(Remembered::into_record).unwrap_or_default();
    let subject = subject(check, device, volume);
    let policy = Policy {
        fsck: check.fsck,
        repair_backup: check.repair_backup,
        device_path: check.places.device_path.clone(),
        // Nobody formats it now: what it is shows at once.
        format_settle: Duration::ZERO,
        ..Policy::default()
    };
    let (activity, queue, telemetry) =
        (Activity::new(Doing::Looking), Queue::default(), Telemetry::default());
    let examiner = Examiner {
        host,
        policy: &policy,
        queue: &queue,
        telemetry: &telemetry,
        activity: &activity,
        record: Some(whole_look(record)),
    };
    let mut seen = tokio::select! {
        seen = examiner.examine(&subject) => seen,
        () = tell(&activity) => unreachable!("it tells until it is dropped"),
    };
    if let Some(image) = &image {
        name_file(&mut seen, image, &check.device);
    }
    seen
}

/// Whoever asked about a file knows nothing of the loop device that was put on it, and must not
/// be told to use it: it is gone by then, or somebody else's.
fn name_file(seen: &mut Examination, image: &LoopDevice, file: &Path) {
    let (device, file) = (image.path().display().to_string(), report::shown(file));
    let decides = match &mut seen.verdict {
        Verdict::Refuse(reason) | Verdict::Wait(reason) => Some(reason),
        Verdict::Go(_) | Verdict::CalledOff => None,
    };
    for reason in decides.into_iter().chain(&mut seen.warnings) {
        reason.device = Some(file.clone());
        reason.why = reason.why.replace(&device, &file);
        reason.remedy = reason.remedy.replace(&device, &file);
    }
    if let Some(facts) = &mut seen.facts {
        facts.path = file.into();
    }
}

/// By hand everything is checked, whatever the superblock says and however often a checker died.
fn whole_look(mut record: Record) -> Record {
    record.kills = Kills::default();
    record.marks.recheck = true;
    record
}

/// A loop device for a file; `None` for a device, or what is not there.
fn attach(path: &Path) -> std::io::Result<Option<LoopDevice>> {
    match crate::host::is_file(path) {
        true => LoopDevice::over(path).map(Some),
        false => Ok(None),
    }
}

fn subject(check: &Check, device: &Path, volume: VolumeId) -> Subject {
    let wanted = match &check.fs_type {
        Some(fs_type) => Wanted::Filesystem(Some(fs_type.clone())),
        None => Wanted::Any,
    };
    Subject {
        device: device.to_owned(),
        expected: Expected::unused(volume.clone()),
        volume,
        wanted,
        reads_only: false,
        is_plain_text: device.starts_with("/dev/mapper"),
        fsck: check.fsck,
        multipath: Multipath::Refuse,
        // The whole look, as after a failed mount: by hand there is time.
        mount_failed: true,
        applies: check.applies,
    }
}

/// A name for the records of what is done to a file: one for each file, and never a volume's.
fn volume_of_image(file: &Path) -> VolumeId {
    let id = crate::host::file_id(file).unwrap_or_default();
    let name = format!("{NAMELESS}-{:x}-{:x}", id.0, id.1);
    VolumeId::parse(&name).expect("letters, digits and dashes")
}

/// Whose it is: by its name where Longhorn keeps its nodes, by its target elsewhere.
async fn volume_of(check: &Check, host: &LinuxHost) -> VolumeId {
    let path = check.device.as_path();
    let named = path.file_name().and_then(|name| VolumeId::parse(name.to_str()?).ok());
    if let Some(volume) = &named
        && check.places.device_path.of(volume) == path
    {
        return volume.clone();
    }
    let of_target = match host.read_device(path).await {
        Ok((Node::Device(facts), _)) => match facts.target {
            Some(Target::Iqn(iqn)) => Expected::volume_of_iqn(&iqn),
            Some(Target::NotIscsi) | None => None,
        },
        Ok((Node::Absent | Node::NotADevice, _)) | Err(_) => None,
    };
    of_target.or(named).unwrap_or_else(|| VolumeId::parse(NAMELESS).expect("a plain name"))
}

/// Tells a person at a terminal how far it is.
async fn tell(activity: &Activity) {
    let mut told = Told { is_terminal: std::io::stderr().is_terminal(), said: false };
    loop {
        tokio::time::sleep(TOLD_EVERY).await;
        told.tell(activity.doing());
    }
}

struct Told {
    is_terminal: bool,
    said: bool,
}

impl Told {
    fn tell(&mut self, doing: Doing) {
        if !self.is_terminal {
            return;
        }
        self.said = true;
        let line = match doing {
            Doing::Checking { tool, progress: Some(progress) } => {
                report::bar(tool, progress.pass, progress.percent)
            }
            doing => doing.to_string(),
        };
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Told {
    /// Leaves a clean line.
    fn drop(&mut self) {
        if self.said {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
