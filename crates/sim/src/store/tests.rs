use std::fs;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::world::tests::{paper, percent};
use headend_scenario::Scenario;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Two loss rates, seven runs of each.
fn points() -> Arc<[Point]> {
    let point = |(index, loss)| Point {
        index,
        settings: vec![("links.hfc.loss".into(), format!("{loss}%"))],
        scenario: Scenario { runs: 7, ..paper(30_000, percent(loss)) },
    };
    [1, 3].into_iter().enumerate().map(point).collect()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("headend-store-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// A store of three-run tasks: 14 runs are five, the third of both points.
fn store(folder: &Path) -> Result<Store, Error> {
    Store::open(folder, points(), "# as run\n", Some(3), &|| false)
}

fn fill(store: &Store, shard: &str) -> u64 {
    let work = Work { shard: shard.parse().unwrap(), threads: None, stop: &NEVER };
    store.fill(&work, &mut |_| {}).unwrap()
}

/// Every file of a store but its temporary ones, with what is in it.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(
                files(&entry).into_iter().map(|(name, text)| (Path::new(entry.file_name().unwrap()).join(name), text)),
            );
        } else {
            found.push((entry.file_name().unwrap().into(), fs::read(entry).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn shards_together_are_the_same_files_as_the_whole() {
    let [whole, shards] = ["whole", "shards"].map(folder);
    assert_eq!(fill(&store(&whole).unwrap(), "1/1"), 5);
    let parts = ["1/3", "2/3", "3/3"].map(|shard| fill(&store(&shards).unwrap(), shard));
    assert_eq!(parts, [2, 2, 1]);
    assert_eq!(files(&whole).len(), 2 + 3 * 5, "a header, the scenario, and flows, links and a record for each task");
    assert_eq!(files(&whole), files(&shards));
    for folder in [whole, shards] {
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn parts_that_are_whole_are_skipped_and_damaged_ones_made_again() {
    let folder = folder("damaged");
    let store = store(&folder).unwrap();
    fill(&store, "1/1");
    assert_eq!(fill(&store, "1/1"), 0);
    let undamaged = files(&folder);
    let part = |table: &str, task, ending| folder.join(table).join(format!("{}.{ending}", store.name(task)));
    let mut bytes = fs::read(part("flows", 0, "parquet")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(part("flows", 0, "parquet"), &bytes).unwrap();
    fs::write(part("links", 1, "parquet"), "").unwrap();
    fs::remove_file(part("links", 2, "parquet")).unwrap();
    fs::write(part("parts", 3, "json"), "{\"tables\":").unwrap();
    assert_eq!(fill(&store, "1/1"), 4);
    assert_eq!(files(&folder), undamaged);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_store_of_another_build_or_study_is_refused() {
    let folder = folder("others");
    store(&folder).unwrap();
    let open = |points, runs| Store::open(&folder, points, "", runs, &|| false);
    let mut other = points().to_vec();
    other[1].scenario.seed += 1;
    assert!(matches!(open(other.into(), None), Err(Error::OtherStudy(_))));
    assert!(matches!(open(points(), Some(4)), Err(Error::OtherTasks(_, 3))));
    assert_eq!(open(points(), None).unwrap().tasks(), 5);
    let header = fs::read_to_string(folder.join(HEADER)).unwrap();
    fs::write(folder.join(HEADER), header.replace(BUILD, "0.0.9+1234")).unwrap();
    let refused = open(points(), None).unwrap_err().to_string();
    assert!(refused.contains("0.0.9+1234") && refused.contains(BUILD), "{refused}");
    fs::write(folder.join(HEADER), "{}").unwrap();
    assert!(matches!(open(points(), None), Err(Error::NotAStore(_))));
    fs::remove_file(folder.join(HEADER)).unwrap();
    fs::write(folder.join("thesis.txt"), "").unwrap();
    assert!(matches!(open(points(), None), Err(Error::NotAStore(_))));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_interrupted_task_leaves_no_part() {
    let folder = folder("interrupted");
    let store = store(&folder).unwrap();
    let stop = AtomicBool::new(true);
    let work = Work { shard: Shard::WHOLE, threads: None, stop: &stop };
    let ended = store.fill(&work, &mut |_| {});
    assert!(matches!(ended, Err(Error::Interrupted(Progress { done: 0, total: 14 }))), "{ended:?}");
    assert!(!store.make(0, &|| true, &|| ()).unwrap());
    assert!(!store.has(0).unwrap());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_size_of_tasks_follows_from_the_study_alone() {
    let runs = plan::task_runs(&points(), &|| false);
    assert_eq!(runs, plan::task_runs(&points(), &|| false));
    // A transfer of 30 KB is some 21 segments and their acknowledgements over three links.
    assert!((5_000..20_000).contains(&runs.unwrap()), "{runs:?}");
    assert_eq!(plan::task_runs(&points(), &|| true), None);
}

#[test]
fn a_shard_is_written_as_its_number_of_how_many() {
    assert!("3/40".parse::<Shard>().unwrap().has(42));
    for wrong in ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "a/b"] {
        assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
    }
}
