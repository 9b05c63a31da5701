//! A report for people.
//!
//! The first screen tells the story: how many races, each in one line, and then of the first
//! one where, what, who and why nothing orders the two. What people look for first stands
//! first and furthest to the left; what they need to look further (stacks, locks, the
//! fingerprint) is indented under it. Certain races come first, possible ones are set apart at
//! the end, suppressed ones are only counted.

mod access;
mod object;
mod page;
mod segments;
mod words;

pub(crate) use words::digits;
pub use words::headline;

use crate::raw::{Certainty, NO_THREAD, RaceKind};
use crate::report::{Race, Report};
use page::{Page, Paint};
use std::fmt;
use words::plural;

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// With the colours of a terminal.
    pub colour: bool,
    /// Columns that a line should not exceed.
    pub width: usize,
    /// Lines of the source are shown where the files can be read.
    pub sources: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { colour: false, width: 100, sources: true }
    }
}

/// So many races are listed before the first one is told.
const LISTED_MAX: usize = 10;

impl Report {
    /// Writes the report for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn text(&self, out: &mut dyn fmt::Write, style: Style) -> fmt::Result {
        let page = &mut Page::new(out, style);
        page.line(0, Paint::Bold, &self.summary())?;
        let shown: Vec<&Race> = self.races.iter().filter(|race| race.suppressed.is_none()).collect();
        list(page, &shown)?;
        for (index, race) in shown.iter().enumerate() {
            let possible = race.certainty == Certainty::PossibleAtomic;
            if possible && (index == 0 || shown[index - 1].certainty != Certainty::PossibleAtomic) {
                page.blank()?;
                page.line(0, Paint::Plain, "Possible races: accesses like these may be meant as atomics.")?;
            }
            self.race(page, race)?;
        }
        self.rest(page)
    }

    /// How many races of which sort, in one line.
    pub fn summary(&self) -> String {
        let counts = self.counts();
        let races = counts.certain + counts.after_first;
        let told = self.races.iter().filter(|race| race.suppressed.is_none());
        let data = told.into_iter().all(|race| race.kind == RaceKind::Data);
        let what = if data { "data race" } else { "race" };
        let certainty = match (counts.certain, counts.after_first) {
            (_, 0) => String::new(),
            (0, _) => ", after the first race".to_owned(),
            (certain, after) => format!(": {certain} certain, {after} after the first race"),
        };
        let unplaced = self.unplaced.bytes;
        let found = match (races, &self.diverged) {
            (0, _) if unplaced > 0 => None,
            (0, Some(_)) => Some("no data races found before the replay left its recording".to_owned()),
            (0, None) if !self.complete => Some("no data races found in what was observed".to_owned()),
            (0, None) => Some("no data races".to_owned()),
            _ => Some(plural(races as u64, what) + &certainty),
        };
        let unplaced = (unplaced > 0).then(|| {
            let race = match (self.unplaced.certain, unplaced) {
                (true, 1) => "races",
                (true, _) => "race",
                (false, _) => "may race",
            };
            format!("{} {race}, places not found", plural(unplaced, "byte"))
        });
        let possible = (counts.possible > 0).then(|| format!("{} possible (atomic?)", counts.possible));
        let suppressed = (counts.suppressed > 0).then(|| format!("{} suppressed", counts.suppressed));
        let parts: Vec<String> = [found, unplaced, possible, suppressed].into_iter().flatten().collect();
        parts.join("; ")
    }

    fn race(&self, page: &mut Page<'_>, race: &Race) -> fmt::Result {
        page.blank()?;
        page.hanging(0, 4, Paint::Headline, &format!("#{} {}", race.number, headline(race)))?;
        let mut times = if race.count > 1 { format!("; seen {} times", race.count) } else { String::new() };
        let bytes = race.bytes_in_all();
        if bytes > race.size() {
            times = format!("{times}; {bytes} bytes race in these two places");
        }
        page.hanging(2, 4, Paint::Plain, &format!("{}{times}", words::certainty(race)))?;
        object::write(page, self, race)?;
        for (index, access) in race.accesses.iter().enumerate() {
            page.blank()?;
            access::write(page, self, race, access, index == 1 && race.accesses[0].thread == access.thread)?;
        }
        page.blank()?;
        access::write_order(page, self, race)?;
        let suppress = race.suppression.as_ref().map(|rule| format!("; to suppress it: {rule}")).unwrap_or_default();
        page.hanging(2, 4, Paint::Dim, &format!("fingerprint {}{suppress}", race.fingerprint))
    }

    /// What is not about one race.
    fn rest(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(diverged) = &self.diverged {
            page.blank()?;
            let place = match diverged.thread {
                NO_THREAD => diverged.what.clone(),
                thread => {
                    format!("{}, after its event {}: {}", words::thread(self, thread), diverged.event, diverged.what)
                }
            };
            let found = if self.races.is_empty() { "" } else { " What is reported above happened before that." };
            page.hanging(0, 2, Paint::Plain, &format!("The replay left its recording here: {place}.{found}"))?;
        } else if !self.complete {
            page.blank()?;
            page.line(0, Paint::Plain, "The replay ended before it had told everything: there may be more races.")?;
        }
        if self.atomic_pairs > 0 {
            page.blank()?;
            let pairs = plural(self.atomic_pairs as u64, "pair");
            page.line(0, Paint::Plain, &format!("Unordered atomic operations, which are no races: {pairs}."))?;
        }
        if !self.unobserved.is_empty() {
            page.blank()?;
            page.line(0, Paint::Bold, "Not observed:")?;
            for one in &self.unobserved {
                page.hanging(2, 4, Paint::Plain, &format!("{} ({})", one.what, plural(one.count, "time")))?;
            }
        }
        if let Some(segments) = &self.segments {
            page.blank()?;
            segments::table(page, segments)?;
        }
        for (title, lines) in [("For better names:", &self.advice), ("Suppressions that hid nothing:", &self.unused)] {
            if !lines.is_empty() {
                page.blank()?;
                page.line(0, Paint::Bold, title)?;
                lines.iter().try_for_each(|line| page.hanging(2, 4, Paint::Plain, line))?;
            }
        }
        Ok(())
    }
}

/// Each race in one line, if there are several.
fn list(page: &mut Page<'_>, shown: &[&Race]) -> fmt::Result {
    if shown.len() < 2 {
        return Ok(());
    }
    page.blank()?;
    for race in shown.iter().take(LISTED_MAX) {
        let certainty = match race.certainty {
            Certainty::Certain => "",
            Certainty::AfterFirst => "after the first: ",
            Certainty::PossibleAtomic => "possible: ",
        };
        page.hanging(2, 5, Paint::Plain, &format!("{:>2} {certainty}{}", race.number, headline(race)))?;
    }
    if let Some(more) = shown.len().checked_sub(LISTED_MAX).filter(|&more| more > 0) {
        page.line(5, Paint::Plain, &format!("and {more} more"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
