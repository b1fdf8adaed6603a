//! Who takes part: the plugin itself, twice, and whoever can be put in front of it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::client::{CallError, call_afresh};
use super::error::BenchError;
use super::messages;
use super::process::{Memory, Process};
use super::proxies::{self, Place};

/// How long a program may take until its first answer.
///
/// Ten seconds: the slowest one needs 50 ms, and a debug build on a busy machine ten times that.
const START_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    Direct,
    /// The same as [`Name::Direct`]: what differs between the two is noise.
    DirectAgain,
    Copy,
    Guard,
    Nginx,
    Haproxy,
}

pub struct Contestant {
    pub name: Name,
    pub socket: PathBuf,
    /// What stands between caller and plugin, if anything does.
    pub proxy: Option<Proxy>,
}

pub struct Proxy {
    pub process: Process,
    pub idle: Memory,
}

/// A contestant that could not be started, and why.
#[derive(Serialize)]
pub struct Absent {
    pub name: Name,
    pub why: String,
}

#[derive(Serialize)]
pub struct MemoryUse {
    pub name: Name,
    pub idle: Memory,
    pub loaded: Memory,
}

pub struct Field {
    pub contestants: Vec<Contestant>,
    pub absent: Vec<Absent>,
    pub place: Place,
    // After the proxies, which it outlives.
    plugin: Process,
}

impl Field {
    pub async fn start(guard: &Path) -> Result<Self, BenchError> {
        let place = Place::new()?;
        let (plugin, socket) = (proxies::plugin(&place)?, place.plugin_socket());
        let plugin = start("plugin", plugin, &socket, &place).await?;
        let direct = |name| Contestant { name, socket: socket.clone(), proxy: None };
        let mut contestants = vec![direct(Name::Direct), direct(Name::DirectAgain)];
        let mut absent = Vec::new();
        for (name, command) in [
            (Name::Copy, proxies::copy(&place)),
            (Name::Guard, Ok(proxies::guard(guard, &place, "guard"))),
            (Name::Nginx, proxies::nginx(&place)),
            (Name::Haproxy, proxies::haproxy(&place)),
        ] {
            match Contestant::start(name, command, &place).await {
                Ok(contestant) => contestants.push(contestant),
                Err(error) => absent.push(Absent { name, why: error.with_causes() }),
            }
        }
        Ok(Self { contestants, absent, place, plugin })
    }

    /// Memory of every proxy: when idle, and now.
    pub fn memory(&self) -> Result<Vec<MemoryUse>, BenchError> {
        let proxies = self.contestants.iter().filter_map(|c| Some((c.name, c.proxy.as_ref()?)));
        proxies
            .map(|(name, proxy)| {
                Ok(MemoryUse { name, idle: proxy.idle, loaded: proxy.process.memory()? })
            })
            .collect()
    }

    /// What plugin and proxies have used so far.
    pub fn processor_time(&self) -> Result<Duration, BenchError> {
        let plugin = self.plugin.processor_time()?;
        self.contestants.iter().try_fold(plugin, |sum, c| Ok(sum + c.processor_time()?))
    }

    pub fn has_guard(&self) -> bool {
        self.contestants.iter().any(|contestant| contestant.name == Name::Guard)
    }
}

impl Contestant {
    async fn start(
        name: Name,
        command: Result<Command, BenchError>,
        place: &Place,
    ) -> Result<Self, BenchError> {
        let socket = place.socket(name.text());
        let process = start(name.text(), command?, &socket, place).await?;
        let idle = process.memory()?;
        Ok(Self { name, socket, proxy: Some(Proxy { process, idle }) })
    }

    /// What the proxy has used so far; nothing where there is none.
    pub fn processor_time(&self) -> Result<Duration, BenchError> {
        match &self.proxy {
            Some(proxy) => proxy.process.processor_time(),
            None => Ok(Duration::ZERO),
        }
    }
}

impl Name {
    pub fn text(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::DirectAgain => "direct-again",
            Self::Copy => "copy",
            Self::Guard => "guard",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }
}

/// Starts a program and waits until a call through `socket` has been answered.
pub async fn start(
    name: &str,
    command: Command,
    socket: &Path,
    place: &Place,
) -> Result<Process, BenchError> {
    let mut process = Process::start(name, command, place.file(&format!("{name}.log")))?;
    let started = Instant::now();
    while first_answer(socket).await.is_err() {
        let program = name.to_owned();
        if let Some(status) = process.ended() {
            return Err(BenchError::Ended { program, status, log: process.last_words() });
        }
        if started.elapsed() > START_LIMIT {
            let seconds = START_LIMIT.as_secs();
            return Err(BenchError::Silent { program, seconds, log: process.last_words() });
        }
        // Leaves the processor to the program: with two of them, asking again and again at once
        // would slow down what it waits for.
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(process)
}

async fn first_answer(socket: &Path) -> Result<(), CallError> {
    let call = messages::capabilities();
    let answer = tokio::time::timeout(Duration::from_secs(1), call_afresh(socket, &call)).await;
    match answer {
        Ok(Ok(answer)) if answer == call.expected => Ok(()),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) => Err(CallError::NotReady),
        Err(_) => Err(CallError::Silent),
    }
}
