//! The real plugin's habits, each with a name and a switch.

use std::path::PathBuf;

/// How the stand-in behaves; the default is how the real plugin behaves.
#[derive(Debug, Clone)]
pub struct Habits {
    /// `blkid` found nothing: make a filesystem. Off: refuse with INTERNAL.
    pub formats_what_blkid_calls_blank: bool,
    /// fsck's 8, 12, 16, … are swallowed and the mount is tried. Off: INTERNAL.
    pub ignores_fsck_exit_above_4: bool,
    /// A mount point is healthy only if a file can be created in it; else it is unmounted.
    pub write_test_in_ensure_mount_point: bool,
    /// Whatever is mounted at the staging path is taken for the volume. Off: ALREADY_EXISTS if its
    /// device number differs.
    pub trusts_any_mount_at_staging: bool,
    /// Publish unstages and stages by itself where the staging path is no mount any more.
    pub restages_in_publish: bool,
    /// Calls for one volume run side by side. Off: ABORTED for the second.
    pub no_in_flight_guard: bool,
    /// The staging path of a volume that is not attached is unmounted before the refusal.
    pub unmounts_when_not_attached: bool,
    /// A failed resize leaves the mount behind. Off: it is unmounted.
    pub leaves_mount_when_resize_fails: bool,
    /// Stage and Publish answer OK and do nothing. Not a habit of the real one.
    pub says_ok_without_mounting: bool,
    /// Stage mounts this device in place of the volume's. Not a habit of the real one.
    pub stages_another_device: Option<PathBuf>,
    /// Stage mounts read-only, whatever is asked for. Not a habit of the real one.
    pub stages_read_only: bool,
    /// Tools that are not installed.
    pub missing_tools: Vec<String>,
    /// Programs that stand in for tools of the same name: slow ones, broken ones.
    pub tools_from: Option<PathBuf>,
    /// The largest request, in bytes: grpc-go's default is 4 MiB.
    pub receives_at_most_bytes: usize,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            formats_what_blkid_calls_blank: true,
            ignores_fsck_exit_above_4: true,
            write_test_in_ensure_mount_point: true,
            trusts_any_mount_at_staging: true,
            restages_in_publish: true,
            no_in_flight_guard: true,
            unmounts_when_not_attached: true,
            leaves_mount_when_resize_fails: true,
            says_ok_without_mounting: false,
            stages_another_device: None,
            stages_read_only: false,
            missing_tools: Vec::new(),
            tools_from: None,
            receives_at_most_bytes: 4 << 20,
        }
    }
}
