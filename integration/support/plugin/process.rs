//! One life of the plugin: a thread, a runtime, everything that dies with them.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{Notify, oneshot};

use super::host::Host;
use super::{Counts, Habits, Manager, Script, serve};

/// What outlives a life of the plugin.
#[derive(Debug, Default)]
pub struct Shared {
    pub manager: Manager,
    pub script: Script,
    pub counts: Counts,
    pub habits: Mutex<Habits>,
    pub host: Host,
}

/// What the handlers of one life share.
#[derive(Debug)]
pub struct Life {
    pub shared: Arc<Shared>,
    /// Told when a handler panics: in Go that ends the process.
    pub crash: Notify,
}

impl Life {
    pub fn habits(&self) -> Habits {
        self.shared.habits.lock().expect("habits").clone()
    }
}

/// How long a thread that is stuck in the kernel may hold up the end of a life.
const PATIENCE: Duration = Duration::from_secs(2);

/// A life under way; dropping it ends it as SIGKILL would.
#[derive(Debug)]
pub struct Process {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Process {
    /// Returns once the socket is bound.
    pub fn start(shared: &Arc<Shared>, socket: &Path) -> Self {
        let (process, bound) = Self::spawn(shared, socket, Duration::ZERO);
        bound.recv().expect("the plugin binds its socket");
        process
    }

    pub fn start_after(shared: &Arc<Shared>, socket: &Path, delay: Duration) -> Self {
        Self::spawn(shared, socket, delay).0
    }

    fn spawn(shared: &Arc<Shared>, socket: &Path, delay: Duration) -> (Self, mpsc::Receiver<()>) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell_bound, bound) = mpsc::channel();
        let life = Arc::new(Life { shared: Arc::clone(shared), crash: Notify::new() });
        let socket = socket.to_owned();
        let live = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("the plugin's runtime");
            runtime.block_on(async {
                let serving = async {
                    tokio::time::sleep(delay).await;
                    // As longhorn-csi-plugin does: whatever has the name has to go.
                    let _ = std::fs::remove_file(&socket);
                    let listener = UnixListener::bind(&socket).expect("the plugin's socket");
                    let _ = tell_bound.send(());
                    serve::serve(listener, &life).await;
                };
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                    () = life.crash.notified() => {}
                }
            });
            // Drops every task: connections are cut, and `tools.rs` kills the children.
            runtime.shutdown_timeout(PATIENCE);
        };
        let thread = thread::Builder::new().name("plugin".to_owned()).spawn(live);
        (Self { stop: Some(stop), thread: Some(thread.expect("the plugin's thread")) }, bound)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
