//! Builds the plan of a replay from a verified recording.
//!
//! The runtime reads the plan inside the program without checking it, so only
//! what passed [`Recording::open`] and [`DerivedOrder::read`] may come here.

use crate::bytes::{write_plan_header, write_plan_process, write_plan_thread};
use crate::derived::DerivedOrder;
use crate::layout::{NONE, end};
use crate::plan::{PLAN_MAGIC, PlanHeader, PlanProcess, PlanThread, part};
use crate::recording::{End, Recording};
use crate::stream::ThreadStream;
use std::io::{self, Write};

/// Where everything of a plan will stand.
#[derive(Debug)]
pub struct PlanBuilder<'a> {
    recording: &'a Recording,
    derived: Option<&'a DerivedOrder>,
    parts: &'a [u32],
    children_offset: u64,
    streams_offset: u64,
    bytes: u64,
}

impl<'a> PlanBuilder<'a> {
    /// Lays out the plan that replays `recording`, by its derived order if one is given.
    pub fn new(recording: &'a Recording, derived: Option<&'a DerivedOrder>) -> Self {
        let threads = u64::from(recording.thread_count()) * size_of::<PlanThread>() as u64;
        let processes = u64::from(recording.process_count()) * size_of::<PlanProcess>() as u64;
        let children: usize = (0..recording.thread_count()).map(|thread| recording.children(thread).len()).sum();
        let children_offset = size_of::<PlanHeader>() as u64 + threads + processes;
        let streams_offset = children_offset + (children * size_of::<u32>()) as u64;
        let mut plan = Self { recording, derived, parts: &[], children_offset, streams_offset, bytes: streams_offset };
        plan.bytes += recording.threads().map(|thread| thread.stream.len() as u64).sum::<u64>();
        plan.bytes += recording.threads().map(|thread| plan.waits(thread).len() as u64).sum::<u64>();
        plan
    }

    /// Gives each process image, by index, its [`part`]; without, each does all that it did.
    #[must_use]
    pub fn with_parts(self, parts: &'a [u32]) -> Self {
        Self { parts, ..self }
    }

    /// Bytes of the plan.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the plan, exactly [`PlanBuilder::bytes`] bytes.
    ///
    /// # Errors
    /// What `to` says.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let threads_offset = size_of::<PlanHeader>() as u64;
        let thread_count = self.recording.thread_count();
        to.write_all(&write_plan_header(&PlanHeader {
            magic: PLAN_MAGIC,
            thread_count,
            process_count: self.recording.process_count(),
            threads_offset,
            processes_offset: threads_offset + u64::from(thread_count) * size_of::<PlanThread>() as u64,
        }))?;
        self.write_threads(to)?;
        for index in 0..self.recording.process_count() {
            to.write_all(&write_plan_process(&self.process(index)))?;
        }
        for index in 0..thread_count {
            for child in self.recording.children(index) {
                to.write_all(&child.to_le_bytes())?;
            }
        }
        for thread in self.recording.threads() {
            to.write_all(&thread.stream)?;
            to.write_all(self.waits(thread))?;
        }
        Ok(())
    }

    fn waits(&self, thread: &ThreadStream) -> &'a [u8] {
        self.derived.map_or(&[], |order| order.waits(thread.index))
    }

    fn write_threads(&self, to: &mut impl Write) -> io::Result<()> {
        let mut process_of = vec![NONE; self.recording.thread_count() as usize];
        for process in self.recording.processes() {
            process.threads.iter().for_each(|&thread| process_of[thread as usize] = process.index);
        }
        let (mut stream, mut children) = (self.streams_offset, self.children_offset);
        for (index, process) in process_of.into_iter().enumerate() {
            let children_count = self.recording.children(index as u32).len() as u64;
            let thread = self.recording.thread(index as u32);
            let stream_len = thread.map_or(0, |thread| thread.stream.len() as u64);
            let derived_len = thread.map_or(0, |thread| self.waits(thread).len() as u64);
            to.write_all(&write_plan_thread(&PlanThread {
                parent: thread.and_then(|thread| thread.parent).unwrap_or(NONE),
                child_number: thread.map_or(0, |thread| thread.child_number),
                process,
                finished: thread.map_or(0, |thread| u32::from(thread.finished)),
                events: thread.map_or(0, |thread| thread.events),
                start_clock: thread.map_or(0, |thread| thread.start_clock),
                stream_offset: stream,
                stream_len,
                derived_offset: stream + stream_len,
                derived_len,
                children_offset: children,
                children_count,
            }))?;
            stream += stream_len + derived_len;
            children += children_count * size_of::<u32>() as u64;
        }
        Ok(())
    }

    fn process(&self, index: u32) -> PlanProcess {
        let part = self.parts.get(index as usize).copied().unwrap_or(part::WHOLE);
        let (main_thread, exit_thread) = (NONE, NONE);
        let absent = PlanProcess { main_thread, end: end::LIVE, exit_code: 0, exit_thread, pid: 0, part };
        let Some(process) = self.recording.process(index) else { return absent };
        let plan = PlanProcess { main_thread: process.main_thread, pid: process.pid, ..absent };
        match process.end {
            End::Live => plan,
            End::Exited { code, thread } => {
                PlanProcess { end: end::EXITED, exit_code: code, exit_thread: thread.unwrap_or(NONE), ..plan }
            }
            End::Executed { thread } => PlanProcess { end: end::EXECUTED, exit_thread: thread.unwrap_or(NONE), ..plan },
            End::Stopped { .. } => PlanProcess { end: end::STOPPED, ..plan },
        }
    }
}
