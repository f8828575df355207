//! The proxy among changes and failures: nothing may crash, leak, or come out wrong.

#![cfg(target_os = "linux")]

#[path = "support/proxied.rs"]
mod proxied;

#[path = "support/operated.rs"]
mod operated;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use operated::{ADMIN, admin, status_when};
use proxied::{PATIENCE, Proxy, Server, Tongue, connected, noise, reset, rest_of, server_and_client};

/// Flows that are alive during a reload.
const FLOWS: u64 = 1_000;

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Waits until so many descriptors are open and no more.
fn settles_at(pid: u32, expected: usize) {
    let end = Instant::now() + PATIENCE;
    while descriptors(pid) > expected {
        assert!(Instant::now() < end, "{} descriptors are open, and {expected} were before", descriptors(pid));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reload_changes_no_byte_of_a_thousand_flows_and_leaks_nothing() {
    headend_host::privilege::raise_open_files(0);
    let mut proxy = Proxy::start("[limits]\nconnections_per_client = 4000\n");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let mut pairs = Vec::new();
    for flow in 0..FLOWS {
        let (server, client) = server_and_client(&proxy, Tongue::Forward);
        let sent = noise(flow, 40_000);
        (&server).write_all(&sent[..20_000]).unwrap();
        pairs.push((flow, server, client, sent));
    }
    let open = descriptors(pid);
    assert!(open as u64 >= 2 * FLOWS, "each flow has two sockets, and {open} descriptors are open");
    for connections in [3_000, 3_500] {
        proxy.edit(|text| {
            let kept: String =
                text.lines().filter(|line| !line.starts_with("connections =")).flat_map(|line| [line, "\n"]).collect();
            kept.replace("[limits]\n", &format!("[limits]\nconnections = {connections}\n"))
        });
        proxy.signal("HUP");
        proxy.says("read again");
    }
    for (_, server, _, sent) in &mut pairs {
        server.write_all(&sent[20_000..]).unwrap();
        server.shutdown(Shutdown::Write).unwrap();
    }
    for (flow, _server, mut client, sent) in pairs {
        assert!(rest_of(&mut client) == sent, "flow {flow}");
    }
    settles_at(pid, before);
}

#[test]
fn a_reload_that_cannot_be_done_whole_changes_nothing() {
    let mut proxy = Proxy::start_with("workers = 4\nuser = \"root\"\nhandover = \"one.sock\"", "");
    // It answers signals once it has opened all that it will.
    proxy.signal("HUP");
    proxy.says("read again");
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let other = |text: String| text.replace("127.0.0.1:0\"\nway = \"socks5\"", "127.0.0.2:0\"\nway = \"socks5\"");
    proxy.edit(other);
    // Enough to read the file and to open the new way in; not enough for all workers to accept from it.
    let taken: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    let fourth = (0..).filter(|number| !taken.contains(number)).nth(3).unwrap();
    limit_descriptors(pid, fourth);
    proxy.signal("HUP");
    // Whichever of the steps it is that has none left.
    proxy.says("Too many open files");
    proxy.says("Nothing has changed");
    server_and_client(&proxy, Tongue::Socks5);
    settles_at(pid, before);
    // With enough of them it is another file, all of it but for what only a restart can change.
    limit_descriptors(pid, 1_000);
    proxy.edit(|text| text.replace("one.sock", "two.sock"));
    for _ in 0..2 {
        proxy.signal("HUP");
        proxy.says("handover is what it was until the next start: it takes a restart");
        proxy.says("listening on 127.0.0.2:");
    }
    assert_eq!(TcpStream::connect(proxy.address(Tongue::Socks5)).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn options_gone_from_the_file_stay_at_listening_sockets_and_are_reported() {
    let mut proxy = Proxy::start("[local]\nmss = \"700B\"\n");
    proxy.edit(|text| text.replace("mss = \"700B\"\n", ""));
    for _ in 0..2 {
        proxy.signal("HUP");
        proxy.says("local.mss is what it was");
        proxy.says("local side: mss 700 bytes: granted");
        proxy.says("listening on");
    }
    proxy.edit(|text| text.replace("[local]\n", "[local]\nmss = \"900B\"\n"));
    proxy.signal("HUP");
    proxy.says("local side: mss 900 bytes: granted");
}

/// Limits the descriptors of a process, which only the user that runs it may do.
fn limit_descriptors(pid: u32, count: u32) {
    let limit = format!("--nofile={count}:");
    assert!(Command::new("prlimit").args(["--pid", &pid.to_string(), &limit]).status().unwrap().success());
}

#[test]
fn a_server_that_goes_away_and_comes_back_is_reached_again() {
    let mut proxy = Proxy::start("");
    let listening = Server::new();
    let address = listening.address();
    let ask = || {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(format!("CONNECT {address} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        client
    };
    // A server that ends in the middle of what it says: what it has said arrives, and that this was not all of it.
    let said = noise(10, 100_000);
    let mut first = ask();
    let mut server = listening.accept();
    server.write_all(&said).unwrap();
    let mut got = vec![0; 39 + said.len()];
    first.read_exact(&mut got).unwrap();
    assert!(got.ends_with(&said));
    reset(server);
    assert_eq!(first.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    drop(listening);
    let refused = String::from_utf8(rest_of(&mut ask())).unwrap();
    assert!(refused.starts_with("HTTP/1.1 502 "), "{refused}");
    let again = TcpListener::bind(address).unwrap();
    let mut second = ask();
    let (mut server, _) = again.accept().unwrap();
    server.write_all(&said).unwrap();
    drop(server);
    assert!(rest_of(&mut second).ends_with(&said));
    // The proxy waits for connections that are open: this one is, until the client too has ended it.
    drop(second);
    proxy.signal("TERM");
    assert_eq!(proxy.wait(), Some(0));
}

/// Descriptors that a proxy may have besides those of its start, and clients that would need more.
const DESCRIPTORS_MORE: u32 = 40;
const CROWD: usize = 100;

/// The processor time that the process has taken, in ticks: a hundred a second, as proc(5) has it.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may have spaces in it, comes field 3; utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_clients_wait_idly_and_are_served_later() {
    // A worker alone, so that no other takes the descriptor that a connection has kept for its server.
    let tables = format!("{ADMIN}[limits]\nconnections_per_client = 4000\n");
    let mut proxy = Proxy::start_with("workers = 1\nuser = \"root\"", &tables);
    let address = admin(&mut proxy);
    let pid = proxy.process_id();
    let before = descriptors(pid);
    limit_descriptors(pid, before as u32 + DESCRIPTORS_MORE);
    let crowded = Server::new();
    let mut crowd: Vec<TcpStream> = (0..CROWD).map(|_| connected(proxy.address(Tongue::Connect))).collect();
    for one in &mut crowd {
        one.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", crowded.address()).as_bytes()).unwrap();
    }
    proxy.says("no connection can be accepted, trying again until one can");
    // Nobody is refused: whoever is not served yet waits.
    let listening = Server::new();
    let mut client = connected(proxy.address(Tongue::Connect));
    client.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", listening.address()).as_bytes()).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(1_000))).unwrap();
    let ticks = processor_ticks(pid);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let spent = processor_ticks(pid) - ticks;
    assert!(spent < 50, "{spent} hundredths of a second of work in one second, for nothing");
    for (index, one) in crowd.iter_mut().enumerate() {
        one.set_nonblocking(true).unwrap();
        let mut answer = [0; 39];
        match one.read(&mut answer) {
            Ok(len) => assert!(answer[..len].starts_with(b"HTTP/1.1 200 "), "client {index} was refused"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "client {index}"),
        }
    }
    drop(crowded);
    drop(crowd);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.read_exact(&mut [0; 39]).unwrap();
    let mut server = listening.accept();
    let data = noise(9, 1_000_000);
    let sent = data.clone();
    let sender = thread::spawn(move || server.write_all(&sent).unwrap());
    assert!(rest_of(&mut client) == data);
    sender.join().unwrap();
    drop(client);
    settles_at(pid, before);
    // The kernel's memory is watched all the time: as many connections as this are what fills it.
    proxy.edit(|text| text.replace("[limits]\n", "[limits]\nsocket_memory = \"77GB\"\n"));
    proxy.signal("HUP");
    proxy.says("read again");
    status_when(address, "", |status| status["sockets"]["limit_bytes"] == 77_000_000_000_u64);
}

/// Connections at a time on a full disk, and what each carries each way.
const SPOOLED: u64 = 3;
const SPOOLED_BYTES: usize = 12_000_000;

#[test]
fn a_full_disk_holds_back_all_senders_and_loses_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let spool = folder.path().display();
    // In a namespace of the proxy's own: the disk is gone with it, however this ends.
    let script = format!("mount -t tmpfs -o size=8m,mode=1777 spool {spool} && exec \"$0\" \"$@\"");
    if !Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a disk of its own takes root and unshare (util-linux)");
        return;
    }
    let tables = format!("{ADMIN}[spool]\nfolder = \"{spool}\"\nquota = \"1GB\"\n[limits]\nmemory = \"16MB\"\n");
    let command = ["unshare", "-m", "sh", "-c", &script];
    let mut proxy = Proxy::start_by(&command, "relay = \"store\"", &tables);
    let address = admin(&mut proxy);
    let disk = format!("/proc/{}/root{spool}", proxy.process_id());
    let (before, free) = (descriptors(proxy.process_id()), free_blocks(&disk));
    let mut flows = Vec::new();
    for number in 0..SPOOLED {
        let (server, client) = server_and_client(&proxy, Tongue::Connect);
        let [up, down] = [0, 1].map(|way| noise(2 * number + way, SPOOLED_BYTES));
        let send = |from: &TcpStream, bytes: &[u8]| {
            let (mut from, bytes) = (from.try_clone().unwrap(), bytes.to_vec());
            thread::spawn(move || {
                from.write_all(&bytes).unwrap();
                from.shutdown(Shutdown::Write).unwrap();
            })
        };
        let senders = [send(&client, &up), send(&server, &down)];
        flows.push((server, client, up, down, senders));
    }
    // Nobody reads until the disk has had enough.
    proxy.says("the spool takes no more: No space left on device");
    let full = status_when(address, "", |status| status["spool"]["refusals"].as_u64() > Some(5));
    assert!(full["spool"]["bytes"].as_u64() <= Some(8 << 20), "{full:#}");
    assert_eq!(full["connections"]["open"], SPOOLED);
    let readers: Vec<_> = flows
        .into_iter()
        .flat_map(|(server, client, up, down, senders)| {
            [(server, up), (client, down)].into_iter().zip(senders).map(|((mut end, expected), sender)| {
                let reader = thread::spawn(move || assert!(rest_of(&mut end) == expected, "every byte, and once"));
                (reader, sender)
            })
        })
        .collect();
    for (reader, sender) in readers {
        reader.join().unwrap();
        sender.join().unwrap();
    }
    status_when(address, "", |status| {
        [&status["connections"]["open"], &status["spool"]["bytes"], &status["memory"]["bytes"]]
            .iter()
            .all(|one| **one == 0)
    });
    settles_at(proxy.process_id(), before);
    assert_eq!(free_blocks(&disk), free, "all of the disk is given back");
}

fn free_blocks(path: &str) -> u64 {
    rustix::fs::statvfs(path).unwrap().f_bfree
}

/// Connections that meet a fault at once, how often, and the bytes that the proxy keeps for each.
const CROWDS: u64 = 4;
const CROWD_FLOWS: usize = 200;
const KEPT_BYTES: u64 = 16_384;

/// The process's memory, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[test]
fn descriptors_and_memory_return_after_each_kind_of_end() {
    headend_host::privilege::raise_open_files(0);
    let tables = format!(
        "{ADMIN}[limits]\nconnections_per_client = 4000\nmemory_per_connection = \"{KEPT_BYTES}B\"\n\
         [local]\nsend_buffer = \"16KB\"\n[remote]\nreceive_buffer = \"16KB\"\n"
    );
    let mut proxy = Proxy::start(&tables);
    let address = admin(&mut proxy);
    let pid = proxy.process_id();
    let before = descriptors(pid);
    let bytes = noise(1, 4_000_000);
    // Joined, with the proxy full of what nobody reads.
    let full = |proxy: &Proxy| {
        let (server, client) = server_and_client(proxy, Tongue::Connect);
        server.set_nonblocking(true).unwrap();
        socket2::SockRef::from(&server).set_send_buffer_size(16_384).unwrap();
        while (&server).write(&bytes).is_ok() {}
        (server, client)
    };
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = |proxy: &Proxy, text: String| {
        let mut client = connected(proxy.address(Tongue::Connect));
        client.write_all(text.as_bytes()).unwrap();
        client
    };
    type Crowd<'a> = Box<dyn Fn(&Proxy) + 'a>;
    let many = |one: &dyn Fn(&Proxy) -> Vec<TcpStream>, proxy: &Proxy| {
        (0..CROWD_FLOWS).map(|_| one(proxy)).collect::<Vec<_>>()
    };
    let faults: [(&str, Crowd<'_>); 4] = [
        (
            "reset by the server",
            Box::new(|proxy| {
                let flows: Vec<_> = (0..CROWD_FLOWS).map(|_| full(proxy)).collect();
                let (servers, _clients): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
                servers.into_iter().for_each(reset);
            }),
        ),
        (
            "reset by the client",
            Box::new(|proxy| {
                let flows: Vec<_> = (0..CROWD_FLOWS).map(|_| full(proxy)).collect();
                let (_servers, clients): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
                clients.into_iter().for_each(reset);
            }),
        ),
        (
            "gone in the middle of its request",
            Box::new(|proxy| {
                let head = format!("GET http://{refused}/ HTTP/1.1\r\nA: {}", "a".repeat(10_000));
                drop(many(&|proxy| vec![begun(proxy, head.clone())], proxy));
            }),
        ),
        (
            "refused by the server",
            Box::new(|proxy| {
                let head = format!("CONNECT {refused} HTTP/1.1\r\n\r\n");
                for mut client in many(&|proxy| vec![begun(proxy, head.clone())], proxy).into_iter().flatten() {
                    assert!(rest_of(&mut client).starts_with(b"HTTP/1.1 502 "));
                }
            }),
        ),
    ];
    for (fault, crowd) in faults {
        let round = || {
            crowd(&proxy);
            status_when(address, "", |status| {
                [&status["connections"]["open"], &status["memory"]["bytes"]].iter().all(|one| **one == 0)
            });
            settles_at(pid, before);
        };
        // The first has the allocator take what it needs, and keeps.
        round();
        let first = resident(pid);
        (0..CROWDS).for_each(|_| round());
        let grown = resident(pid).saturating_sub(first);
        // Half of what it would be if each connection left behind what was kept for it.
        let bound = CROWDS * CROWD_FLOWS as u64 * KEPT_BYTES / 2;
        assert!(grown < bound, "{fault}: {grown} bytes more than after the first crowd, {bound} are a leak");
    }
}
