//! What several processes found, put together.
//!
//! Apart because an address means something within a process alone: a program that
//! another one starts lies where that lies itself. What processes have in common, as
//! forks do, is named once; one with other modules at the same addresses stays by itself.

use crate::raw::{RawModule, RawReport};

/// Adds what one more process found to `all`.
pub fn add(all: &mut RawReport, mut process: RawReport) {
    all.unobserved.append(&mut process.unobserved);
    let agrees = |image: &RawReport| agree(&image.modules, &process.modules);
    let image = if agrees(all) {
        all
    } else {
        let known = all.images.iter().position(agrees);
        let at = known.unwrap_or(all.images.len());
        all.images.resize_with(all.images.len().max(at + 1), RawReport::default);
        &mut all.images[at]
    };
    image.modules.append(&mut process.modules);
    image.threads.append(&mut process.threads);
    image.races.append(&mut process.races);
}

/// Whether nothing of one list stands where the other has something else.
fn agree(one: &[RawModule], other: &[RawModule]) -> bool {
    let apart = |one: &RawModule, other: &RawModule| one.end <= other.start || other.end <= one.start;
    let same = |one: &RawModule, other: &RawModule| (&one.file, one.bias) == (&other.file, other.bias);
    one.iter().all(|one| other.iter().all(|other| same(one, other) || apart(one, other)))
}

impl RawReport {
    /// This one, and those of other images.
    pub fn all_images(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.images)
    }
}

#[cfg(test)]
mod tests {
    use super::add;
    use crate::raw::{RawModule, RawRace, RawReport, RawUnobserved};

    fn process(address: u64, modules: &[(&str, u64)]) -> RawReport {
        let module = |&(file, start): &(&str, u64)| RawModule {
            file: file.to_owned(),
            start,
            end: start + 0x100,
            bias: start,
            ..RawModule::default()
        };
        RawReport {
            modules: modules.iter().map(module).collect(),
            races: vec![RawRace { address, ..RawRace::default() }],
            unobserved: vec![RawUnobserved { what: String::new(), count: address }],
            ..RawReport::default()
        }
    }

    #[test]
    fn what_stands_where_another_has_something_else_is_apart() {
        let mut all = RawReport::default();
        add(&mut all, process(1, &[("/bin/parent", 0x1000), ("/lib/libc.so", 0x2000)]));
        add(&mut all, process(2, &[("/bin/child", 0x1080), ("/lib/libc.so", 0x2000)]));
        add(&mut all, process(3, &[("/bin/parent", 0x1000), ("/lib/libm.so", 0x3000)]));
        add(&mut all, process(4, &[("/bin/child", 0x1080)]));
        add(&mut all, process(5, &[("/bin/third", 0x1000)]));
        let races = |report: &RawReport| report.races.iter().map(|race| race.address).collect::<Vec<_>>();
        let found: Vec<_> = all.all_images().map(races).collect();
        assert_eq!(found, [vec![1, 3], vec![2, 4], vec![5]]);
        assert_eq!(all.unobserved.len(), 5);
    }
}
