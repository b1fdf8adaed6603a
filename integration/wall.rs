//! The wall between the rooms: reads the source and fails on a wrong arrow.
//!
//! clippy's `disallowed-methods` keep effects where they belong; this test keeps the rooms apart
//! and sees to it that clippy's door is opened only where it may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![
        no_room_looks_where_it_must_not,
        only_proxy_knows_grpc_and_only_host_the_kernel,
        deciding_rooms_have_no_clock_no_log_and_no_waiting,
        the_door_to_effects_is_open_only_where_it_may_be,
        unsafe_is_only_in_host,
        a_wrong_arrow_is_seen,
    ]
}

/// A room and the rooms it may look into. `main.rs` and `lib.rs` hold the rooms together.
const ARROWS: &[(&str, &[&str])] = &[
    ("app", &["config", "guard", "host", "http", "proxy", "telemetry"]),
    ("claims", &["facts", "volume"]),
    (
        "cli",
        &["claims", "config", "facts", "format", "fsck", "guard", "host", "telemetry", "volume"],
    ),
    ("config", &["claims", "format", "fsck", "volume"]),
    ("csi", &[]),
    ("facts", &["volume"]),
    ("format", &["facts", "volume"]),
    ("fsck", &["facts", "volume"]),
    ("guard", &["claims", "facts", "format", "fsck", "host", "telemetry", "volume"]),
    ("host", &["facts", "volume"]),
    ("http", &["telemetry"]),
    ("proxy", &["csi", "facts", "guard", "host", "telemetry", "volume"]),
    ("telemetry", &["config", "facts"]),
    ("volume", &[]),
];

/// Rooms that decide, or give words to it: plain functions from facts to a verdict.
const DECIDING: &[&str] = &["claims", "facts", "format", "fsck", "kubelet", "recovery", "volume"];

/// Crates, and the only rooms that may know them.
const KNOWN_TO: &[(&str, &[&str])] = &[
    ("tonic", &["proxy"]),
    ("prost", &["csi", "proxy"]),
    ("h2", &["proxy"]),
    ("hyper", &["http"]),
    // claims/, facts/ and format/ take the names of error numbers from it, and nothing else.
    ("nix", &["claims", "facts", "format", "host", "http", "proxy"]),
    ("libc", &["host"]),
    ("rustix", &["host"]),
    ("kube", &["cluster"]),
    ("prometheus_client", &["telemetry"]),
    ("clap", &["config"]),
];

/// Where `expect(clippy::disallowed_methods)` may stand: host/, and the files with the sockets.
const DOORS: &[&str] = &["host/", "proxy/listen.rs", "proxy/pool.rs"];

struct Source {
    /// Below `src/`.
    file: String,
    room: String,
    /// The text without comments.
    code: String,
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    assert!(files.len() > 10, "the source is where it should be");
    files
        .into_iter()
        .map(|path| {
            let below = path.strip_prefix(&src).unwrap();
            let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
            Source {
                file: below.to_str().unwrap().to_owned(),
                room: first.trim_end_matches(".rs").to_owned(),
                code: without_comments(&std::fs::read_to_string(&path).unwrap()),
            }
        })
        .collect()
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// The product's part of a file: unit tests stand at its end, or in files of their own, and may
/// build what they test.
fn product(source: &Source) -> &str {
    if source.file.contains("/tests/") || source.file.ends_with("/tests.rs") {
        return "";
    }
    source.code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The rooms that `code` names, in `use` lines and in paths: `crate::room`, `crate::{room, …}`.
fn rooms_named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    let mut rooms = BTreeSet::new();
    for (_, rest) in
        code.match_indices("crate::").map(|(at, found)| code.split_at(at + found.len()))
    {
        match rest.strip_prefix('{') {
            Some(list) => {
                let mut depth = 0;
                let mut nested = |c: char| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    depth
                };
                let list = list.split(|c| nested(c) < 0).next().unwrap_or_default();
                let mut depth = 0;
                let parts = list.split(|c| {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    depth == 0 && c == ','
                });
                let parts = parts.map(str::trim).filter(|part| !part.is_empty());
                rooms.extend(parts.map(word));
            }
            None => {
                rooms.insert(word(rest));
            }
        }
    }
    rooms
}

fn no_room_looks_where_it_must_not() {
    for source in sources() {
        if matches!(source.room.as_str(), "main" | "lib") {
            continue;
        }
        let arrows = ARROWS.iter().find(|(room, _)| *room == source.room);
        let (room, allowed) =
            arrows.unwrap_or_else(|| panic!("{}: no arrows for this room", source.file));
        for named in rooms_named(product(&source)) {
            let allowed = named == *room || allowed.contains(&named.as_str());
            assert!(allowed, "{}: {room} must not look into {named}", source.file);
        }
    }
}

fn only_proxy_knows_grpc_and_only_host_the_kernel() {
    for source in sources() {
        for (name, rooms) in KNOWN_TO {
            let named = [format!("use {name}::"), format!(" {name}::"), format!("({name}::")];
            let knows = named.iter().any(|named| product(&source).contains(named));
            let may = rooms.contains(&source.room.as_str());
            assert!(may || !knows, "{}: must not know {name}", source.file);
        }
    }
}

fn deciding_rooms_have_no_clock_no_log_and_no_waiting() {
    let effects =
        ["async ", ".await", "Instant::now", "SystemTime", "tracing::", "tokio::", "std::fs"];
    for source in sources().iter().filter(|source| DECIDING.contains(&source.room.as_str())) {
        for effect in effects {
            let found = product(source).contains(effect);
            assert!(!found, "{}: a deciding room has no {effect}", source.file);
        }
    }
}

fn the_door_to_effects_is_open_only_where_it_may_be() {
    for source in sources() {
        let open = source.code.contains("clippy::disallowed_methods");
        let may = DOORS.iter().any(|door| source.file.starts_with(door));
        assert!(may || !open, "{}: clippy's wall must stand here", source.file);
    }
}

fn unsafe_is_only_in_host() {
    for source in sources() {
        let found = source.code.contains("unsafe {") || source.code.contains("unsafe impl");
        assert!(source.room == "host" || !found, "{}: unsafe", source.file);
    }
}

fn a_wrong_arrow_is_seen() {
    let code = "use crate::{guard::Guard, host};\nlet x = crate::proxy::status::name();";
    let named: Vec<_> = rooms_named(code).into_iter().collect();
    assert_eq!(named, ["guard", "host", "proxy"]);
}
