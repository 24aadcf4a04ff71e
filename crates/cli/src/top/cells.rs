//! Figures as words, the same on a screen and in a table.

use espalier_command::report::{figure, yes};
use espalier_proto::EndCounts;
use jiff::SignedDuration;
use jiff::fmt::friendly::SpanPrinter;

use super::figures::{ForTarget, Gateway, Pace, Service, Work};

/// Columns of verifiers and drafters, after their names.
pub(super) const HEADER: [&str; 9] =
    ["up, in", "open", "trees", "tokens/s", "tau", "nodes", "rows", "KV memory", "resident"];

/// Characters of a bar.
const BAR: usize = 8;

/// What a service does, and what it does for each target if that is told.
pub(super) fn rows(service: &Service) -> Vec<Vec<String>> {
    let name = service.name.clone().unwrap_or_else(|| service.url.clone());
    let Some(work) = &service.work else {
        return vec![vec![name, yes(service.up)]];
    };
    let up = if service.up && !work.arithmetic.is_empty() { work.arithmetic.clone() } else { yes(service.up) };
    let for_target = work.targets.iter().map(target);
    [[vec![name, up], of_work(work)].concat()].into_iter().chain(for_target).collect()
}

fn of_work(work: &Work) -> Vec<String> {
    let sequences = format!("{}/{}", work.sequences, work.sequences_max);
    let [rate, tau, nodes] = pace(&work.pace);
    let (kv, resident) = (memory(work), work.resident_bytes.map_or_else(|| "-".to_owned(), amount));
    vec![sequences, work.trees.to_string(), rate, tau, nodes, figure(work.rows, 1), kv, resident]
}

fn target(target: &ForTarget) -> Vec<String> {
    let [rate, tau, nodes] = pace(&target.pace);
    let name = format!("→ {}", target.name);
    vec![name, String::new(), target.sequences.to_string(), String::new(), rate, tau, nodes]
}

fn pace(pace: &Pace) -> [String; 3] {
    [figure(pace.tokens_per_second, 0), figure(pace.tau, 2), figure(pace.nodes, 1)]
}

/// The gateway's own figures, a line each.
pub(super) fn gateway(gateway: &Gateway) -> [String; 3] {
    let [rate, tau, nodes] = pace(&gateway.pace);
    let accepted = figure(gateway.pace.accepted.map(|share| 100.0 * share), 0);
    let resident = gateway.resident_bytes.map_or_else(|| "-".to_owned(), amount);
    let EndCounts { stop, length, failed, abandoned, refused, invalid } = gateway.ended;
    let up = uptime(gateway.uptime_s);
    [
        format!("{rate} tokens/s, tau {tau}, {nodes} nodes, {accepted} % accepted; up {up}, resident {resident}"),
        format!("{}/{} running, {} queued", gateway.running, gateway.running_max, gateway.queued),
        format!(
            "ended: {stop} stop, {length} length, {failed} failed, {abandoned} abandoned, {refused} refused, {invalid} invalid"
        ),
    ]
}

/// Memory for keys and values as a bar: what is held or promised, what lingers, what is free.
fn memory(work: &Work) -> String {
    let kv = &work.kv;
    let used = kv.held.saturating_add(kv.promised);
    let share = |blocks: u64| blocks as f64 / kv.blocks.max(1) as f64;
    let cells = |blocks: u64| (share(blocks.min(kv.blocks)) * BAR as f64).round() as usize;
    // Promises may rest on blocks that linger.
    let (full, known) = (cells(used), cells(used.max(kv.held.saturating_add(kv.lingering))));
    let bar = ["█".repeat(full), "▒".repeat(known - full), "░".repeat(BAR - known)].concat();
    format!("{bar} {:3.0}%", 100.0 * share(used))
}

/// So many bytes, in the unit that suits.
fn amount(bytes: u64) -> String {
    const UNITS: [(&str, f64); 3] = [("GiB", 1073741824.0), ("MiB", 1048576.0), ("KiB", 1024.0)];
    let bytes = bytes as f64;
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// Hours, minutes and seconds.
fn uptime(seconds: f64) -> String {
    const PRINTER: SpanPrinter = SpanPrinter::new().hours_minutes_seconds(true);
    PRINTER.duration_to_string(&SignedDuration::from_secs(seconds as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::figures::Figures;
    use crate::top::tests::system;

    #[test]
    fn a_service_that_does_not_tell_has_its_name_or_its_address() {
        let service = Service { name: None, url: "http://a:1".to_owned(), up: false, work: None };
        assert_eq!(rows(&service), [["http://a:1", "NO"]]);
    }

    #[test]
    fn a_drafter_has_a_line_for_each_target() {
        let figures = Figures::between(Some(&system(1_000, 10)), &system(2_000, 20));
        let [sum, target] = rows(&figures.drafters[0]).try_into().unwrap_or_default();
        assert_eq!(sum[..7], ["sorted", "int8", "3/8", "2", "30", "3.00", "4.0"]);
        assert_eq!(target, ["→ medium", "", "3", "", "30", "3.00", "4.0"]);
        assert_eq!(sum.len(), 1 + HEADER.len());
    }

    #[test]
    fn a_bar_shows_what_is_used_and_what_lingers() {
        let figures = Figures::between(None, &system(1_000, 10));
        let mut work = figures.targets[0].work.clone().unwrap_or_else(|| unreachable!());
        // 8 held and 4 promised of 32; with the 16 that linger, three quarters are known.
        assert_eq!(memory(&work), "███▒▒▒░░  38%");
        work.kv.blocks = 0;
        assert_eq!(memory(&work).chars().filter(|cell| *cell == '░').count(), BAR);
    }

    #[test]
    fn amounts_and_times_are_short() {
        assert_eq!([0, 1023, 1024, 3 << 19, 5 << 30].map(amount), ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB"]);
        assert_eq!([0.4, 61.0, 36_000.9].map(uptime), ["00:00:00", "00:01:01", "10:00:00"]);
    }
}
