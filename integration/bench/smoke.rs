//! The bench itself runs.

use std::process::Command;

use serde_json::Value;

pub fn tests() -> Vec<libtest_mimic::Trial> {
    crate::tests![bench_smoke_everybody_answers_and_the_guard_is_measured]
}

fn bench_smoke_everybody_answers_and_the_guard_is_measured() {
    let own = std::env::current_exe().unwrap();
    let run = Command::new(own).args(["bench", "--quick", "--format", "json"]).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    let report: Value = serde_json::from_str(&said).unwrap();

    for contestant in ["direct", "direct-again", "copy", "guard"] {
        assert_eq!(rows_of(&report, contestant).count(), 6, "{contestant} in {said}");
    }
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["wrong"]["count"], 0, "{row}");
        assert!(row["calls"].as_u64().unwrap() > 0, "{row}");
    }
    for row in rows_of(&report, "guard") {
        assert!(row["ratio"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["processor_us_per_call"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(report["guard"]["start_ms"]["median"].as_f64().unwrap() > 0.0, "{said}");
    assert_eq!(report["guard"]["growth"]["wrong"]["count"], 0, "{said}");
    assert_eq!(report["verdict"], "ran");
    // Nginx and haproxy may be missing, but not without a word.
    let absent = report["absent"].as_array().unwrap().len();
    assert_eq!(report["memory"].as_array().unwrap().len() + absent, 4, "{said}");
}

fn rows_of<'a>(report: &'a Value, contestant: &'a str) -> impl Iterator<Item = &'a Value> {
    let rows = report["rows"].as_array().unwrap().iter();
    rows.filter(move |row| row["contestant"] == contestant)
}
