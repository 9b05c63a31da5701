//! The plan, read back as the runtime reads it.

use crate::model::sample;
use relive_trace::bytes::{read_plan_header, read_plan_process, read_plan_thread};
use relive_trace::derived::DerivedOrder;
use relive_trace::layout::{NONE, end};
use relive_trace::plan::{PLAN_MAGIC, PlanProcess, PlanThread, part};
use relive_trace::plan_builder::PlanBuilder;

#[test]
fn every_table_and_stream_stands_where_the_plan_says() {
    let mut model = sample();
    (model.files[0].header.end, model.files[0].header.exit_code, model.files[0].header.exit_thread) =
        (end::EXITED, 5, 1);
    let recording = model.recording();
    let waiting = recording.thread(2).unwrap();
    let first = recording.thread(0).unwrap().events().next().unwrap();
    let later = waiting.events().find(|event| event.time > first.time).unwrap();
    let order = DerivedOrder::from_waits(&recording, [(2, vec![(later.number, 0, 1)])]).unwrap();

    let builder = PlanBuilder::new(&recording, Some(&order)).with_parts(&[part::AHEAD, part::ALONE]);
    let mut plan = Vec::new();
    builder.write(&mut plan).unwrap();
    assert_eq!(plan.len() as u64, builder.bytes());

    let header = read_plan_header(&plan).unwrap();
    assert_eq!((header.magic, header.thread_count, header.process_count), (PLAN_MAGIC, 3, 2));
    for index in 0..3u32 {
        let at = header.threads_offset as usize + index as usize * size_of::<PlanThread>();
        let thread = read_plan_thread(&plan[at..]).unwrap();
        let recorded = recording.thread(index).unwrap();
        let part = |offset: u64, length: u64| &plan[offset as usize..][..length as usize];
        assert_eq!(part(thread.stream_offset, thread.stream_len), recorded.stream);
        assert_eq!(part(thread.derived_offset, thread.derived_len), order.waits(index));
        let children: Vec<u8> = recording.children(index).iter().flat_map(|child| child.to_le_bytes()).collect();
        assert_eq!(part(thread.children_offset, thread.children_count * 4), children);
        assert_eq!((thread.parent, thread.events), (recorded.parent.unwrap_or(NONE), recorded.events));
        assert_eq!((thread.start_clock, thread.finished), (recorded.start_clock, u32::from(index == 2)));
        assert_eq!(thread.process, u32::from(index == 2));
        assert!(thread.children_offset.is_multiple_of(4), "the runtime reads the children in place");
    }
    let at = header.processes_offset as usize;
    let first = read_plan_process(&plan[at..]).unwrap();
    assert_eq!((first.main_thread, first.end, first.exit_code, first.exit_thread), (0, end::EXITED, 5, 1));
    let second = read_plan_process(&plan[at + size_of::<PlanProcess>()..]).unwrap();
    assert_eq!((second.main_thread, second.end, second.exit_thread), (2, end::LIVE, NONE));
    assert_eq!([first.part, second.part], [part::AHEAD, part::ALONE]);
}
