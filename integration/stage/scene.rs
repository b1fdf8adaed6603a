//! A node with one volume, and the guard between kubelet and its plugin.

use std::path::Path;
use std::time::{Duration, Instant};

use tonic::{Code, Status};

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::kubelet::{Claimed, Kubelet};
use crate::support::plugin::{Act, Method, Volume};
use crate::support::run;
use crate::support::scene::{Scene, make_node};

/// How long a blank device is watched in these tests.
pub const SETTLE: &str = "300ms";

/// Dropped from top to bottom.
pub struct Staged {
    pub guard: Guard,
    pub scene: Scene,
}

impl Staged {
    /// The volume on `disk`, asked for as `fs_type`; `flags` are the guard's.
    pub fn new(disk: LoopDisk, fs_type: &str, flags: &[&str]) -> Self {
        Self::in_scene(Scene::new(disk, fs_type), flags)
    }

    /// The same, with a scene that was altered before.
    pub fn in_scene(scene: Scene, flags: &[&str]) -> Self {
        let settle: &[&str] = match flags.contains(&"--format-settle") {
            true => &[],
            false => &["--format-settle", SETTLE],
        };
        let guard = Guard::on(&scene, &[settle, flags].concat());
        Self { guard, scene }.with_kubelet()
    }

    /// The same, and what the guard finds at `hidden` is `with`.
    pub fn with_hidden(disk: LoopDisk, fs_type: &str, with: &Path, hidden: &'static str) -> Self {
        let mut scene = Scene::new(disk, fs_type);
        let flags = ["--format-settle", SETTLE];
        let guard = Guard::on_with(&mut scene, &flags, with, hidden);
        Self { guard, scene }.with_kubelet()
    }

    fn with_kubelet(mut self) -> Self {
        self.scene.kubelet = self.kubelet(60);
        self
    }

    /// A kubelet of this node whose calls have so many seconds.
    pub fn kubelet(&self, seconds: u64) -> Kubelet {
        let kubelet = Kubelet::new(&self.scene.dir().join("kubelet"), &self.guard.socket());
        kubelet.with_deadline(Duration::from_secs(seconds)).with_pace(0.05)
    }

    /// Brings a second volume to the node.
    pub fn add(&self, id: &str, disk: &LoopDisk, fs_type: &str) -> Claimed {
        self.scene.plugin.manager().add(id, Volume::on(disk.device()));
        make_node(disk.device(), &self.scene.devices().join(id));
        Claimed::new(id, fs_type)
    }

    /// The next Stage is to be as the StorageClass's `mount-guard/fsck: mode` makes it.
    pub fn set_fsck(&mut self, mode: &str) {
        let context = &mut self.scene.volume.volume_context;
        context.insert("mount-guard/fsck".to_owned(), mode.to_owned());
    }

    /// Stages, which the guard must let pass; the plugin is kept from doing anything to the device.
    #[track_caller]
    pub fn is_forwarded_untouched(&self) {
        let (before, asked) = (self.scene.disk.hash(), self.asked(Method::Stage));
        let away = Act::fail(Status::unavailable("as the test wants it"));
        self.scene.plugin.script().once(Method::Stage, None, away);
        let status = self.stage().expect_err("the plugin fails");
        assert_eq!(status.message(), "as the test wants it", "{}", self.guard.log());
        assert_eq!(self.asked(Method::Stage), asked + 1);
        assert_eq!(self.scene.disk.hash(), before, "{}", self.guard.log());
    }

    /// How often the guard ran a checker.
    pub fn checks(&self) -> usize {
        self.guard.log().matches("\"check step\"").count()
    }

    /// Has one of the guard's own commands done for this node, which must end with `exit`.
    #[track_caller]
    pub fn by_hand(&self, words: &[&str], exit: i32) -> String {
        let (code, text) = self.command(words);
        assert_eq!(code, Some(exit), "{words:?}: {text}");
        text
    }

    fn command(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mount-guard"));
        command.args(words).arg("--state-dir").arg(self.guard.state_dir());
        if matches!(words[0], "check" | "undo") {
            let devices = self.scene.devices().join("{volume_id}");
            command.args(["--host-proc", "/proc", "--device-path"]).arg(devices);
        }
        let output = command.output().expect("the guard's program");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("text"))
    }

    pub fn stage(&self) -> Result<(), Status> {
        run(self.scene.kubelet.mount_device(&self.scene.volume))
    }

    /// How often the plugin was asked for this.
    pub fn asked(&self, method: Method) -> usize {
        self.scene.plugin.counts().asked(method)
    }

    /// Stages, which must work, and the volume must be mounted then.
    #[track_caller]
    pub fn stages(&self) -> Duration {
        let begun = Instant::now();
        let staged = self.stage();
        assert!(staged.is_ok(), "{staged:?}\n{}", self.guard.log());
        assert_eq!(self.scene.staged().len(), 1, "{}", self.guard.log());
        begun.elapsed()
    }

    /// Stages, which the guard must refuse with all these words, before the plugin sees it and
    /// with every byte of the device as it was.
    #[track_caller]
    pub fn is_refused(&self, words: &[&str]) -> String {
        self.is_answered(Code::Aborted, words)
    }

    /// The same, because the device does not answer.
    #[track_caller]
    pub fn must_wait(&self, words: &[&str]) -> String {
        self.is_answered(Code::Unavailable, words)
    }

    #[track_caller]
    fn is_answered(&self, code: Code, words: &[&str]) -> String {
        let before = self.asked(Method::Stage);
        let status = self.stage().expect_err("the guard refuses");
        let text = status.message();
        assert_eq!(status.code(), code, "{text}\n{}", self.guard.log());
        assert!(
            text.starts_with("mount-guard: ") && text.len() <= 900 && text.is_ascii(),
            "{text}"
        );
        for word in words {
            assert!(text.contains(word), "{word:?} is not in: {text}");
        }
        assert_eq!(self.asked(Method::Stage), before, "the plugin saw it: {text}");
        assert!(self.scene.staged().is_empty(), "{text}");
        text.to_owned()
    }

    /// The same, and the device is bit for bit what it was.
    #[track_caller]
    pub fn is_refused_untouched(&self, words: &[&str]) -> String {
        let before = self.scene.disk.hash();
        let text = self.is_refused(words);
        assert_eq!(self.scene.disk.hash(), before, "{text}");
        text
    }

    pub fn unstages(&self) {
        let gone = run(self.scene.kubelet.unmount_device(&self.scene.volume));
        assert!(gone.is_ok(), "{gone:?}");
    }

    /// The content of a file of the staged volume.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.scene.staging().join(name)).ok()
    }
}
