//! The figures as text: tables with the bars of the project and the figures of the papers beside them.

use super::kernels::{Kernel, Mode};
use super::machine::Machine;
use super::micro::{self, Lock, Overhead};
use super::options::Options;
use super::statistics::{self, Estimate};
use std::fmt::Write;

/// Everything that was measured.
#[derive(Debug, serde::Serialize)]
pub(super) struct Report {
    /// Where and when.
    pub(super) machine: Machine,
    /// Runs of each kernel in each mode.
    runs: usize,
    /// A first impression only.
    preliminary: bool,
    /// The kernels.
    pub(super) kernels: Vec<Kernel>,
    /// The lock cases.
    pub(super) locks: Vec<Lock>,
    /// Milliseconds of `true`.
    pub(super) start: Option<Overhead>,
    /// KiB of many idle threads.
    pub(super) memory: Option<Overhead>,
}

impl Report {
    /// Nothing measured yet.
    pub(super) fn new(machine: Machine, options: &Options) -> Self {
        let (runs, preliminary) = (options.runs, !options.is_whole());
        Self { machine, runs, preliminary, kernels: Vec::new(), locks: Vec::new(), start: None, memory: None }
    }

    /// How many measurements failed.
    pub(super) fn failures(&self) -> usize {
        let added = [&self.start, &self.memory];
        self.kernels.iter().map(|k| k.failures.len()).sum::<usize>()
            + self.locks.iter().filter(|l| l.failure.is_some()).count()
            + added.iter().filter(|a| a.as_ref().is_some_and(|a| a.failure.is_some())).count()
    }
}

/// One line of `text`, fit for a cell of a table.
pub(super) fn flat(text: &str) -> String {
    text.replace('|', "/").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` with the last name of each absolute path instead of the path: where a machine has its folders is no figure.
pub(super) fn without_folders(text: &str) -> String {
    let name = |word: &str| {
        let start = word.find(|first: char| first.is_alphanumeric() || first == '/').unwrap_or(0);
        let (before, path) = word.split_at(start);
        let is_path = path.starts_with('/') && path.len() > 1;
        let last = path.trim_end_matches('/').rsplit('/').next().filter(|_| is_path);
        format!("{before}{}", last.unwrap_or(path))
    };
    text.split(' ').map(name).collect::<Vec<_>>().join(" ")
}

/// The whole report.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = heading(report);
    let mut threads: Vec<usize> = report.kernels.iter().map(|k| k.threads).collect();
    threads.dedup();
    for threads in threads {
        let kernels: Vec<&Kernel> = report.kernels.iter().filter(|k| k.threads == threads).collect();
        text += &kernel_table(&format!("Kernels, {threads} threads"), &kernels);
    }
    text += &published(&report.kernels.iter().collect::<Vec<_>>());
    if !report.locks.is_empty() {
        text += &lock_table(&report.locks);
    }
    if let Some(start) = &report.start {
        text += &start_line(start);
    }
    if let Some(memory) = &report.memory {
        text += &memory_line(memory);
    }
    text
}

fn heading(report: &Report) -> String {
    let m = &report.machine;
    let (trim, coverage) = statistics::binomial(report.runs);
    let mut text = format!("# Benchmark of {} on {}\n\n", m.date, m.host);
    if report.preliminary {
        text += "**A first impression, not a result**: too few runs, small sizes or only a part.\n\n";
    }
    let _ = write!(
        text,
        "- machine: {} × {}, Linux {}\n- tools: {}\n- revision {}, load average before: {}\n\
         - {} rounds of native, record, first replay, later replay, interleaved; ratios are paired in each round. \
         A cell is the median and, in brackets, its {:.1} % interval ({}); geometric means have a bootstrap interval \
         of 95 %. The upper end counts.\n",
        m.processors,
        m.processor,
        m.kernel,
        m.tools,
        m.revision,
        m.load,
        report.runs,
        100.0 * coverage,
        if trim == 0 { "least to greatest".to_owned() } else { format!("binomial, {trim} left out at each end") },
    );
    text
}

fn kernel_table(title: &str, kernels: &[&Kernel]) -> String {
    let mut text = format!(
        "\n## {title}\n\n| kernel | native s | record | record, CPU | first replay | later replay | operations | bytes | bytes/op | KiB on disk |\n\
         |---|---|---|---|---|---|---|---|---|---|\n"
    );
    for kernel in kernels {
        let wall = |mode| cell(statistics::estimate(&kernel.wall_ratios(mode)));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            kernel.name,
            statistics::estimate(&kernel.walls(Mode::Native)).map_or("–".to_owned(), |e| format!("{:.2}", e.median)),
            wall(Mode::Record),
            cell(statistics::estimate(&kernel.cpu_ratios(Mode::Record))),
            wall(Mode::Learn),
            wall(Mode::Derived),
            count(kernel.operations),
            count(kernel.bytes),
            per_operation(&[*kernel]),
            count(kernel.disk_bytes.map(|b| b.div_ceil(1024))),
        );
    }
    let _ = writeln!(
        text,
        "| **geometric mean** | | {} | {} | {} | {} | | | {} | |",
        cell(geometric(kernels, |k| k.wall_ratios(Mode::Record))),
        cell(geometric(kernels, |k| k.cpu_ratios(Mode::Record))),
        cell(geometric(kernels, |k| k.wall_ratios(Mode::Learn))),
        cell(geometric(kernels, |k| k.wall_ratios(Mode::Derived))),
        per_operation(kernels),
    );
    text += "| wanted: mean (worst) | | ≤ 1.01 (1.03) | | | ≤ 1.10 (1.50) | | | ≤ 0.50 | |\n";
    for kernel in kernels {
        for failure in &kernel.failures {
            let _ = writeln!(text, "\nFAILED: {}: {}", kernel.name, flat(failure));
        }
    }
    text
}

fn published(kernels: &[&Kernel]) -> String {
    let ours = |mode: Mode| cell(geometric(kernels, |k| k.wall_ratios(mode)));
    format!(
        "\n## Beside the published figures\n\n\
         | system | record | replay | bytes/op |\n|---|---|---|---|\n\
         | relive, all kernels and numbers of threads | {} | {} (first: {}) | {} |\n\
         | RecPlay, Table 1, average of SPLASH-2 programs | 1.021 | 1.91 | – |\n\
         | Instant Replay 1987 | – | – | 4 |\n\
         | ROLT 1996 | – | – | 4.9 |\n",
        ours(Mode::Record),
        ours(Mode::Derived),
        ours(Mode::Learn),
        per_operation(kernels),
    )
}

fn lock_table(locks: &[Lock]) -> String {
    let mut text = "\n## Lock and unlock\n\nThe uncontended bar is native + 2 ns; no case may exceed 1.5 × native.\n\n\
                    | case | native ns | added ns | recorded / native |\n|---|---|---|---|\n"
        .to_owned();
    for lock in locks {
        let _ = match &lock.failure {
            Some(failure) => writeln!(text, "| {} | FAILED: {failure} | | |", lock.case),
            None => {
                writeln!(text, "| {} | {} | {} | {} |", lock.case, ns(lock.native), ns(lock.added), cell(lock.ratio))
            }
        };
    }
    text
}

fn start_line(start: &Overhead) -> String {
    let title = "\n## Start\n\n";
    if let Some(failure) = &start.failure {
        return format!("{title}FAILED: {failure}\n");
    }
    format!(
        "{title}`true` takes {} ms; `relive record true` adds {} ms (wanted: at most 15).\n",
        ns(start.native),
        ns(start.added)
    )
}

fn memory_line(memory: &Overhead) -> String {
    let title = "\n## Memory\n\n";
    let threads = micro::idle_threads();
    let (Some(native), Some(added)) = (memory.native, memory.added) else {
        return format!("{title}FAILED: {}\n", memory.failure.as_deref().unwrap_or("nothing measured"));
    };
    format!(
        "{title}{threads} idle threads: peak resident memory {:.0} KiB native, {:.0} KiB more while recording, that is \
         {:.1} KiB a thread (wanted: at most 64 KiB a thread plus 4 MiB, here {:.0} KiB).\n",
        native.median,
        added.median,
        added.median / threads,
        64.0 * threads + 4096.0,
    )
}

fn geometric(kernels: &[&Kernel], ratios: impl Fn(&Kernel) -> Vec<f64>) -> Option<Estimate> {
    statistics::geometric(&kernels.iter().map(|k| ratios(k)).collect::<Vec<_>>())
}

fn cell(estimate: Option<Estimate>) -> String {
    estimate.map_or("–".to_owned(), |e| format!("{:.3} [{:.3}, {:.3}]", e.median, e.low, e.high))
}

fn ns(estimate: Option<Estimate>) -> String {
    estimate.map_or("–".to_owned(), |e| format!("{:.2} [{:.2}, {:.2}]", e.median, e.low, e.high))
}

fn count(number: Option<u64>) -> String {
    number.map_or("–".to_owned(), |n| n.to_string())
}

/// Bytes over operations of all the kernels together.
fn per_operation(kernels: &[&Kernel]) -> String {
    let sum = |of: fn(&Kernel) -> Option<u64>| kernels.iter().filter_map(|k| of(k)).sum::<u64>();
    let (bytes, operations) = (sum(|k| k.bytes), sum(|k| k.operations));
    if operations == 0 { "–".to_owned() } else { format!("{:.3}", bytes as f64 / operations as f64) }
}

#[cfg(test)]
mod tests {
    use super::without_folders;

    #[test]
    fn of_paths_the_last_name_stays() {
        let cases = [
            ("`/opt/x/relive replay /tmp/b-1/trace`: exit status: 125", "`relive replay trace`: exit status: 125"),
            ("status 139: relive: /tmp/#12 (deleted) is shared", "status 139: relive: #12 (deleted) is shared"),
            ("1/2 of it, and/or / none", "1/2 of it, and/or / none"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_folders(text), expected);
        }
    }
}
