//! Unreliable frames between two machines.

use super::*;
use crate::unreliable::Fate;

const MS: Duration = Duration::from_millis(1);

/// Sends a frame every 33 ms for so many seconds, and reads at the server. Returns how many were sent, came before their deadline, and
/// were told of with each fate but that they had left.
fn film(net: &mut Net, handles: &[Handle; 2], len: usize, life_ms: u64, seconds: u64) -> (u64, u64, Vec<Fate>) {
    let (mut sent, mut in_time, mut next) = (0_u64, 0, net.now);
    let end = net.now + Duration::from_secs(seconds);
    let mut fates = Vec::new();
    net.until(seconds + 5, |net| {
        if net.now >= next && net.now < end {
            next = net.now + MS * 33;
            let mut frame = vec![sent as u8; len];
            let deadline = net.now + MS * life_ms;
            frame[..8].copy_from_slice(&deadline.as_nanos().to_be_bytes());
            if net.ends[1].1.send_frame(handles[1], 0, &frame, deadline).is_ok() {
                sent += 1;
            }
        }
        while let Some(frame) = net.ends[0].1.read_frame(handles[0]) {
            let deadline = u64::from_be_bytes(*frame.first_chunk().unwrap());
            assert_eq!(frame.len(), len);
            in_time += u64::from(net.now.as_nanos() <= deadline);
        }
        for (_, event) in std::mem::take(&mut net.events) {
            if let Event::Frame(_, FrameEvent::Became(_, fate)) = event
                && fate != Fate::Sent
            {
                fates.push(fate);
            }
        }
        // Nothing else may happen until the next frame.
        let later = net.now + MS * 5;
        net.step(later);
        None::<()>
    });
    (sent, in_time, fates)
}

#[test]
fn frames_come_in_time_over_a_damaged_line_beside_a_stream() {
    let weather = Weather { lost: 20, delay_ms: 20, rate_bps: 10_000_000, queue_bytes: 50_000, ..FAIR };
    let (mut net, handles) = Net::connected(30, weather, Config::default());
    let bulk = net.ends[1].1.open(handles[1]).unwrap();
    net.ends[1].1.write(handles[1], bulk, &vec![7; 60_000]).unwrap();
    let (sent, in_time, fates) = film(&mut net, &handles, 8_000, 150, 20);
    assert!(sent > 400, "{sent} sent");
    // Six datagrams each: without repetition a loss of 2% would spoil an eighth.
    assert!(in_time * 100 >= sent * 95, "{in_time} of {sent} in time");
    assert_eq!(fates.len() as u64, sent, "each has a fate");
    let acknowledged = fates.iter().filter(|fate| **fate == Fate::Acknowledged).count() as u64;
    assert!(acknowledged * 100 >= sent * 95, "{acknowledged} of {sent} acknowledged");
}

#[test]
fn a_line_that_is_too_slow_gets_no_stale_frames() {
    // Twice what the line takes: the half that is sent must still be in time.
    let weather = Weather { delay_ms: 20, rate_bps: 1_000_000, queue_bytes: 10_000, ..FAIR };
    let (mut net, handles) = Net::connected(31, weather, Config::default());
    let (sent, in_time, fates) = film(&mut net, &handles, 8_000, 300, 20);
    let count = |wanted: Fate| fates.iter().filter(|fate| **fate == wanted).count() as u64;
    assert!(count(Fate::Expired) * 4 >= sent, "{} of {sent} expired", count(Fate::Expired));
    assert!(in_time * 4 >= sent, "{in_time} of {sent} in time");
}

#[test]
fn frames_and_streams_share_what_there_is() {
    let weather = Weather { delay_ms: 20, rate_bps: 5_000_000, queue_bytes: 50_000, ..FAIR };
    let (mut net, handles) = Net::connected(32, weather, Config::default());
    let bulk = net.ends[1].1.open(handles[1]).unwrap();
    let (mut read, mut framed, mut buffer) = (0, 0, vec![0; 100_000]);
    net.until(20, |net| {
        // Both want more than there is.
        let deadline = net.now + MS * 1_000;
        while net.ends[1].1.occupancy(handles[1]).bytes < 100_000 {
            net.ends[1].1.send_frame(handles[1], 0, &[7; 4_000], deadline).unwrap();
        }
        let _ = net.ends[1].1.write(handles[1], bulk, &[7; 50_000]);
        while let Ok(Some(len @ 1..)) = net.ends[0].1.read(handles[0], bulk, &mut buffer) {
            read += len;
        }
        while let Some(frame) = net.ends[0].1.read_frame(handles[0]) {
            framed += frame.len();
        }
        None::<()>
    });
    let percent = 100 * framed / (framed + read).max(1);
    assert!((40..=60).contains(&percent), "{framed} of frames, {read} of the stream");
    let rate_bps = net.ends[1].1.rate(handles[1]).unwrap().get();
    assert!((1_000_000..=5_000_000).contains(&rate_bps), "half of 5 Mbit/s, about: {rate_bps}");
}

#[test]
fn who_lies_about_frames_is_cut_off_and_who_takes_none_gets_none() {
    let (mut net, handles) = Net::connected(33, FAIR, Config::default());
    let mut plain = Vec::new();
    crate::frame::Frame::Part { number: 0, total: 1 << 40, offset: 0, bytes: b"abc" }.write(&mut plain);
    let now = net.now;
    net.ends[0].1.entries.get_mut(&handles[0].0).unwrap().connection.lie(now, &plain);
    net.ends[0].1.due.insert(handles[0].0);
    net.run(2);
    let told = net.ended(1).expect("it hears why").to_string();
    assert!(told.contains("longer than was allowed"), "{told}");

    let config = Config { frames: 0, ..Config::default() };
    let (mut net, handles) = Net::connected(34, FAIR, config);
    let refused = net.ends[1].1.send_frame(handles[1], 0, b"a frame", net.now + MS * 100).unwrap_err();
    assert!(refused.to_string().contains("at most 0"), "{refused}");
}

#[test]
fn a_frame_that_does_not_become_whole_holds_memory_for_ten_seconds_and_no_timer_after() {
    let config = Config { keep_alive: None, ..Config::default() };
    let (mut net, handles) = Net::connected(35, FAIR, config);
    net.run(2);
    let mut plain = Vec::new();
    crate::frame::Frame::Part { number: 0, total: 5_000, offset: 0, bytes: b"abc" }.write(&mut plain);
    let now = net.now;
    let held = |net: &Net| net.ends[0].1.entries[&handles[0].0].connection.streams.frames.receiving.held();
    net.ends[0].1.entries.get_mut(&handles[0].0).unwrap().connection.lie(now, &plain);
    net.ends[0].1.due.insert(handles[0].0);
    net.run(5);
    assert!(held(&net) > 0, "the rest may still come");
    net.run(10);
    assert_eq!((held(&net), net.ended(0)), (0, None));
    let wake = net.wakes[0].expect("the connection ends one day");
    assert!(wake.since(net.now) > Duration::from_secs(60), "nothing else is to be done: {wake:?}");
}
