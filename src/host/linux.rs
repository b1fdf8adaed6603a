//! The node as Linux shows it.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::checks::{self, LinuxTrial, Subject};
use super::shelf::{self, Shelf};
use super::threads::Threads;
use super::{
    Exclusive, Held, Host, HostError, MountAt, Room, Roots, Written, content, device, memory,
    mounts, namespaces, sent,
};
use crate::facts::bytes::{ByteRange, DeviceBytes};
use crate::facts::call::SentCall;
use crate::facts::device::{MountSighting, Node, Sightings};
use crate::facts::memory::{Event, Remembered};
use crate::facts::mounts::Mount;
use crate::facts::process::Process;
use crate::facts::superblock::Uuid;
use crate::facts::tool::{Outcome, Trouble};
use crate::volume::{DevNumber, VolumeId};

/// How long the state directory may take for one verb.
///
/// A second is a thousand times what a healthy disk needs. At half, a busy disk would make the
/// guard forgetful; at double, a hung one would be felt in every call.
const STATE_DEADLINE: Duration = Duration::from_secs(1);

/// How long the look at a device may take.
///
/// It takes 50 us; what can make it wait is the open of a device whose driver is in trouble. A
/// second would be too short for a node that swaps, and kubelet's patience is 110 s.
const DEVICE_DEADLINE: Duration = Duration::from_secs(2);

/// How long the search through all processes may take: 0.1 s with 50,000 mounts, and a busy node
/// gets twenty times that.
const SEARCH_DEADLINE: Duration = Duration::from_secs(2);

/// How long the mount table may take: 0.1 s with 50,000 mounts.
const TABLE_DEADLINE: Duration = Duration::from_secs(2);

/// How long a write to a fresh mount may take.
///
/// It is a page. A healthy volume takes milliseconds, one that rebuilds a replica a second; ten
/// would eat what a caller has left after a check.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);

/// How long it may take to write what a filesystem has in memory.
///
/// A pod leaves gigabytes behind, and an unmount would write them anyway. At half, a slow volume
/// is left to that; at double, a dead one holds an Unstage up for nothing.
const SYNC_DEADLINE: Duration = Duration::from_secs(30);

/// How many records may wait for a disk that does not answer: more than a node has volumes.
const MAX_BACKLOG: usize = 1024;

/// This node.
pub struct LinuxHost {
    state_dir: PathBuf,
    sent: PathBuf,
    writer: mpsc::Sender<Order>,
    rememberer: mpsc::Sender<Job>,
    shelf: Shelf,
    roots: Roots,
    threads: Threads,
}

/// Work on the memory of volumes. It is fsynced, so it has a thread of its own.
type Job = Box<dyn FnOnce() + Send>;

/// What the writer of records does, in the order it was told.
enum Order {
    Record(SentCall, oneshot::Sender<Result<(), HostError>>),
    Erase(SentCall),
}

impl LinuxHost {
    /// Keeps its records under `state_dir`, which is created when first needed.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        let sent = state_dir.join("sent");
        let (writer, orders) = mpsc::channel(MAX_BACKLOG);
        let dir = sent.clone();
        // A thread of its own, since a file may block; one thread, since order matters. It ends
        // with the last sender.
        std::thread::spawn(move || write_records(&dir, orders));
        let (rememberer, mut jobs) = mpsc::channel::<Job>(MAX_BACKLOG);
        std::thread::spawn(move || {
            while let Some(job) = jobs.blocking_recv() {
                job();
            }
        });
        Self {
            state_dir: state_dir.into(),
            sent,
            writer,
            rememberer,
            shelf: Shelf::new(state_dir),
            roots: Roots::default(),
            threads: Threads::default(),
        }
    }

    /// Does `work` on the memory after all that was asked of it before.
    async fn in_memory<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path) -> Result<T, HostError> + Send + 'static,
    ) -> Result<T, HostError> {
        let (answer, answered) = oneshot::channel();
        let state_dir = self.state_dir.clone();
        let job = move || {
            // Whoever no longer waits has been told that it took too long.
            let _ = answer.send(work(&state_dir));
        };
        self.rememberer.try_send(Box::new(job)).map_err(|_| self.backlog())?;
        self.bounded(async { answered.await.unwrap_or_else(|_| Err(self.backlog())) }).await
    }

    /// Looks for the node's `proc` and `sys` elsewhere.
    #[must_use]
    pub fn with_roots(self, roots: Roots) -> Self {
        Self { roots, ..self }
    }

    /// Waits for `answer`, but no longer than [`STATE_DEADLINE`].
    async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, HostError>>,
    ) -> Result<T, HostError> {
        let late = |_| HostError::Deadline {
            path: self.state_dir.clone(),
            after_ms: STATE_DEADLINE.as_millis(),
        };
        timeout(STATE_DEADLINE, answer).await.map_err(late)?
    }

    fn backlog(&self) -> HostError {
        HostError::Backlog { path: self.state_dir.clone() }
    }
}

fn subject(volume: &VolumeId, device: Held<'_, Exclusive>) -> Subject {
    let Held { path, number, exclusive } = device;
    Subject { volume: volume.clone(), path: path.into(), number, exclusive }
}

fn write_records(dir: &Path, mut orders: mpsc::Receiver<Order>) {
    while let Some(order) = orders.blocking_recv() {
        match order {
            Order::Record(call, answer) => {
                // Whoever no longer waits has been told that it took too long.
                let _ = answer.send(sent::record(dir, &call));
            }
            // Left behind, the record makes the next run careful; a directory that cannot be
            // written is reported by the next record.
            Order::Erase(call) => drop(sent::erase(dir, &call)),
        }
    }
}

impl Host for LinuxHost {
    type Exclusive = Exclusive;
    type Trial = LinuxTrial;

    async fn read_device(&self, path: &Path) -> Result<(Node, Option<Exclusive>), HostError> {
        let (device, roots) = (path.to_owned(), self.roots.clone());
        let work = move || device::read(&device, &roots);
        self.threads.run(path, DEVICE_DEADLINE, work).await
    }

    async fn find_mounts(
        &self,
        numbers: &[DevNumber],
    ) -> Result<Sightings<MountSighting>, HostError> {
        let (numbers, roots) = (numbers.to_vec(), self.roots.clone());
        let work = move || namespaces::find_mounts(&numbers, &roots);
        self.threads.run(&self.roots.proc, SEARCH_DEADLINE, work).await
    }

    async fn find_openers(&self, numbers: &[DevNumber]) -> Result<Sightings<Process>, HostError> {
        let (numbers, roots) = (numbers.to_vec(), self.roots.clone());
        let work = move || namespaces::find_openers(&numbers, &roots);
        self.threads.run(&self.roots.proc, SEARCH_DEADLINE, work).await
    }

    async fn read_content(
        &self,
        path: &Path,
        number: DevNumber,
        ranges: &[ByteRange],
        bytes: &mut DeviceBytes,
    ) -> Result<(), HostError> {
        let device = (path, number);
        content::read(&self.threads, content::READ_DEADLINE, device, ranges, bytes).await
    }

    async fn begin_trial(
        &self,
        volume: &VolumeId,
        device: Held<'_, Exclusive>,
        room: Room,
    ) -> Result<LinuxTrial, Outcome> {
        // Without a directory nothing of a trial can be kept.
        let trials = self.shelf.trials().await.map_err(|_| Outcome::Spoiled(Trouble::NoRoom))?;
        checks::begin(trials, subject(volume, device), room).await
    }

    async fn read_pending(&self) -> Result<Vec<VolumeId>, String> {
        self.shelf.pending().await
    }

    async fn redo(
        &self,
        volume: &VolumeId,
        device: Held<'_, Exclusive>,
        fs_uuid: Option<Uuid>,
    ) -> Result<(), String> {
        let trials = self.shelf.trials().await?;
        shelf::redo(trials, subject(volume, device), fs_uuid).await
    }

    async fn read_mounts(&self) -> Result<Vec<Mount>, HostError> {
        self.threads.run(Path::new(mounts::TABLE), TABLE_DEADLINE, mounts::read_all).await
    }

    async fn read_mount(&self, path: &Path) -> Result<Option<MountAt>, HostError> {
        let at = path.to_owned();
        self.threads.run(path, TABLE_DEADLINE, move || mounts::read_at(&at)).await
    }

    async fn probe_write(&self, dir: &Path) -> Written {
        let at = dir.to_owned();
        let work = move || Ok(mounts::probe_write(&at));
        self.threads.run(dir, WRITE_DEADLINE, work).await.unwrap_or(Written::Silent)
    }

    async fn sync(&self, path: &Path) -> Result<(), HostError> {
        let at = path.to_owned();
        self.threads.run(path, SYNC_DEADLINE, move || mounts::sync(&at)).await
    }

    async fn record_sent(&self, call: &SentCall) -> Result<(), HostError> {
        let (answer, answered) = oneshot::channel();
        let order = Order::Record(call.clone(), answer);
        self.writer.try_send(order).map_err(|_| self.backlog())?;
        self.bounded(async { answered.await.unwrap_or_else(|_| Err(self.backlog())) }).await
    }

    fn erase_sent(&self, call: &SentCall) {
        let _ = self.writer.try_send(Order::Erase(call.clone()));
    }

    async fn read_sent(&self) -> Result<Vec<SentCall>, HostError> {
        let dir = self.sent.clone();
        let work = tokio::task::spawn_blocking(move || sent::read_all(&dir));
        self.bounded(async {
            work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
        })
        .await
    }

    async fn recall(&self, volume: &VolumeId) -> Result<Remembered, HostError> {
        let volume = volume.clone();
        self.in_memory(move |state_dir| memory::recall(state_dir, &volume)).await
    }

    async fn remember(&self, volume: &VolumeId, event: &Event) -> Result<(), HostError> {
        let (volume, event) = (volume.clone(), event.clone());
        self.in_memory(move |state_dir| memory::remember(state_dir, &volume, &event)).await
    }

    async fn forget(&self, volume: &VolumeId) -> Result<bool, HostError> {
        let volume = volume.clone();
        self.in_memory(move |state_dir| memory::forget(state_dir, &volume)).await
    }

    async fn resume_checks(&self) -> Result<(), HostError> {
        self.in_memory(|state_dir| memory::resume(state_dir, sent::read_boot()?)).await
    }

    fn now_seconds(&self) -> u64 {
        // Before 1970 a clock is wrong, and no interval is due.
        UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
    }

    async fn read_boot(&self) -> Result<String, HostError> {
        sent::read_boot().map(str::to_owned)
    }
}
