//! The report as a person reads it.

use std::fmt::Write;

use super::contestants::Name;
use super::gates::{Verdict, noise};
use super::guard::GuardAlone;
use super::report::{Report, Row};

/// Above this share of the processors for others, a proxy waits for its turn often enough to show.
const STILL: f64 = 0.05;

pub fn render(report: &Report) -> String {
    let mut text = String::new();
    write_all(&mut text, report).expect("a string takes what is written");
    text
}

fn write_all(text: &mut String, report: &Report) -> std::fmt::Result {
    let now = &report.conditions;
    writeln!(
        text,
        "{} rounds of {} calls ({} large), order rotated; {} processors, nothing pinned; Linux {}{}",
        now.rounds,
        now.calls,
        now.large_calls,
        now.processors,
        now.kernel,
        if now.debug_build { "; DEBUG BUILD" } else { "" },
    )?;
    writeln!(
        text,
        "others used {:.0} % of the processors meanwhile{}",
        now.others_share * 100.0,
        if now.others_share > STILL { ": too much for good numbers" } else { "" },
    )?;
    writeln!(
        text,
        "ratio: p50 over that of the direct calls of the same round, median [middle 80 %]"
    )?;
    writeln!(
        text,
        "\n{:<16}{:<13}{:>9}{:>9}{:>8} {:<15}{:>9}{:>11}{:>8}{:>8}{:>7}",
        "call",
        "through",
        "p50 us",
        "added",
        "ratio",
        "",
        "p99 us",
        "cpu us",
        "x copy",
        "calls",
        "wrong"
    )?;
    report.rows.iter().try_for_each(|row| write_row(text, row))?;
    writeln!(
        text,
        "\n{:<13}{:>22}{:>26}",
        "memory, KiB", "idle rss (anonymous)", "loaded rss (anonymous)"
    )?;
    for used in &report.memory {
        let show = |m: super::process::Memory| format!("{} ({})", m.rss_kib, m.anonymous_kib);
        writeln!(text, "{:<13}{:>22}{:>26}", used.name.text(), show(used.idle), show(used.loaded))?;
    }
    for absent in &report.absent {
        writeln!(text, "\n{} did not take part: {}", absent.name.text(), absent.why)?;
    }
    if let Some(guard) = &report.guard {
        write_guard(text, guard)?;
    }
    write_wrong(text, report)?;
    write_gates(text, report)
}

fn write_row(text: &mut String, row: &Row) -> std::fmt::Result {
    let call = format!("{:?} {:?}", row.mode, row.kind).to_lowercase();
    let proxy = !matches!(row.contestant, Name::Direct | Name::DirectAgain);
    let if_proxy = |value: String| if proxy { value } else { "-".to_owned() };
    writeln!(
        text,
        "{call:<16}{:<13}{:>9.1}{:>+9.1}{:>8.2} {:<15}{:>9.1}{:>11}{:>8}{:>8}{:>7}",
        row.contestant.text(),
        row.p50_us,
        row.added_p50_us,
        row.ratio.median,
        format!("[{:.2} {:.2}]", row.ratio.low, row.ratio.high),
        row.p99_us,
        if_proxy(format!("{:.1}", row.processor_us_per_call)),
        if_proxy(row.processor_over_copy.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))),
        row.calls,
        row.wrong.count,
    )
}

fn write_guard(text: &mut String, guard: &GuardAlone) -> std::fmt::Result {
    let growth = &guard.growth;
    writeln!(
        text,
        "\nguard: anonymous memory {} KiB after {} mixed calls, {} KiB after {}",
        growth.first_anonymous_kib,
        growth.first_calls,
        growth.last_anonymous_kib,
        growth.last_calls
    )?;
    writeln!(
        text,
        "guard: first answer {:.2} ms after start [{:.2} {:.2}], {} starts",
        guard.start_ms.median, guard.start_ms.low, guard.start_ms.high, guard.starts
    )?;
    match guard.programs_run {
        Some(count) => {
            writeln!(text, "guard: ran {count} programs in {} calls", guard.traced_calls)?
        }
        None => writeln!(text, "guard: programs it ran were not counted: no program strace here")?,
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        text,
        "guard: binary of {:.2} MiB, {:.2} MiB of it loaded",
        mib(guard.binary_bytes),
        mib(guard.loaded_bytes)
    )
}

/// The first wrong answer of each row: a guard that refuses at once would look fast.
fn write_wrong(text: &mut String, report: &Report) -> std::fmt::Result {
    let rows = report.rows.iter().map(|row| (row.contestant.text(), &row.wrong));
    let growth = report.guard.iter().map(|guard| ("guard, mixed calls", &guard.growth.wrong));
    for (who, wrong) in rows.chain(growth) {
        if let Some(first) = &wrong.first {
            writeln!(text, "\n{who}: {} wrong answers, the first: {first}", wrong.count)?;
        }
    }
    Ok(())
}

fn write_gates(text: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(text)?;
    for gate in &report.gates {
        let measured = gate.measured.map_or("not measured".to_owned(), |m| format!("{m:.2}"));
        let passed = if gate.passed { "pass" } else { "FAIL" };
        writeln!(text, "{passed}  {:<48}{measured:>13}  (limit {})", gate.name, gate.limit)?;
    }
    let (low, high) = noise(&report.rows)
        .fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    let verdict = match report.verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::Inconclusive => "inconclusive: the machine was not still",
        Verdict::Ran => "everything ran; a quick run judges no gate",
    };
    writeln!(text, "\ndirect to direct {low:.2} to {high:.2}: {verdict}")
}
