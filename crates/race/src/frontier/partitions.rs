//! The first partitions of the graph of races.
//!
//! Which race affects which is a relation of up to the square of their number. Its
//! graph is kept small by nodes between: each racing segment has one that its races
//! lead to (*left*) and one that leads to its races (*entered*). From the left node of
//! the last racing segment of a thread that happened before a segment an edge
//! leads to the entered node of that segment. The races of an earlier one affect those
//! of the last one, so there is a path from race to race exactly where one affects the
//! other, directly or through more.
//!
//! Apart from the frontier because it is an algorithm on graphs.

use crate::clock::Clock;
use crate::epoch::Epoch;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// The races that only those of their own circle affect.
pub(super) fn firsts(pairs: &BTreeSet<(Epoch, Epoch)>, clocks: &BTreeMap<Epoch, Clock>) -> BTreeSet<(Epoch, Epoch)> {
    let graph = graph(pairs, clocks);
    let parts = strongly_connected(&graph);
    let mut affected = vec![false; graph.len()];
    for (from, targets) in graph.iter().enumerate() {
        for &to in targets {
            affected[parts[to]] |= parts[from] != parts[to];
        }
    }
    let unaffected = pairs.iter().enumerate().filter(|(race, _)| !affected[parts[*race]]);
    unaffected.map(|(_, &pair)| pair).collect()
}

/// Nodes: the races, then the left nodes of segments, then their entered nodes.
fn graph(pairs: &BTreeSet<(Epoch, Epoch)>, clocks: &BTreeMap<Epoch, Clock>) -> Vec<Vec<usize>> {
    let places: BTreeMap<Epoch, usize> = clocks.keys().enumerate().map(|(place, &epoch)| (epoch, place)).collect();
    let threads: BTreeSet<u32> = clocks.keys().map(|epoch| epoch.thread()).collect();
    let left = |place: usize| pairs.len() + place;
    let entered = |place: usize| pairs.len() + places.len() + place;
    let mut graph = vec![Vec::new(); pairs.len() + 2 * places.len()];
    let mut is_entered = vec![false; places.len()];
    for (&epoch, clock) in clocks {
        let place = places[&epoch];
        for &thread in &threads {
            let known = if thread == epoch.thread() { epoch.time() - 1 } else { clock.time_of(thread) };
            if known == 0 {
                continue;
            }
            let earlier = Epoch::new(thread, 1)..=Epoch::new(thread, known);
            if let Some((_, &before)) = places.range(earlier).next_back() {
                graph[left(before)].push(entered(place));
                is_entered[place] = true;
            }
        }
    }
    for (race, pair) in pairs.iter().enumerate() {
        for epoch in [pair.0, pair.1] {
            let place = places[&epoch];
            graph[race].push(left(place));
            // A node that nothing leads to would look like something that affects the race.
            if is_entered[place] {
                graph[entered(place)].push(race);
            }
        }
    }
    graph
}

/// The number of each node's strongly connected component (Tarjan 1972, with a stack of its own in place of calls).
fn strongly_connected(graph: &[Vec<usize>]) -> Vec<usize> {
    const UNSEEN: usize = usize::MAX;
    let (mut index, mut low) = (vec![UNSEEN; graph.len()], vec![0; graph.len()]);
    let (mut component, mut components) = (vec![UNSEEN; graph.len()], 0);
    let (mut open, mut calls) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for root in 0..graph.len() {
        if index[root] != UNSEEN {
            continue;
        }
        calls.push((root, 0));
        while let Some(&(node, next)) = calls.last() {
            if index[node] == UNSEEN {
                (index[node], low[node]) = (seen, seen);
                seen += 1;
                open.push(node);
            }
            if let Some(&to) = graph[node].get(next) {
                if index[to] == UNSEEN {
                    calls.push((to, 0));
                    continue;
                }
                if component[to] == UNSEEN {
                    low[node] = low[node].min(low[to]);
                }
                if let Some(call) = calls.last_mut() {
                    call.1 += 1;
                }
                continue;
            }
            calls.pop();
            if low[node] == index[node] {
                while let Some(member) = open.pop() {
                    component[member] = components;
                    if member == node {
                        break;
                    }
                }
                components += 1;
            }
        }
    }
    component
}
