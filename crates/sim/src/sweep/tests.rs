use std::fs;

use super::*;
use crate::world::tests::{paper, percent};
use headend_scenario::Scenario;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Two loss rates, each run several times.
fn points(runs: u32) -> Vec<Point> {
    [1, 3]
        .into_iter()
        .enumerate()
        .map(|(index, loss)| Point {
            index,
            settings: vec![("links.hfc.loss".into(), format!("{loss}%"))],
            scenario: Scenario { runs, ..paper(100_000, percent(loss)) },
        })
        .collect()
}

fn options(threads: usize) -> Options<'static> {
    Options { threads: NonZeroUsize::new(threads), journal: None, resume: false, stop: &NEVER, trace: false }
}

fn csv(results: &Results) -> String {
    let mut text = Vec::new();
    results.flows.write_csv(&mut text).unwrap();
    results.links.write_csv(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("headend-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

#[test]
fn results_are_the_same_bytes_whatever_the_number_of_threads() {
    let points = points(4);
    let alone = run(&points, &options(1), &mut |_| {}).unwrap();
    let together = run(&points, &options(2), &mut |_| {}).unwrap();
    assert_eq!(csv(&alone), csv(&together));
    assert_eq!(alone.flows.rows(), 8);
    let text = |name: &str| alone.flows.column(name).unwrap().as_text().unwrap();
    assert_eq!((&*text("links.hfc.loss")[3], &*text("links.hfc.loss")[4]), ("1%", "3%"));
    assert_eq!(alone.flows.column("seed").unwrap().as_u64().unwrap(), [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn progress_ends_with_all_runs_done() {
    let mut last = None;
    run(&points(3), &options(2), &mut |at| last = Some(at)).unwrap();
    assert_eq!(last, Some(Progress { done: 6, total: 6 }));
}

#[test]
fn an_interrupted_sweep_keeps_its_runs_and_resumes_to_the_same_results() {
    let points = points(4);
    let folder = folder("resume");
    let stop = AtomicBool::new(false);
    let journalled = Options { journal: Some(&folder), stop: &stop, ..options(1) };
    let interrupted = run(&points, &journalled, &mut |at| stop.store(at.done >= 3, Ordering::Relaxed));
    let Err(Error::Interrupted(at)) = interrupted else { panic!("the sweep was interrupted: {interrupted:?}") };
    assert!((3..8).contains(&at.done), "{at:?}");

    // A crash may cut the last line off.
    let path = folder.join("journal.jsonl");
    let kept = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{kept}{{\"point\":1,\"ru")).unwrap();

    let again = Options { journal: Some(&folder), ..options(2) };
    assert!(matches!(run(&points, &again, &mut |_| {}), Err(Error::JournalExists(_))));
    let mut first = None;
    let resumed = run(&points, &Options { resume: true, ..again }, &mut |at| {
        first.get_or_insert(at);
    });
    assert!(first.is_some_and(|first| first.done >= at.done), "finished runs are not repeated");
    assert_eq!(csv(&resumed.unwrap()), csv(&run(&points, &options(2), &mut |_| {}).unwrap()));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_journal_of_another_scenario_is_refused() {
    let folder = folder("other");
    let journalled = Options { journal: Some(&folder), resume: true, ..options(2) };
    let mut points = points(1);
    run(&points, &journalled, &mut |_| {}).unwrap();
    points[1].scenario.seed += 1;
    let refused = run(&points, &journalled, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("another scenario"), "{refused}");
    fs::remove_dir_all(&folder).unwrap();
}
