//! Network namespaces, made for real: these tests need root and say so where they are skipped.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use headend_host::netns::{self, Namespace};

/// A name of this test process, taken away again when the test ends, however it ends.
struct Name(String);

impl Name {
    fn new(of: &str) -> Name {
        Name(format!("headend-test-{}-{of}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        netns::remove(&self.0).expect("a namespace of this test can be removed");
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: making network namespaces takes root");
    }
    is_root
}

/// The network namespace of the calling thread.
fn here() -> String {
    fs::read_link("/proc/thread-self/ns/net").expect("/proc is mounted").display().to_string()
}

/// The devices that the calling thread sees: one line each in /proc/net/dev, after two of headings.
fn devices() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").expect("/proc is mounted");
    text.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

#[test]
fn a_namespace_has_its_own_devices_and_leaves_the_caller_where_it_was() {
    if !is_root() {
        return;
    }
    let name = Name::new("own");
    let before = here();
    let namespace = Namespace::create(&name.0).expect("root may make a namespace");
    let (inside, devices) = namespace.run(|| (here(), devices())).expect("it can be entered");
    assert_ne!(inside, before, "inside is another namespace");
    assert_eq!(here(), before, "the caller has not moved");
    assert_eq!(devices, BTreeSet::from(["lo".to_owned()]), "a new namespace has a loopback and nothing else");
}

#[test]
fn ip_netns_lists_what_is_made_here_and_opens_what_it_made_itself() {
    if !is_root() {
        return;
    }
    let ip = |arguments: &[&str]| Command::new("ip").arg("netns").args(arguments).output();
    let Ok(output) = ip(&["list"]) else {
        eprintln!("skipped: no `ip` on this machine");
        return;
    };
    assert!(output.status.success());
    let (ours, its) = (Name::new("ours"), Name::new("its"));
    let made = Namespace::create(&ours.0).expect("root may make a namespace");
    let listed = ip(&["list"]).expect("it ran before");
    assert!(String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.split(' ').next() == Some(made.name())));
    assert!(ip(&["add", &its.0]).expect("it ran before").status.success());
    let opened = Namespace::open(&its.0).expect("made by ip netns");
    assert_ne!(opened.run(here).expect("entered"), made.run(here).expect("entered"));
    assert!(netns::names().expect("the folder is there").contains(&its.0));
}

#[test]
fn a_removed_namespace_is_gone_and_removing_it_again_is_no_error() {
    if !is_root() {
        return;
    }
    let name = Name::new("gone");
    drop(Namespace::create(&name.0).expect("root may make a namespace"));
    netns::remove(&name.0).expect("removed");
    assert!(!netns::names().expect("the folder is there").contains(&name.0));
    assert_eq!(Namespace::open(&name.0).expect_err("it is gone").kind(), ErrorKind::NotFound);
    netns::remove(&name.0).expect("there is none, as wanted");
}

#[test]
fn a_name_is_given_once_and_has_no_slash() {
    for name in ["", ".", "..", "a/b", "../escape"] {
        let error = Namespace::create(name).expect_err("no name for a file");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    if !is_root() {
        return;
    }
    let name = Name::new("twice");
    let _first = Namespace::create(&name.0).expect("root may make a namespace");
    let error = Namespace::create(&name.0).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(error.to_string().contains(&name.0), "{error}");
}

#[test]
fn a_process_inside_is_found() {
    if !is_root() {
        return;
    }
    let name = Name::new("inside");
    let namespace = Namespace::create(&name.0).expect("root may make a namespace");
    assert_eq!(namespace.processes().expect("/proc can be read"), Vec::<u32>::new());
    let child = namespace.run(|| Command::new("sleep").arg("60").spawn());
    let mut child = child.expect("entered").expect("sleep is on every system");
    let found = namespace.processes();
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    assert_eq!(found.expect("/proc can be read"), [child.id()]);
}

#[test]
fn a_panic_inside_reaches_the_caller() {
    if !is_root() {
        return;
    }
    let name = Name::new("panic");
    let namespace = Namespace::create(&name.0).expect("root may make a namespace");
    let caught = std::panic::catch_unwind(|| namespace.run(|| panic!("on purpose")));
    assert_eq!(caught.expect_err("it panicked").downcast_ref(), Some(&"on purpose"));
}

#[test]
fn all_namespaces_are_the_own_one_first_and_each_once() {
    if !is_root() {
        return;
    }
    let name = Name::new("all");
    let inside = Namespace::create(&name.0).expect("root may make a namespace").run(here).expect("it can be entered");
    let all = Namespace::all();
    let found: Vec<String> = all.iter().map(|it| it.run(here).expect("it can be entered")).collect();
    assert_eq!(found.first(), Some(&here()));
    assert_eq!(found.iter().filter(|it| **it == inside).count(), 1, "{found:?}");
    assert!(all.iter().any(|it| it.name() == name.0), "{all:?}");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "{found:?}");
}

#[test]
fn a_visitor_with_one_thread_is_none_of_a_namespace_s_processes() {
    if !is_root() {
        return;
    }
    let name = Name::new("look");
    let namespace = Namespace::create(&name.0).expect("root may make a namespace");
    let found = namespace.run(|| namespace.processes()).expect("it can be entered");
    assert_eq!(found.expect("/proc can be read"), Vec::<u32>::new());
}
