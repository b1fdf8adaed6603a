//! One call at a time for each volume.
//!
//! A call in progress is a *flight*. An equal call joins it, another one is refused beside it,
//! and a result that nobody stayed to hear is kept for the next equal call.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::activity::{Activity, Doing};
use super::answer::{Answer, Own};
use crate::facts::call::Method;
use crate::volume::VolumeId;

/// How long a result that nobody received is kept.
///
/// Kubelet's retries are at most 122 s apart (exponential back-off, `facts/csi.md` 1.2), so five
/// minutes see two of them. At half, one late retry runs the whole call again; at double, a
/// result may be handed out that has long been overtaken.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// Names the decoded content of a call, secrets included, without holding any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentDigest(pub [u8; 32]);

/// A call that is with the plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    pub volume: VolumeId,
    pub method: Method,
    pub age: Duration,
    pub doing: Doing,
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} since {} s", self.method, self.volume, self.age.as_secs())
    }
}

/// What a call finds when it arrives.
pub(super) enum Boarding<R: Clone> {
    /// Nothing of this volume is under way: fly.
    Starts(Seat<R>),
    /// An equal call is under way: wait with it.
    Joins(Landing<R>),
    /// Another call is under way.
    Busy(Other),
    /// An equal call has ended, and nobody heard how.
    Kept(R),
}

/// A call that is under way, to one that is not equal to it.
pub(super) struct Other {
    pub running: Method,
    pub age: Duration,
    pub activity: Activity,
    ended: Ended,
}

/// Tells when a flight has ended, whatever it came to.
type Ended = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl Other {
    /// Returns once the other call has ended.
    pub(super) async fn ended(self) {
        self.ended.await;
    }
}

/// The flights of this node, by volume.
pub(super) struct Flights<R> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    slots: Mutex<HashMap<VolumeId, Slot<R>>>,
    /// How many flights there are.
    count: watch::Sender<usize>,
}

enum Slot<R> {
    Flying {
        id: Id,
        activity: Activity,
        landing: watch::Receiver<Option<Answer<R>>>,
    },
    /// Ended with the plugin's answer, which no caller has taken yet.
    Unheard {
        id: Id,
        reply: R,
        until: Instant,
    },
}

/// Identifies a flight and the calls that are equal to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Id {
    method: Method,
    digest: ContentDigest,
    started: Instant,
}

impl Id {
    fn serves(&self, method: Method, digest: ContentDigest) -> bool {
        self.method == method && self.digest == digest
    }
}

impl<R> Default for Flights<R> {
    fn default() -> Self {
        let (slots, count) = (Mutex::default(), watch::Sender::new(0));
        Self { shared: Arc::new(Shared { slots, count }) }
    }
}

impl<R: Clone + Send + Sync + 'static> Flights<R> {
    /// Finds out what a call of `volume` has to do, and takes the volume's one place if it is free.
    pub(super) fn board(
        &self,
        volume: &VolumeId,
        method: Method,
        digest: ContentDigest,
    ) -> Boarding<R> {
        let now = Instant::now();
        let mut slots = self.shared.slots();
        slots.retain(|_, slot| !matches!(slot, Slot::Unheard { until, .. } if *until <= now));
        match slots.get(volume) {
            Some(Slot::Flying { id, activity, landing }) if id.serves(method, digest) => {
                let activity = activity.clone();
                return Boarding::Joins(self.landing(volume, *id, activity, landing.clone()));
            }
            Some(Slot::Flying { id, activity, landing }) => {
                let mut landing = landing.clone();
                let ended = Box::pin(async move {
                    // An answer, or a sender that is gone: both are the end.
                    let _ = landing.wait_for(Option::is_some).await.map(drop);
                });
                let (running, age) = (id.method, now - id.started);
                return Boarding::Busy(Other { running, age, activity: activity.clone(), ended });
            }
            Some(Slot::Unheard { id, reply, .. }) if id.serves(method, digest) => {
                let reply = reply.clone();
                slots.remove(volume);
                return Boarding::Kept(reply);
            }
            // A result that another call overtakes is worth nothing any more.
            Some(Slot::Unheard { .. }) | None => {}
        }
        let id = Id { method, digest, started: now };
        let (sender, receiver) = watch::channel(None);
        let activity = Activity::new(Doing::Plugin);
        let landing = receiver.clone();
        slots.insert(volume.clone(), Slot::Flying { id, activity: activity.clone(), landing });
        self.shared.count.send_modify(|count| *count += 1);
        let landing = self.landing(volume, id, activity, receiver);
        Boarding::Starts(Seat { landing, sender, answer: None })
    }

    pub(super) fn list(&self) -> Vec<InFlight> {
        let flying = |(volume, slot): (&VolumeId, &Slot<R>)| match slot {
            Slot::Flying { id, activity, .. } => {
                let (method, age, doing) = (id.method, id.started.elapsed(), activity.doing());
                Some(InFlight { volume: volume.clone(), method, age, doing })
            }
            Slot::Unheard { .. } => None,
        };
        self.shared.slots().iter().filter_map(flying).collect()
    }

    pub(super) async fn none_left(&self) {
        // The sender lives as long as `self`, so waiting cannot end in an error.
        let _ = self.shared.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn landing(
        &self,
        volume: &VolumeId,
        id: Id,
        activity: Activity,
        receiver: watch::Receiver<Option<Answer<R>>>,
    ) -> Landing<R> {
        let shared = Arc::clone(&self.shared);
        Landing { shared, volume: volume.clone(), id, activity, receiver }
    }
}

impl<R> Shared<R> {
    fn slots(&self) -> MutexGuard<'_, HashMap<VolumeId, Slot<R>>> {
        self.slots.lock().expect("nothing panics under this lock")
    }
}

/// Where the answer of a flight arrives.
pub(super) struct Landing<R> {
    shared: Arc<Shared<R>>,
    volume: VolumeId,
    id: Id,
    activity: Activity,
    receiver: watch::Receiver<Option<Answer<R>>>,
}

impl<R: Clone> Landing<R> {
    /// Waits for the answer and takes it: from then on it has been heard.
    pub(super) async fn answer(&mut self) -> Answer<R> {
        let landed = self.receiver.wait_for(Option::is_some).await.ok();
        let answer = landed.and_then(|answer| answer.clone());
        let mut slots = self.shared.slots();
        if matches!(slots.get(&self.volume), Some(Slot::Unheard { id, .. }) if *id == self.id) {
            slots.remove(&self.volume);
        }
        // A seat always lands, see its `Drop`.
        answer.expect("a flight that ended has an answer")
    }

    pub(super) fn age(&self) -> Duration {
        self.id.started.elapsed()
    }

    pub(super) fn doing(&self) -> Doing {
        self.activity.doing()
    }
}

/// The right to fly. Dropped without an answer, by a panic, it lands as [`Own::Broken`].
pub(super) struct Seat<R: Clone> {
    landing: Landing<R>,
    sender: watch::Sender<Option<Answer<R>>>,
    answer: Option<Answer<R>>,
}

impl<R: Clone> Seat<R> {
    pub(super) fn landing(&self) -> Landing<R> {
        Landing {
            shared: Arc::clone(&self.landing.shared),
            volume: self.landing.volume.clone(),
            id: self.landing.id,
            activity: self.activity(),
            receiver: self.landing.receiver.clone(),
        }
    }

    pub(super) fn activity(&self) -> Activity {
        self.landing.activity.clone()
    }

    pub(super) fn land(mut self, answer: Answer<R>) {
        self.answer = Some(answer);
    }
}

impl<R: Clone> Drop for Seat<R> {
    fn drop(&mut self) {
        let Landing { shared, volume, id, .. } = &self.landing;
        let answer = self.answer.take().unwrap_or_else(|| {
            Answer::Own(Own::Broken { volume: volume.clone(), method: id.method })
        });
        {
            let mut slots = shared.slots();
            match &answer {
                Answer::Plugin(reply) => {
                    let (reply, until) = (reply.clone(), Instant::now() + KEPT_FOR);
                    slots.insert(volume.clone(), Slot::Unheard { id: *id, reply, until });
                }
                // The guard's own words are worth nothing a moment later.
                Answer::Own(_) => {
                    slots.remove(volume);
                }
            }
        }
        self.sender.send_replace(Some(answer));
        shared.count.send_modify(|count| *count -= 1);
    }
}
