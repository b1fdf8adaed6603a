//! Tries, one after the other, on one damaged image.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::place::{Device, Hit};
use super::victim::{Victim, run_and_kill};
use crate::trial::disks::{Damage, Lab, damage_some};
use crate::trial::redo::word;

const REPAIR: [&str; 3] = ["--", "-f", "-y"];
const BLOCK: usize = 4096;

/// How often the redo is killed before it may finish.
const MAX_KILLED_REDOS: u32 = 4;

pub struct Storm {
    lab: Lab,
    random: StdRng,
    /// The whole image before and after a repair that nobody killed.
    old: Vec<u8>,
    new: Vec<u8>,
    took: Took,
}

/// How long things take that are not killed.
#[derive(Debug, Default)]
struct Took {
    repair: Duration,
    redo: Duration,
}

/// What became of all tries.
#[derive(Debug, Default)]
struct Tally {
    hits: BTreeMap<(&'static str, Hit), u32>,
    killed_redos: u32,
    ended_new: u32,
}

impl Storm {
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let lab = Lab::with_ext4();
        damage_some(&lab.disk());
        // More to write, in more places.
        for command in ["clri /dir2", "sif /dir4 links_count 9", "kill_file /dir6/file6"] {
            Damage::Debugfs(command).inflict(&lab.disk());
        }
        let old = std::fs::read(lab.disk()).unwrap();
        let random = StdRng::seed_from_u64(seed);
        let mut storm = Self { lab, random, old, new: Vec::new(), took: Took::default() };
        storm.measure();
        storm
    }

    /// A repair and a redo that nobody kills.
    fn measure(&mut self) {
        let begun = Instant::now();
        let exit = word(&self.lab, &REPAIR).output().unwrap();
        self.took.repair = begun.elapsed();
        assert_eq!(exit.status.code(), Some(1), "{exit:?}");
        self.new = std::fs::read(self.lab.disk()).unwrap();
        assert_ne!(self.new, self.old);
        let begun = Instant::now();
        self.redo();
        self.took.redo = begun.elapsed();
        println!("a repair takes {:?}, a redo {:?}", self.took.repair, self.took.redo);
    }

    pub fn blow(mut self, tries: u32) {
        let mut tally = Tally::default();
        for number in 0..tries {
            self.put_back();
            let (name, victim, most) = match number % 5 {
                0 | 1 => ("the process", Victim::Guard, self.took.repair * 6 / 5),
                2 | 3 => ("the process, applying", Victim::Applying, self.took.repair / 3),
                _ => ("the checker", Victim::Checker, self.took.repair / 3),
            };
            let delay = self.delay(most);
            let state = self.lab.state();
            run_and_kill(&mut word(&self.lab, &REPAIR), victim, delay, &state);
            let hit = Hit::of(self.device(), &self.lab.left());
            *tally.hits.entry((name, hit)).or_default() += 1;
            tally.killed_redos += self.redo_under_fire();
            self.check_end(hit, &mut tally);
        }
        tally.print(tries);
    }

    fn redo_under_fire(&mut self) -> u32 {
        let kills = self.random.random_range(0..=MAX_KILLED_REDOS);
        let mut killed = 0;
        for _ in 0..kills {
            let delay = self.delay(self.took.redo * 6 / 5);
            let state = self.lab.state();
            let mut redo = word(&self.lab, &["redo"]);
            let exit = run_and_kill(&mut redo, Victim::Guard, delay, &state);
            killed += u32::from(exit.code().is_none());
            // Whatever it left, device and log agree.
            let _ = Hit::of(self.device(), &self.lab.left());
        }
        self.redo();
        killed
    }

    fn check_end(&self, hit: Hit, tally: &mut Tally) {
        let device = self.device();
        let expected = match hit {
            Hit::Before | Hit::WritingLog => Device::Old,
            Hit::Named | Hit::HalfWritten | Hit::Written | Hit::After => Device::New,
        };
        assert_eq!(device, expected, "{hit:?}");
        assert_eq!(self.lab.left(), [""; 0], "{hit:?}");
        tally.ended_new += u32::from(device == Device::New);
    }

    fn delay(&mut self, most: Duration) -> Duration {
        self.random.random_range(Duration::ZERO..=most)
    }

    fn redo(&self) {
        let redone = word(&self.lab, &["redo"]).output().unwrap();
        assert!(redone.status.success(), "{redone:?}");
    }

    fn device(&self) -> Device {
        let now = std::fs::read(self.lab.disk()).unwrap();
        match () {
            () if now == self.old => Device::Old,
            () if now == self.new => Device::New,
            () => Device::Torn,
        }
    }

    /// Only what differs: the next apply waits until all of it is on disk.
    fn put_back(&self) {
        let disk = File::options().read(true).write(true).open(self.lab.disk()).unwrap();
        let now = std::fs::read(self.lab.disk()).unwrap();
        for (at, (now, old)) in now.chunks(BLOCK).zip(self.old.chunks(BLOCK)).enumerate() {
            if now != old {
                disk.write_all_at(old, (at * BLOCK) as u64).unwrap();
            }
        }
    }
}

impl Tally {
    fn print(&self, tries: u32) {
        for ((victim, hit), count) in &self.hits {
            println!("{victim:<22} {hit:<40} {count}");
        }
        let during: u32 =
            self.hits.iter().filter(|((_, hit), _)| hit.is_during()).map(|(_, count)| count).sum();
        println!(
            "{tries} tries: {during} hit an apply under way, {} redos were killed too; {} ended new, \
             {} old, none torn",
            self.killed_redos,
            self.ended_new,
            tries - self.ended_new
        );
    }
}
