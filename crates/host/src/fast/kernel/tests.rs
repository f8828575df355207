//! These put programs into the running kernel: they need root and say so where they are skipped.

use std::fs;
use std::path::Path;

use super::*;
use crate::socket::kernel_names;

/// A name that no other test or process has.
fn name(of: &str) -> String {
    format!("ht{of}_{}", std::process::id())
}

fn can_load() -> bool {
    let missing = super::super::missing();
    if let Some(text) = &missing {
        eprintln!("skipped: {text}");
    }
    missing.is_none()
}

fn is_there(name: &str) -> bool {
    kernel_names().iter().any(|known| known == name)
}

#[test]
fn a_controller_lives_as_long_as_the_link_or_map_that_holds_it() {
    if !can_load() {
        return;
    }
    for (by_link, name) in [(true, name("l")), (false, name("m"))] {
        let loaded = Loaded::load_as(&name, Parameters::DEFAULT, by_link).unwrap();
        assert!(is_there(&name), "{name}: {:?}", kernel_names());
        drop(loaded);
        assert!(!is_there(&name), "{name}: {:?}", kernel_names());
    }
}

#[test]
fn a_pinned_link_or_map_is_found_changed_and_removed() {
    if !can_load() {
        return;
    }
    for (by_link, name) in [(true, name("kl")), (false, name("km"))] {
        let parameters = Parameters { alpha_packets: 7, ..Parameters::DEFAULT };
        let loaded = Loaded::load_as(&name, parameters, by_link).unwrap();
        loaded.keep(&name, Some("cubic")).unwrap();
        assert!(is_there(&name));
        let wanted = Installed { name: name.clone(), parameters, default_before: Some("cubic".to_owned()) };
        assert!(installed().unwrap().contains(&wanted), "{:?}", installed());
        let other = Parameters { alpha_packets: 9, gamma_percent: 25, update_rounds: 3, check_seconds: 0 };
        set(&name, other).unwrap();
        assert_eq!(read(&name).unwrap(), Installed { parameters: other, ..wanted });
        remove(&name).unwrap();
        assert!(!is_there(&name));
        let error = remove(&name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("headend cc list"), "{error}");
    }
}

#[test]
fn a_folder_that_is_not_ours_hides_nothing_of_what_is() {
    if !can_load() {
        return;
    }
    bpf::mount().unwrap();
    let strange = Path::new(FOLDER).join(format!("not-ours-{}", std::process::id()));
    fs::create_dir_all(&strange).unwrap();
    let found = installed();
    fs::remove_dir(&strange).unwrap();
    found.unwrap();
}

#[test]
fn a_name_that_is_taken_is_refused_by_the_kernel_and_nothing_is_left() {
    if !can_load() {
        return;
    }
    let name = name("t");
    let first = Loaded::load_as(&name, Parameters::DEFAULT, true).unwrap();
    let error = Loaded::load_as(&name, Parameters::DEFAULT, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    drop(first);
    assert!(!is_there(&name));
}

#[test]
fn the_kernel_computes_the_windows_of_the_vectors() {
    const VECTORS: &str = include_str!("../../../../engine/src/cc/fast/vectors.csv");
    const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fast_vectors.bpf.o"));
    if !can_load() {
        return;
    }
    let object = open(PROGRAM).unwrap().load().map_err(told).unwrap();
    let program = object.progs_mut().next().unwrap();
    // `struct fast_vector`: event, to_cwnd, to_ssthresh, heard (three numbers and two flags), four parameters, law (72 bytes).
    let mut vector = [0_u8; 144];
    let mut checked = 0;
    for (number, line) in VECTORS.lines().enumerate().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let value = |column: usize| cells[column].parse::<u64>().unwrap_or(0);
        let event =
            ["start", "ack", "halve", "restart", "undo", "begin"].iter().position(|event| *event == cells[4]).unwrap()
                as u64;
        let to = if event == 0 { (value(12), value(13)) } else { (value(10), value(11)) };
        let words = [event, to.0, to.1, value(5), value(6), value(7)];
        for (index, word) in words.into_iter().enumerate() {
            vector[8 * index..8 * index + 8].copy_from_slice(&word.to_ne_bytes());
        }
        (vector[48], vector[49]) = (value(8) as u8, value(9) as u8);
        for (index, column) in [1, 2, 3, 14].into_iter().enumerate() {
            vector[56 + 4 * index..60 + 4 * index].copy_from_slice(&(value(column) as u32).to_ne_bytes());
        }
        let input = libbpf_rs::ProgramInput { context_in: Some(&mut vector), ..Default::default() };
        program.test_run(input).map_err(told).unwrap();
        let law = |index: usize| u64::from_ne_bytes(vector[72 + 8 * index..80 + 8 * index].try_into().unwrap());
        assert_eq!((law(0), law(1)), (value(12), value(13)), "line {}: {line}", number + 1);
        checked += 1;
    }
    assert!(checked > 500, "{checked} rows");
}
