//! What the guard remembers of a volume, and how it is written down.
//!
//! A record is `{"version":1,"crc32c":…,"record":{…}}`. One that cannot be read still says
//! something: the volume was known here, so it is not new.

use serde::{Deserialize, Serialize};

use super::superblock::Uuid;

/// Raised when the fields of [`Record`] change their meaning or number.
const VERSION: u32 = 1;

/// What a record says whose details are lost.
const LOST: &str = "a filesystem (its record is damaged)";

/// Everything that is remembered of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub held: Option<Held>,
    /// A blank device was handed on to be formatted, and nothing was seen on it since. In seconds
    /// since the epoch.
    pub format_forwarded_seconds: Option<u64>,
    /// The operator gave up what is on it, and nothing was seen on it since.
    pub format_allowed: bool,
    /// In seconds since the epoch.
    pub last_check_seconds: Option<u64>,
    pub marks: Marks,
    pub kills: Kills,
    /// A check that is under way, or was when the guard died.
    pub running: Option<Running>,
}

/// What was seen on a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// As mount(8) names the type, or `LUKS`.
    pub name: String,
    #[serde(with = "uuid_text")]
    pub uuid: Option<Uuid>,
}

/// Why the next check must look at everything, whatever the superblock says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marks {
    /// Its filesystem died under a mount.
    pub incident: bool,
    /// A check or repair was cut off while it wrote to the device.
    pub interrupted: bool,
    /// The operator asked for it.
    pub recheck: bool,
}

/// How often in a row a checker was killed, or died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kills {
    pub check: u32,
    pub repair: u32,
}

/// A check that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// The node's boot id: what a reboot ends says nothing about the checker.
    pub boot: String,
    pub stage: Stage,
}

/// What a checker was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Check,
    Repair,
}

/// What happened to a volume and has to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A filesystem, or a LUKS header, was seen on it.
    Seen(Held),
    FormatForwarded {
        at_seconds: u64,
    },
    CheckBegan(Running),
    /// The check came to an end of its own, and what it found is on the device.
    Checked {
        at_seconds: u64,
    },
    /// The check ended without an answer, and nothing was killed.
    CheckLeft,
    CheckerKilled(Stage),
    Incident,
    Interrupted,
    Recheck,
    /// Nothing on it is needed any more, says the operator.
    Forgotten,
}

/// What is known of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    Nothing,
    Record(Record),
    /// There is a record and it cannot be read: the volume held data, details lost.
    Unreadable(Unreadable),
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// It is no file, or the disk does not give it back.
    NotRead,
    Malformed,
    Checksum,
    /// Another version of the guard wrote it.
    Version(u32),
}

impl Marks {
    #[must_use]
    pub fn any(self) -> bool {
        self.incident || self.interrupted || self.recheck
    }
}

impl Record {
    /// The record once `event` has happened.
    #[must_use]
    pub fn after(mut self, event: &Event) -> Self {
        match event {
            Event::Seen(held) => {
                self.held = Some(held.clone());
                self.format_forwarded_seconds = None;
                self.format_allowed = false;
            }
            Event::FormatForwarded { at_seconds } => {
                // Nothing is known of what mkfs is about to make.
                self = Self { format_forwarded_seconds: Some(*at_seconds), ..Self::default() };
            }
            Event::CheckBegan(running) => self.running = Some(running.clone()),
            Event::Checked { at_seconds } => {
                self.last_check_seconds = Some(*at_seconds);
                self.marks = Marks::default();
                self.kills = Kills::default();
                self.running = None;
            }
            Event::CheckLeft => self.running = None,
            Event::CheckerKilled(stage) => self.count_kill(*stage),
            Event::Incident => self.marks.incident = true,
            Event::Interrupted => self.marks.interrupted = true,
            Event::Recheck => self.marks.recheck = true,
            Event::Forgotten => self = Self { format_allowed: true, ..Self::default() },
        }
        self
    }

    /// The record as the next run of the guard has to read it: a check that was under way in this
    /// boot of the node was killed with the guard, or killed it.
    #[must_use]
    pub fn resumed(mut self, boot: &str) -> Self {
        match self.running.take() {
            Some(running) if running.boot == boot => self.count_kill(running.stage),
            Some(_) | None => {}
        }
        self
    }

    /// As it is written to a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let envelope = Envelope { version: VERSION, crc32c: self.sum(), record: self.clone() };
        serde_json::to_vec(&envelope).expect("texts, numbers and flags always serialize")
    }

    fn sum(&self) -> u32 {
        let text = serde_json::to_vec(self).expect("texts, numbers and flags always serialize");
        crc32c::crc32c(&text)
    }

    fn count_kill(&mut self, stage: Stage) {
        self.running = None;
        let kills = match stage {
            Stage::Check => &mut self.kills.check,
            Stage::Repair => &mut self.kills.repair,
        };
        *kills = kills.saturating_add(1);
    }
}

impl Remembered {
    /// Reads what [`Record::to_bytes`] wrote.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let Ok(Header { version }) = serde_json::from_slice(bytes) else {
            return Self::Unreadable(Unreadable::Malformed);
        };
        if version != VERSION {
            return Self::Unreadable(Unreadable::Version(version));
        }
        match serde_json::from_slice::<Envelope>(bytes) {
            Err(_) => Self::Unreadable(Unreadable::Malformed),
            Ok(envelope) if envelope.crc32c != envelope.record.sum() => {
                Self::Unreadable(Unreadable::Checksum)
            }
            Ok(envelope) => Self::Record(envelope.record),
        }
    }

    /// A record to go on with. What could not be read stays known to have held data.
    #[must_use]
    pub fn into_record(self) -> Record {
        match self {
            Self::Nothing => Record::default(),
            Self::Record(record) => record,
            Self::Unreadable(_) => Record { held: Some(Held::lost()), ..Record::default() },
        }
    }
}

impl Held {
    /// Something, and nobody knows what.
    #[must_use]
    pub fn lost() -> Self {
        Self { name: LOST.to_owned(), uuid: None }
    }
}

#[derive(Deserialize)]
struct Header {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    version: u32,
    crc32c: u32,
    record: Record,
}

mod uuid_text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Uuid;

    pub(super) fn serialize<S: Serializer>(
        uuid: &Option<Uuid>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        uuid.map(|uuid| uuid.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Uuid>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parse = |text: String| Uuid::parse(&text).ok_or_else(|| D::Error::custom("not a UUID"));
        text.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let uuid = Uuid::parse("263d07d0-4509-4566-aebc-cfa0523460e0");
        Record::default()
            .after(&Event::FormatForwarded { at_seconds: 7 })
            .after(&Event::Seen(Held { name: "ext4".to_owned(), uuid }))
            .after(&Event::Recheck)
            .after(&Event::CheckerKilled(Stage::Check))
    }

    #[test]
    fn a_record_reads_as_it_was_written() {
        let record = sample();
        assert_eq!(Remembered::parse(&record.to_bytes()), Remembered::Record(record));
    }

    #[test]
    fn a_record_cut_anywhere_is_known_to_have_held_data() {
        let bytes = sample().to_bytes();
        for len in 0..bytes.len() {
            let cut = Remembered::parse(&bytes[..len]);
            assert_eq!(cut, Remembered::Unreadable(Unreadable::Malformed), "{len} bytes");
            assert_eq!(cut.into_record().held, Some(Held::lost()));
        }
    }

    #[test]
    fn no_changed_byte_passes_for_the_record() {
        let bytes = sample().to_bytes();
        for at in 0..bytes.len() {
            for byte in [0, b' ', b'0', b'9', b'a', b'"', bytes[at] ^ 1] {
                let mut changed = bytes.clone();
                changed[at] = byte;
                let read = Remembered::parse(&changed);
                let same = byte == bytes[at];
                assert!(same || matches!(read, Remembered::Unreadable(_)), "byte {at}: {read:?}");
            }
        }
    }

    #[test]
    fn a_foreign_version_is_named() {
        for (text, wrong) in [
            (r#"{"version":2,"anything":[]}"#, Unreadable::Version(2)),
            (r#"{"version":1}"#, Unreadable::Malformed),
            (r#"{"version":"1"}"#, Unreadable::Malformed),
            ("null", Unreadable::Malformed),
        ] {
            assert_eq!(Remembered::parse(text.as_bytes()), Remembered::Unreadable(wrong), "{text}");
        }
    }

    #[test]
    fn a_check_clears_marks_and_kills() {
        let record = sample().after(&Event::Incident).after(&Event::Checked { at_seconds: 9 });
        assert_eq!((record.marks, record.kills), (Marks::default(), Kills::default()));
        assert_eq!(record.last_check_seconds, Some(9));
        assert_eq!(record.held, sample().held);
    }

    #[test]
    fn a_check_that_died_with_the_guard_counts_as_killed_unless_the_node_went_down() {
        let running = Running { boot: "a".to_owned(), stage: Stage::Repair };
        let record = Record::default().after(&Event::CheckBegan(running));
        assert_eq!(record.clone().resumed("a").kills, Kills { check: 0, repair: 1 });
        assert_eq!(record.resumed("b"), Record::default());
    }
}
