//! The commands of an operator: look, repair, and take a repair back.

use serde_json::Value;

use super::scene::Staged;
use super::sound::{debugfs, zero_group_descriptors};
use crate::support::disk::{Loop, LoopDisk, path_str};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        loop_check_says_what_it_sees_and_how_it_ends,
        loop_check_of_an_image_is_the_same,
        loop_case_4_a_file_under_another_loop_device_is_refused_untouched,
        loop_check_names_who_holds_a_device,
        loop_undo_puts_back_every_byte_of_a_repair,
        loop_undo_is_refused_once_the_filesystem_was_used,
    ]
}

fn damaged() -> Staged {
    let disk = LoopDisk::with_filesystem("ext4", &[("a", b"1"), ("b", b"2")]);
    debugfs(&disk, "ssv state 0");
    zero_group_descriptors(&disk);
    Staged::new(disk, "ext4", &[])
}

fn clean() -> Staged {
    Staged::new(LoopDisk::with_filesystem("ext4", &[]), "ext4", &[])
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn loop_check_says_what_it_sees_and_how_it_ends() {
    let staged = clean();
    let node = staged.scene.node();
    let node = path_str(&node);
    let text = staged.by_hand(&["check", node], 0);
    for words in [node, "held by   nobody", "content   ext4", "verdict   may be mounted"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let seen = json(&staged.by_hand(&["check", node, "--format", "json"], 0));
    assert_eq!(seen["verdict"]["kind"], "go", "{seen}");
    assert_eq!(seen["number"], staged.scene.disk.attachment().number());
    assert_eq!(seen["checks"][0]["exit"], 0, "{seen}");
    let absent = staged.scene.devices().join("absent");
    let text = staged.by_hand(&["check", path_str(&absent)], 3);
    assert!(text.contains("there is no device to look at"), "{text}");
    for wrong in [&["check"][..], &["check", node, "--fsck", "yes"], &["check", node, "--huh"]] {
        staged.by_hand(wrong, 2);
    }

    let staged = damaged();
    let node = staged.scene.node();
    let before = staged.scene.disk.hash();
    let text = staged.by_hand(&["check", path_str(&node)], 1);
    assert!(text.contains("must not be mounted") && text.contains("e2fsck -f -p"), "{text}");
    let seen = json(&staged.by_hand(&["check", path_str(&node), "--format", "json"], 1));
    assert_eq!(seen["verdict"]["kind"], "refuse", "{seen}");
    assert_eq!(seen["reason"]["kind"], "damaged", "{seen}");
    assert_eq!(seen["checks"][0]["applied"], false, "{seen}");
    assert_eq!(staged.scene.disk.hash(), before, "a look writes nothing");
}

fn loop_check_of_an_image_is_the_same() {
    let staged = damaged();
    let copy = staged.scene.dir().join("copy.img");
    std::fs::copy(staged.scene.disk.image(), &copy).unwrap();
    let image = path_str(&copy);
    let text = staged.by_hand(&["check", image], 1);
    assert!(text.contains("its filesystem is damaged"), "{text}");
    // The loop device under it is gone by now, and may be somebody else's.
    assert!(text.contains(&format!("check {image} --repair")) && !text.contains("/dev/loop"));
    let seen = json(&staged.by_hand(&["check", image, "--format", "json"], 1));
    assert_eq!(seen["device"]["path"], image, "{seen}");
}

/// 4: two loop devices over one file know nothing of each other, and each has a cache of its own.
fn loop_case_4_a_file_under_another_loop_device_is_refused_untouched() {
    let staged = damaged();
    let before = staged.scene.disk.hash();
    let attached = format!("losetup -d {}", path_str(staged.scene.disk.device()));
    let image = path_str(staged.scene.disk.image());
    let text = staged.by_hand(&["check", image, "--repair"], 1);
    assert!(text.contains("a loop device is over it") && text.contains(&attached), "{text}");
    let second = Loop::over(staged.scene.disk.image());
    let text = staged.by_hand(&["check", path_str(second.path()), "--repair"], 1);
    assert!(text.contains(&attached), "{text}");
    assert_eq!(staged.scene.disk.hash(), before);
}

fn loop_check_names_who_holds_a_device() {
    let staged = clean();
    staged.stages();
    let node = staged.scene.node();
    let text = staged.by_hand(&["check", path_str(&node)], 3);
    assert!(text.contains("mounted_elsewhere") && text.contains("not checked"), "{text}");
    assert!(text.contains(path_str(&staged.scene.staging())), "{text}");
}

/// The record that a repair by hand names.
fn repair(staged: &Staged) -> String {
    let node = staged.scene.node();
    let text = staged.by_hand(&["check", path_str(&node), "--repair"], 0);
    let named = text.split("`mount-guard undo ").nth(1).and_then(|rest| rest.split('`').next());
    named.unwrap_or_else(|| panic!("no record in: {text}")).to_owned()
}

fn loop_undo_puts_back_every_byte_of_a_repair() {
    let staged = damaged();
    let before = staged.scene.disk.hash();
    let record = repair(&staged);
    let repaired = staged.scene.disk.hash();
    assert_ne!(repaired, before);
    // A second look finds it clean and writes nothing: the record stays good.
    staged.by_hand(&["check", path_str(&staged.scene.node()), "--repair"], 0);
    assert_eq!(staged.scene.disk.hash(), repaired);
    let text = staged.by_hand(&["undo", &record], 0);
    assert!(text.contains("what it was before the repair"), "{text}");
    assert_eq!(staged.scene.disk.hash(), before);
    // And it is damaged again, for whoever wants to mount it.
    staged.is_refused_untouched(&["its filesystem is damaged"]);
}

fn loop_undo_is_refused_once_the_filesystem_was_used() {
    let staged = damaged();
    let record = repair(&staged);
    staged.stages();
    std::fs::write(staged.scene.staging().join("new"), "of the pod").unwrap();
    // While it is mounted nobody gets the device, and afterwards it is another one.
    staged.by_hand(&["undo", &record], 1);
    staged.unstages();
    let after = staged.scene.disk.hash();
    let text = staged.by_hand(&["undo", &record], 1);
    assert!(text.starts_with("mount-guard: cannot undo"), "{text}");
    assert_eq!(staged.scene.disk.hash(), after);
    staged.stages();
    assert_eq!(staged.read("new").unwrap(), b"of the pod");
}
