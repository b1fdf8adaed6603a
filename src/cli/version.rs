//! Which version of a checker is here.

use std::time::Duration;

use crate::fsck::Tool;
use crate::host::tool;

/// A tool that only says its version needs milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);

/// What the tool of this name says of itself; `None` if it does not.
pub(super) fn of(name: &str) -> Option<String> {
    let checker = [Tool::E2fsck, Tool::XfsRepair, Tool::Btrfs]
        .into_iter()
        .find(|tool| tool.name() == name)?;
    let argument = if checker == Tool::Btrfs { "--version" } else { "-V" };
    let run = |program: &&str| tool::Tool::new(*program, DEADLINE).arg(argument).run(&[]).ok();
    let exit = checker.candidates().iter().find_map(run)?;
    // e2fsck says it on its standard error.
    let said = format!("{}\n{}", exit.stdout.text(), exit.stderr.text());
    parse(&said)
}

/// The first word that begins with a digit, or with a `v` and a digit: `1.47.0`, `v6.2`.
fn parse(said: &str) -> Option<String> {
    let words = said.split_ascii_whitespace().map(|word| word.trim_start_matches('v'));
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned).next()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_version_is_found_in_what_each_tool_says() {
        for (said, version) in [
            ("e2fsck 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library version 1.47.0", "1.47.0"),
            ("xfs_repair version 6.1.0\n", "6.1.0"),
            ("btrfs-progs v6.2\n", "6.2"),
        ] {
            assert_eq!(parse(said).as_deref(), Some(version), "{said}");
        }
        assert_eq!(parse("no version"), None);
    }
}
