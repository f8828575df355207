use headend_engine::link::recording::{Place as Step, Series};
use headend_engine::time::{Duration, Time};
use headend_engine::units::{Chance, Rate};

use super::*;

fn read(text: &str, what: Recorded) -> Reading {
    parse(&Source { name: "path".into(), text }, what)
}

fn complaint(text: &str, what: Recorded) -> String {
    let wrong = read(text, what).expect_err("a mistake");
    format!("{}: {}", wrong.place.expect("a line"), wrong.problem)
}

/// The values that hold at these times in milliseconds.
fn at<T: Copy>(series: &Series<T>, times: &[u64]) -> Vec<T> {
    let mut step = Step::default();
    let value = |&ms: &u64| {
        step = series.seek(step, Time::ZERO + Duration::from_millis(ms));
        series.value(step)
    };
    times.iter().map(value).collect()
}

#[test]
fn a_line_is_an_opportunity_in_milliseconds_and_several_may_be_at_once() {
    let times = [0, 5, 5, 12].map(Duration::from_millis);
    assert_eq!(read("0\n5\n5\r\n12\n", Recorded::Rate).expect("a recording"), Recording::Opportunities(times.into()));
    let one = Recording::Opportunities([Duration::from_millis(7)].into());
    assert_eq!(read("7", Recorded::Rate).expect("one without a line's end"), one);
}

#[test]
fn a_mistake_in_opportunities_is_told_with_file_and_line() {
    let complaint = |text| complaint(text, Recorded::Rate);
    assert_eq!(complaint("3\nx\n"), "path:2: found \"x\", expected a whole number of milliseconds");
    assert_eq!(complaint("3\n\n4\n"), "path:2: found \"\", expected a whole number of milliseconds");
    assert_eq!(complaint("3\n-4\n"), "path:2: found \"-4\", expected a whole number of milliseconds");
    assert_eq!(complaint("3\n+4\n"), "path:2: found \"+4\", expected a whole number of milliseconds");
    assert_eq!(complaint("5\n9\n7\n"), "path:3: found \"7\", expected a time not before that of the line above");
    assert_eq!(
        complaint("0\n0\n"),
        "path:2: found \"0\", expected a later time on the last line: it ends the recording"
    );
    assert_eq!(complaint(""), "path: found \"\", expected a time in milliseconds on each line");
    assert!(complaint("99999999999\n").starts_with("path:1"));
}

const TABLE: &str = "# measured on a Monday\ntime_s,rate_mbps,delay_ms,loss_percent,cell\n\
                     5.0,12.5,20.25,0,a\n5.1,0,35,1.5,b\n5.25,,,100,\n";

#[test]
fn a_table_has_rates_delays_and_losses_over_the_time_since_its_first_line() {
    let Recording::Rates(rates) = read(TABLE, Recorded::Rate).expect("rates") else { panic!("rates") };
    // The last line lasts 150 ms, as the one before it; it says nothing of the rate.
    assert_eq!(at(&rates, &[0, 99, 100, 399, 400]), [12_500, 12_500, 0, 0, 12_500].map(Rate::kbit));
    let Recording::Delays(delays) = read(TABLE, Recorded::Delay).expect("delays") else { panic!("delays") };
    assert_eq!(at(&delays, &[0, 100, 250]), [20_250, 35_000, 35_000].map(Duration::from_micros));
    let Recording::Losses(losses) = read(TABLE, Recorded::Loss).expect("losses") else { panic!("losses") };
    let some = headend_engine::units::quantity::chance("1.5%").expect("a chance");
    assert_eq!(at(&losses, &[0, 100, 250]), [Chance::NEVER, some, Chance::ALWAYS]);
}

#[test]
fn what_headend_record_writes_is_such_a_table() {
    let text = "time_s,packets,lost,rate_bps,delay_above_least_s,delay_s\n0.000,8,0,2000000,0.001,0.021\n0.100,,,0,,\n";
    let Recording::Rates(rates) = read(text, Recorded::Rate).expect("rates") else { panic!("rates") };
    assert_eq!(at(&rates, &[0, 100, 200]), [2_000_000, 0, 2_000_000].map(Rate::bit));
    let Recording::Delays(delays) = read(text, Recorded::Delay).expect("delays") else { panic!("delays") };
    assert_eq!(at(&delays, &[0, 100]), [21; 2].map(Duration::from_millis));
}

#[test]
fn a_mistake_in_a_table_is_told_with_file_and_line() {
    let rate = |text| complaint(text, Recorded::Rate);
    let columns = "rate_bps or rate_kbps or rate_mbps or rate_gbps";
    let without = format!("path:1: found \"time_s,speed\", expected a header with a column {columns}");
    assert_eq!(rate("time_s,speed\n0,1\n"), without);
    assert!(rate("rate_bps\n1\n").contains("a column time_s or time_ms"));
    assert!(rate("time_s,rate_bps,rate_mbps\n0,1,1\n").contains("one column that begins with \"rate\""));
    assert!(rate("time_s,rate_bps\n0,1\n1\n").starts_with("path:3: found \"1\", expected 2 numbers between commas"));
    assert!(rate("time_s,rate_bps\n0,1\n0,1\n").starts_with("path:3: found \"0\", expected a time later"));
    assert!(rate("time_s,rate_bps\n0,fast\n").starts_with("path:2: found \"fast\", expected a rate from zero"));
    assert!(rate("time_s,rate_bps\n0,\n").starts_with("path:2: found \"\", expected a rate"), "there is no line above");
    assert!(rate("time_s,rate_bps\n0,0\n1,0\n").contains("some rate that is not zero"));
    assert!(rate("time_s,rate_bps\n").contains("a line of numbers behind the header"));
    assert!(complaint("time_s,delay_s\n0,3601\n", Recorded::Delay).contains("a delay from zero to an hour"));
    assert!(
        complaint("time_s,loss_share\n0,1.1\n", Recorded::Loss).contains("a probability in the unit of the header")
    );
}

#[test]
fn leoreplayer_s_delays_are_one_a_line() {
    let delays = [24, 18].map(Duration::from_millis);
    assert_eq!(read("24\n18\n", Recorded::Delay).expect("delays"), Recording::DelaysBySpan(delays.into()));
    assert!(complaint("24\nx\n", Recorded::Delay).starts_with("path:2: found \"x\", expected a delay"));
    assert!(complaint("", Recorded::Delay).contains("a delay in milliseconds on each line"));
}

#[test]
fn cellreplay_s_base_delays_stand_behind_their_times() {
    let text = "100 22 22 23 25\n350 31 31\n400 22 22\n";
    let Recording::Delays(delays) = read(text, Recorded::Delay).expect("delays") else { panic!("delays") };
    assert_eq!(at(&delays, &[0, 249, 250, 299, 300]), [22, 22, 31, 31, 22].map(Duration::from_millis));
    let complaint = |text| complaint(text, Recorded::Delay);
    assert!(complaint("100 22\n100 23\n").starts_with("path:2: found \"100 23\", expected a time later"));
    assert!(complaint("100 22\n200\n").starts_with("path:2: found \"200\", expected a time and a delay"));
    assert!(complaint("100 22 x\n200 2\n").contains("behind the delay"));
    assert!(complaint("100 22\n").contains("two lines or more"));
}
