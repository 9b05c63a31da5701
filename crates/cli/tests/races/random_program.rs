//! What a random program is made of, and how one is drawn.
//!
//! Apart from running it because any list of steps is a program: what a step's thread
//! can't do at its turn is left out. The steps are one possible order of the program's
//! operations, and two rules keep every other order from deadlock: locks are taken by
//! rising rank, and who waits for a token, a meeting or a thread's end holds none.

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use std::fmt::Write;

const THREADS: usize = 8;
const BARRIERS: usize = 16;
const TOKENS: usize = 64;
/// The mutex that goes with conditions.
const GIVING: u8 = 2;
/// The mutex that guards accesses where a program is careful.
const GUARD: u8 = 3;
const MUTEXES: u8 = 3;
const RWLOCKS: u8 = 2;

/// One operation, by a thread that is chosen among those there are.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    who: u8,
    what: What,
}

/// An operation; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum What {
    Access { site: u8, luck: u8 },
    AccessOften(u8),
    Lock(u8),
    ReadLock(u8),
    WriteLock(u8),
    Unlock,
    Post,
    Wait(u8),
    Give,
    Take(u8),
    Create { detached: bool },
    Join,
    End,
    Meet(u8),
    LetOthersRun(u8),
}

/// How careful a program is, and what it does.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// So many of ten accesses are guarded.
    care: u8,
    /// Different lines that it has: few make threads meet.
    sites: Vec<u8>,
    steps: Vec<Step>,
}

/// Programs.
pub(crate) fn programs() -> BoxedStrategy<Drawn> {
    let care = prop_oneof![2 => Just(10), 2 => Just(8), 3 => 0..8u8];
    (care, vec(any::<u8>(), 1..12), vec(step(), 20..100))
        .prop_map(|(care, sites, steps)| Drawn { care, sites, steps })
        .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let what = prop_oneof![
        24 => (any::<u8>(), 0..10u8).prop_map(|(site, luck)| What::Access { site, luck }),
        2 => any::<u8>().prop_map(What::AccessOften),
        4 => (0..MUTEXES).prop_map(What::Lock),
        3 => (0..RWLOCKS).prop_map(What::ReadLock),
        2 => (0..RWLOCKS).prop_map(What::WriteLock),
        8 => Just(What::Unlock),
        3 => Just(What::Post),
        4 => any::<u8>().prop_map(What::Wait),
        2 => Just(What::Give),
        3 => any::<u8>().prop_map(What::Take),
        6 => any::<bool>().prop_map(|detached| What::Create { detached }),
        2 => Just(What::Join),
        2 => Just(What::End),
        2 => any::<u8>().prop_map(What::Meet),
        4 => (1..4u8).prop_map(What::LetOthersRun),
    ];
    (any::<u8>(), what).prop_map(|(who, what)| Step { who, what }).boxed()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Mutex(u8),
    Read(u8),
    Write(u8),
}

impl Held {
    /// One waits only for what ranks above all that one holds.
    const fn rank(self) -> u8 {
        match self {
            Held::Mutex(GUARD) => u8::MAX,
            Held::Mutex(which) => which,
            Held::Read(which) | Held::Write(which) => 10 + which,
        }
    }
}

#[derive(Debug, Default)]
struct Thread {
    script: String,
    held: Vec<Held>,
    children: Vec<usize>,
    detached: bool,
    ended: bool,
    joined: bool,
}

/// The scripts that come of the steps.
#[derive(Debug)]
struct Scripts<'a> {
    drawn: &'a Drawn,
    threads: Vec<Thread>,
    /// Tokens that nobody waits for yet, and those that were given by condition.
    posted: Vec<usize>,
    given: Vec<usize>,
    tokens: usize,
    /// The members of each barrier.
    barriers: Vec<Vec<usize>>,
}

/// The program as the interpreter reads it, with `lines[site]` for each access.
pub(crate) fn text(drawn: &Drawn, lines: &[u32]) -> String {
    let mut scripts = Scripts {
        drawn,
        threads: vec![Thread::default()],
        posted: Vec::new(),
        given: Vec::new(),
        tokens: 0,
        barriers: Vec::new(),
    };
    for step in &drawn.steps {
        scripts.take_step(step, lines);
    }
    scripts.end_all();
    let texts: Vec<String> = scripts.threads.into_iter().map(|thread| thread.script).collect();
    texts.join("/")
}

impl Scripts<'_> {
    fn take_step(&mut self, step: &Step, lines: &[u32]) {
        let alive: Vec<usize> = (0..self.threads.len()).filter(|&who| !self.threads[who].ended).collect();
        let who = alive[usize::from(step.who) % alive.len()];
        let free = self.threads[who].held.is_empty();
        match step.what {
            What::Access { site, luck } => self.access(who, site, luck < self.drawn.care, lines),
            What::AccessOften(site) => self.access_often(who, site, lines),
            What::Lock(which) => self.hold(who, Held::Mutex(which)),
            What::ReadLock(which) => self.hold(who, Held::Read(which)),
            What::WriteLock(which) => self.hold(who, Held::Write(which)),
            What::Unlock => self.unlock(who),
            What::Post if self.tokens < TOKENS => {
                self.say(who, 'p', self.tokens);
                self.posted.push(self.tokens);
                self.tokens += 1;
            }
            What::Give if self.tokens < TOKENS && self.may_hold(who, Held::Mutex(GIVING)) => {
                self.say(who, 'g', self.tokens);
                self.given.push(self.tokens);
                self.tokens += 1;
            }
            What::Wait(which) if free && !self.posted.is_empty() => {
                let token = self.posted.swap_remove(usize::from(which) % self.posted.len());
                self.say(who, 'v', token);
            }
            What::Take(which) if free && !self.given.is_empty() => {
                let token = self.given[usize::from(which) % self.given.len()];
                self.say(who, 't', token);
            }
            What::Create { detached } if self.threads.len() < THREADS => self.create(who, detached),
            What::Join if free => self.join_ended(who),
            What::End if who != 0 => self.end(who),
            What::Meet(members) => self.meet(members),
            What::LetOthersRun(times) => self.say(who, 'y', usize::from(times)),
            _ => {}
        }
    }

    fn say(&mut self, who: usize, what: char, which: usize) {
        let _ = write!(self.threads[who].script, "{what}{which}");
    }

    /// The line of a site.
    fn line(&self, site: u8, lines: &[u32]) -> usize {
        lines[usize::from(self.drawn.sites[usize::from(site) % self.drawn.sites.len()]) % lines.len()] as usize
    }

    /// Each under the guard: what a thread reads in one segment after the other is noted in its own way.
    fn access_often(&mut self, who: usize, site: u8, lines: &[u32]) {
        if self.may_hold(who, Held::Mutex(GUARD)) {
            self.say(who, 'o', self.line(site, lines));
        }
    }

    fn access(&mut self, who: usize, site: u8, careful: bool, lines: &[u32]) {
        let guard = Held::Mutex(GUARD);
        if careful {
            self.hold(who, guard);
        }
        self.say(who, 'a', self.line(site, lines));
        if careful {
            self.unlock(who);
        }
    }

    fn may_hold(&self, who: usize, what: Held) -> bool {
        self.threads[who].held.iter().all(|held| held.rank() < what.rank())
    }

    fn hold(&mut self, who: usize, what: Held) {
        if !self.may_hold(who, what) {
            return;
        }
        let (letter, which) = match what {
            Held::Mutex(which) => ('l', which),
            Held::Read(which) => ('r', which),
            Held::Write(which) => ('w', which),
        };
        self.say(who, letter, usize::from(which));
        self.threads[who].held.push(what);
    }

    fn unlock(&mut self, who: usize) {
        let (letter, which) = match self.threads[who].held.pop() {
            Some(Held::Mutex(which)) => ('u', which),
            Some(Held::Read(which)) => ('s', which),
            Some(Held::Write(which)) => ('x', which),
            None => return,
        };
        self.say(who, letter, usize::from(which));
    }

    fn create(&mut self, who: usize, detached: bool) {
        let child = self.threads.len();
        self.say(who, if detached { 'd' } else { 'c' }, child);
        self.threads[who].children.push(child);
        self.threads.push(Thread { detached, ..Thread::default() });
    }

    /// Joins what children have ended.
    fn join_ended(&mut self, who: usize) {
        for child in self.threads[who].children.clone() {
            if self.threads[child].ended && !self.threads[child].joined {
                self.threads[child].joined = true;
                self.say(who, if self.threads[child].detached { 'e' } else { 'j' }, child);
            }
        }
    }

    /// Ends it unless a child of its goes on.
    fn end(&mut self, who: usize) {
        if self.threads[who].children.iter().any(|&child| !self.threads[child].ended) {
            return;
        }
        while !self.threads[who].held.is_empty() {
            self.unlock(who);
        }
        self.join_ended(who);
        self.threads[who].ended = true;
    }

    fn end_all(&mut self) {
        // Children come after their parents.
        for who in (0..self.threads.len()).rev() {
            if !self.threads[who].ended {
                self.end(who);
            }
        }
    }

    /// Those of the members that hold nothing meet; the same ones always at the same barrier.
    fn meet(&mut self, members: u8) {
        let may = |who: &usize| {
            let thread = &self.threads[*who];
            members & 1 << who != 0 && !thread.ended && thread.held.is_empty()
        };
        let members: Vec<usize> = (0..self.threads.len()).filter(may).collect();
        let known = self.barriers.iter().position(|known| *known == members);
        if members.len() < 2 || (known.is_none() && self.barriers.len() == BARRIERS) {
            return;
        }
        let which = known.unwrap_or(self.barriers.len());
        for &who in &members {
            let _ = write!(self.threads[who].script, "b{}:{which}", members.len());
        }
        if known.is_none() {
            self.barriers.push(members);
        }
    }
}
