//! What the stand-in was asked and what it ran.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;

use super::Method;

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    pub volume: String,
    /// All request headers, `grpc-timeout` among them.
    pub headers: HeaderMap,
    /// The very bytes of the request message.
    pub message: Bytes,
    pub at: Instant,
}

impl Call {
    /// The deadline the caller sent, as text (`120000m`).
    pub fn timeout(&self) -> Option<&str> {
        self.headers.get("grpc-timeout")?.to_str().ok()
    }
}

/// A child process, or a step of the LUKS model.
#[derive(Debug, Clone)]
pub struct Run {
    pub volume: String,
    pub tool: String,
    pub args: Vec<String>,
    /// `None` while it runs, or when it was killed or is not installed.
    pub exit: Option<i32>,
    pub output: String,
    pub began: Instant,
    pub took: Option<Duration>,
}

/// The record, over all lives of the plugin.
#[derive(Debug, Default)]
pub struct Counts {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    calls: Vec<Call>,
    runs: Vec<Run>,
    failed_write_tests: usize,
    chats_open: usize,
    answered_at: Option<Instant>,
    at_work: HashMap<String, usize>,
    most_at_work: HashMap<String, usize>,
}

impl Counts {
    pub fn calls(&self, method: Method) -> Vec<Call> {
        let book = self.book.lock().expect("counts");
        book.calls.iter().filter(|call| call.method == method).cloned().collect()
    }

    pub fn asked(&self, method: Method) -> usize {
        self.calls(method).len()
    }

    /// Runs of `tool`, or of its kind: `mkfs` stands for `mkfs.ext4` and `mkfs.xfs` too.
    pub fn runs(&self, tool: &str) -> Vec<Run> {
        let is_kind = |run: &&Run| run.tool == tool || run.tool.starts_with(&format!("{tool}."));
        self.book.lock().expect("counts").runs.iter().filter(is_kind).cloned().collect()
    }

    pub fn ran(&self, tool: &str) -> usize {
        self.runs(tool).len()
    }

    pub fn all_runs(&self) -> Vec<Run> {
        self.book.lock().expect("counts").runs.clone()
    }

    /// How often a mount point was taken for corrupt because no file could be written into it.
    pub fn failed_write_tests(&self) -> usize {
        self.book.lock().expect("counts").failed_write_tests
    }

    /// When the last call was answered.
    pub fn answered_at(&self) -> Option<Instant> {
        self.book.lock().expect("counts").answered_at
    }

    /// Conversations with `/test.Echo/Chat` that have not ended.
    pub fn chats_open(&self) -> usize {
        self.book.lock().expect("counts").chats_open
    }

    /// The most calls that worked on `volume` at one time.
    pub fn most_at_work(&self, volume: &str) -> usize {
        self.book.lock().expect("counts").most_at_work.get(volume).copied().unwrap_or(0)
    }

    pub fn clear(&self) {
        let mut book = self.book.lock().expect("counts");
        let at_work = std::mem::take(&mut book.at_work);
        *book = Book { at_work, ..Book::default() };
    }

    pub(super) fn note_call(&self, call: Call) {
        self.book.lock().expect("counts").calls.push(call);
    }

    pub(super) fn note_answer(&self) {
        self.book.lock().expect("counts").answered_at = Some(Instant::now());
    }

    pub(super) fn chat_began(&self) {
        self.book.lock().expect("counts").chats_open += 1;
    }

    pub(super) fn chat_ended(&self) {
        self.book.lock().expect("counts").chats_open -= 1;
    }

    pub(super) fn note_failed_write_test(&self) {
        self.book.lock().expect("counts").failed_write_tests += 1;
    }

    /// Notes the start of a run; its end is told to [`Counts::end_run`] with what this returns.
    pub(super) fn begin_run(&self, volume: &str, tool: &str, args: &[String]) -> Instant {
        let began = Instant::now();
        let (volume, tool, args) = (volume.to_owned(), tool.to_owned(), args.to_vec());
        let output = String::new();
        let run = Run { volume, tool, args, exit: None, output, began, took: None };
        self.book.lock().expect("counts").runs.push(run);
        began
    }

    pub(super) fn end_run(&self, began: Instant, args: &[String], exit: Option<i32>, output: &str) {
        let mut book = self.book.lock().expect("counts");
        let same = |run: &&mut Run| run.began == began && run.args == args && run.took.is_none();
        if let Some(run) = book.runs.iter_mut().find(same) {
            run.took = Some(began.elapsed());
            run.exit = exit;
            output.clone_into(&mut run.output);
        }
    }

    /// Counts a call as at work on `volume` until the guard is dropped.
    pub(super) fn enter(&self, volume: &str) -> AtWork<'_> {
        let mut book = self.book.lock().expect("counts");
        let now = book.at_work.entry(volume.to_owned()).or_default();
        *now += 1;
        let now = *now;
        let most = book.most_at_work.entry(volume.to_owned()).or_default();
        *most = now.max(*most);
        AtWork { counts: self, volume: volume.to_owned(), others: now - 1 }
    }
}

/// A call at work.
#[derive(Debug)]
pub(super) struct AtWork<'a> {
    counts: &'a Counts,
    volume: String,
    /// Calls that were at work on the volume when this one came.
    pub others: usize,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if let Ok(mut book) = self.counts.book.lock()
            && let Some(now) = book.at_work.get_mut(&self.volume)
        {
            *now = now.saturating_sub(1);
        }
    }
}

/// One line per method and per run.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for method in Method::ALL {
            writeln!(f, "asked {} {}", method.path(), self.asked(method))?;
        }
        for run in self.all_runs() {
            let exit = run.exit.map_or_else(|| "none".to_owned(), |exit| exit.to_string());
            writeln!(f, "ran {} {} exit {exit}", run.tool, run.args.join(" "))?;
        }
        Ok(())
    }
}
