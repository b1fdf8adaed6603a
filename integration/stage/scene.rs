//! A node with one volume, and the guard between kubelet and its plugin.

use std::time::{Duration, Instant};

use tonic::{Code, Status};

use crate::support::disk::LoopDisk;
use crate::support::guard::Guard;
use crate::support::kubelet::Kubelet;
use crate::support::plugin::Method;
use crate::support::run;
use crate::support::scene::Scene;

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
        let mut scene = Scene::new(disk, fs_type);
        let guard = Guard::on(&scene, &[&["--format-settle", SETTLE], flags].concat());
        let kubelet = Kubelet::new(&scene.dir().join("kubelet"), &guard.socket());
        scene.kubelet = kubelet.with_deadline(Duration::from_secs(60)).with_pace(0.05);
        Self { guard, scene }
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
