//! Which accesses of a logged run race: happened-before as its definition says, by
//! reachability in the graph of all operations.
//!
//! Apart because it must be so plain that nobody doubts it: no clocks, no history that
//! ends, quadratic in the length of the run.

use std::collections::{BTreeMap, BTreeSet};

/// An access that a line makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The line, by which logs and reports call it.
    pub(crate) line: u32,
    pub(crate) write: bool,
    /// The first byte, and how many.
    pub(crate) offset: u32,
    pub(crate) size: u32,
}

/// What races.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The bytes, by their offset, with the pairs of lines that race on each.
    pub(crate) bytes: BTreeMap<u32, BTreeSet<Pair>>,
}

/// Two lines, the smaller one first.
pub(crate) type Pair = (u32, u32);

/// A word of a log.
#[derive(Clone, Copy, Debug)]
struct Word {
    what: char,
    which: usize,
    /// The turn at a lock.
    turn: usize,
}

/// The graph: each operation is two nodes, what comes before it and what comes after it.
#[derive(Debug, Default)]
struct Graph {
    next: Vec<Vec<usize>>,
}

/// The node at which an operation begins: what it releases is ordered before that.
const fn begin(operation: usize) -> usize {
    operation * 2
}

/// The node at which it has ended: what it acquires is ordered before that.
const fn end(operation: usize) -> usize {
    operation * 2 + 1
}

/// What races in a run, from the log of each thread.
pub(crate) fn expected(logs: &str, sites: &[Site]) -> Result<Expected, String> {
    let threads: Vec<Vec<Word>> = logs.lines().map(words).collect::<Result<_, _>>()?;
    let reaches = Graph::of(&threads).closure();
    let mut accesses = Vec::new();
    let mut operation = 0;
    for (thread, words) in threads.iter().enumerate() {
        for word in words {
            if word.what == 'a' {
                let site = sites.iter().find(|site| site.line as usize == word.which);
                accesses.push((thread, operation, *site.ok_or_else(|| format!("no access in line {}", word.which))?));
            }
            operation += 1;
        }
    }
    let mut expected = Expected::default();
    for (index, &(thread, operation, site)) in accesses.iter().enumerate() {
        for &(other_thread, other_operation, other) in &accesses[..index] {
            let ordered =
                reaches(end(operation), begin(other_operation)) || reaches(end(other_operation), begin(operation));
            if thread != other_thread && !ordered && (site.write || other.write) {
                expected.add(site, other);
            }
        }
    }
    Ok(expected)
}

impl Expected {
    fn add(&mut self, one: Site, other: Site) {
        let first = one.offset.max(other.offset);
        for byte in first..(one.offset + one.size).min(other.offset + other.size) {
            let pair = (one.line.min(other.line), one.line.max(other.line));
            self.bytes.entry(byte).or_default().insert(pair);
        }
    }

    /// What is wrong with the pairs that were reported: one that does not race, or a byte that races in none of them.
    pub(crate) fn faults(&self, reported: &BTreeSet<Pair>) -> Vec<String> {
        let races: BTreeSet<Pair> = self.bytes.values().flatten().copied().collect();
        let extra = reported.difference(&races).map(|(one, other)| format!("lines {one} and {other} do not race"));
        let missed = self.bytes.iter().filter(|(_, pairs)| pairs.is_disjoint(reported));
        let missed = missed.map(|(byte, pairs)| format!("byte {byte} races and was not reported: lines {pairs:?}"));
        extra.chain(missed).collect()
    }
}

fn words(log: &str) -> Result<Vec<Word>, String> {
    log.split_whitespace()
        .map(|word| {
            let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{word:?} in a log"));
            let (what, rest) = word.split_at(1);
            let (which, turn) = rest.split_once('.').unwrap_or((rest, "0"));
            Ok(Word { what: what.chars().next().unwrap_or(' '), which: number(which)?, turn: number(turn)? })
        })
        .collect()
}

/// Operations that others refer to, by what they do to which object.
#[derive(Debug, Default)]
struct Ends {
    /// By mutex and turn.
    locks: BTreeMap<(usize, usize), usize>,
    unlocks: BTreeMap<(usize, usize), usize>,
    /// By lock and the number of writers before: of a writer, of its unlock; of readers and their unlocks.
    write_locks: BTreeMap<(usize, usize), usize>,
    write_unlocks: BTreeMap<(usize, usize), usize>,
    read_locks: Vec<((usize, usize), usize)>,
    read_unlocks: Vec<((usize, usize), usize)>,
    posts: BTreeMap<usize, usize>,
    waits: BTreeMap<usize, usize>,
    /// By thread.
    creations: BTreeMap<usize, usize>,
    joins: BTreeMap<usize, usize>,
    bounds: Vec<Option<(usize, usize)>>,
    /// By barrier and round.
    meetings: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Ends {
    fn of(threads: &[Vec<Word>]) -> Self {
        let mut ends = Ends::default();
        let mut operation = 0;
        for words in threads {
            let first = operation;
            let mut turns: BTreeMap<(char, usize), usize> = BTreeMap::new();
            let mut rounds: BTreeMap<usize, usize> = BTreeMap::new();
            for word in words {
                let which = word.which;
                let turn = |lock: char| (which, turns.get(&(lock, which)).copied().unwrap_or_default());
                match word.what {
                    'l' => drop(ends.locks.insert((which, word.turn), operation)),
                    'u' => drop(ends.unlocks.insert(turn('l'), operation)),
                    'w' => drop(ends.write_locks.insert((which, word.turn), operation)),
                    'x' => drop(ends.write_unlocks.insert(turn('w'), operation)),
                    'r' => ends.read_locks.push(((which, word.turn), operation)),
                    's' => ends.read_unlocks.push((turn('r'), operation)),
                    'p' => drop(ends.posts.insert(which, operation)),
                    'v' => drop(ends.waits.insert(which, operation)),
                    'c' => drop(ends.creations.insert(which, operation)),
                    'j' => drop(ends.joins.insert(which, operation)),
                    'b' => {
                        let round = rounds.entry(which).or_default();
                        ends.meetings.entry((which, *round)).or_default().push(operation);
                        *round += 1;
                    }
                    _ => {}
                }
                turns.insert((word.what, which), word.turn);
                operation += 1;
            }
            ends.bounds.push((operation > first).then(|| (first, operation - 1)));
        }
        ends
    }

    /// From what releases to what acquires, as nodes.
    fn edges(&self) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        let mut edge = |from: usize, to: usize| edges.push((begin(from), end(to)));
        // A later turn begins after the one before ended.
        for (&(lock, turn), &unlock) in &self.unlocks {
            self.locks.get(&(lock, turn + 1)).into_iter().for_each(|&next| edge(unlock, next));
        }
        for (&(lock, turn), &unlock) in &self.write_unlocks {
            self.write_locks.get(&(lock, turn + 1)).into_iter().for_each(|&next| edge(unlock, next));
            // Readers count the writers that were there before them.
            let readers = self.read_locks.iter().filter(|(at, _)| *at == (lock, turn + 1));
            readers.for_each(|&(_, reader)| edge(unlock, reader));
        }
        for (at, unlock) in &self.read_unlocks {
            self.write_locks.get(at).into_iter().for_each(|&writer| edge(*unlock, writer));
        }
        for (token, &post) in &self.posts {
            self.waits.get(token).into_iter().for_each(|&wait| edge(post, wait));
        }
        for members in self.meetings.values() {
            for &one in members {
                for &other in members {
                    edge(one, other);
                }
            }
        }
        edges.extend(self.edges_of_threads());
        edges
    }

    /// From a creation to all that the thread does, and from there to its join.
    fn edges_of_threads(&self) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for (thread, bounds) in self.bounds.iter().enumerate() {
            let (creation, join) = (self.creations.get(&thread), self.joins.get(&thread));
            if let Some((first, last)) = *bounds {
                edges.extend(creation.map(|&creation| (begin(creation), begin(first))));
                edges.extend(join.map(|&join| (end(last), end(join))));
            }
        }
        edges
    }
}

impl Graph {
    fn of(threads: &[Vec<Word>]) -> Self {
        let operations: usize = threads.iter().map(Vec::len).sum();
        let mut graph = Graph { next: vec![Vec::new(); operations * 2] };
        let mut operation = 0;
        for words in threads {
            for index in 0..words.len() {
                graph.next[begin(operation)].push(end(operation));
                if index + 1 < words.len() {
                    graph.next[end(operation)].push(begin(operation + 1));
                }
                operation += 1;
            }
        }
        for (from, to) in Ends::of(threads).edges() {
            graph.next[from].push(to);
        }
        graph
    }

    /// Whether a path leads from one node to another.
    fn closure(&self) -> impl Fn(usize, usize) -> bool + use<> {
        let count = self.next.len();
        let mut reached = vec![vec![false; count]; count];
        for (from, row) in reached.iter_mut().enumerate() {
            let mut open = vec![from];
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut row[node], true) {
                    open.extend(&self.next[node]);
                }
            }
        }
        move |from, to| reached[from][to]
    }
}

/// Accesses of one byte, the same in every log here: line 1 writes it, line 2 reads it.
#[cfg(test)]
mod tests {
    use super::{Pair, Site, expected};
    use std::collections::BTreeSet;

    const SITES: [Site; 3] = [
        Site { line: 1, write: true, offset: 4, size: 1 },
        Site { line: 2, write: false, offset: 4, size: 1 },
        Site { line: 3, write: true, offset: 2, size: 4 },
    ];

    #[track_caller]
    fn check(logs: &[&str], bytes: &[(u32, &[Pair])]) {
        let found = expected(&logs.join("\n"), &SITES).expect("logs that can be read");
        let bytes = bytes.iter().map(|(byte, pairs)| (*byte, pairs.iter().copied().collect::<BTreeSet<_>>())).collect();
        assert_eq!(found.bytes, bytes, "{logs:?}");
    }

    #[test]
    fn threads_race_unless_something_orders_them() {
        check(&["c1 a1 j1", "a2"], &[(4, &[(1, 2)])]);
        check(&["c1 a2 j1", "a2"], &[]);
        check(&["a1 c1 j1 a1", "a2"], &[]);
        check(&["c1 a3 j1", "a1"], &[(4, &[(1, 3)])]);
        check(&["c1 a3 j1", "a3"], &[(2, &[(3, 3)]), (3, &[(3, 3)]), (4, &[(3, 3)]), (5, &[(3, 3)])]);
        check(&["c1 c2 j1 j2", "a1", "a2"], &[(4, &[(1, 2)])]);
        check(&["c1 j1 c2 j2", "a1", "a2"], &[]);
    }

    #[test]
    fn locks_order_what_is_before_the_unlock_with_what_is_behind_a_later_lock() {
        check(&["c1 l0.0 a1 u0 j1", "l0.1 a2 u0"], &[]);
        check(&["c1 a1 l0.0 u0 j1", "l0.1 u0 a2"], &[]);
        check(&["c1 l0.0 u0 a1 j1", "l0.1 a2 u0"], &[(4, &[(1, 2)])]);
        check(&["c1 a1 l0.1 u0 j1", "l0.0 u0 a2"], &[(4, &[(1, 2)])]);
        check(&["c1 l0.0 a1 u0 j1", "l1.0 a2 u1"], &[(4, &[(1, 2)])]);
        check(&["c1 w0.0 a1 x0 j1", "r0.1 a2 s0"], &[]);
        check(&["c1 r0.0 a1 s0 j1", "r0.0 a2 s0"], &[(4, &[(1, 2)])]);
        check(&["c1 r0.0 a2 s0 j1", "w0.0 a1 x0"], &[]);
        check(&["c1 c2 a1 r0.0 s0 j1 j2", "w0.0 x0", "r0.1 s0 a2"], &[]);
    }

    #[test]
    fn tokens_and_meetings_order_what_is_before_with_what_is_behind() {
        check(&["c1 a1 p0 j1", "v0 a2"], &[]);
        check(&["c1 p0 a1 j1", "v0 a2"], &[(4, &[(1, 2)])]);
        check(&["c1 a1 b0 j1", "b0 a2"], &[]);
        check(&["c1 b0 a1 b0 j1", "b0 a2 b0"], &[(4, &[(1, 2)])]);
        check(&["c1 b0 a1 b0 j1", "b0 b0 a2"], &[]);
    }
}
