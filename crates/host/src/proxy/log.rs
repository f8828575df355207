//! A line for each connection, when it has ended; for each request of one that asks for whole URLs.

use std::fmt::{self, Write as _};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headend_engine::relay::Side;

use super::books::FlowPage;
use super::config::LogFormat;
use super::wire::WireEnd;

/// The ways in which a client's connection ends.
#[derive(Debug)]
pub(crate) enum Ending {
    /// No server was reached, for this reason.
    Refused(String),
    /// The client went before a server was reached.
    Gone(io::Error),
    /// The proxy ended, and it was still open.
    Stopped,
    /// A request for a URL had its answer, with this status; the connection goes on.
    Answered(u16),
    /// A request for a URL did not have all of its answer, because this side failed.
    Cut(Side),
    /// Each of its requests has had a line of its own.
    Told,
    /// Joined to a server, it came to this end; with retransmissions by side.
    Joined((WireEnd, [Option<u32>; 2])),
}

/// The facts that a line tells.
#[derive(Debug)]
pub(crate) struct Closed {
    fields: Vec<(&'static str, LogValue)>,
}

#[derive(Debug)]
enum LogValue {
    Text(String),
    Number(u64),
}

impl Closed {
    pub(crate) fn of(flow: &FlowPage, ending: &Ending) -> Closed {
        let lap = flow.lap();
        let read = |side: Side| {
            let all = flow.read[side as usize].load(Ordering::Relaxed);
            LogValue::Number(all.saturating_sub(lap.before[side as usize]))
        };
        let mut fields = vec![
            ("time", LogValue::Text(rfc3339(lap.since))),
            ("id", LogValue::Number(flow.id)),
            ("way", LogValue::Text(flow.way.to_owned())),
            ("client", LogValue::Text(flow.client.to_string())),
        ];
        if let Some(behind) = flow.behind.get() {
            fields.push(("behind", LogValue::Text(behind.to_string())));
        }
        if let Some(user) = &lap.user {
            fields.push(("user", LogValue::Text(user.to_string())));
        }
        if let Some(destination) = &lap.destination {
            fields.push(("destination", LogValue::Text(destination.to_string())));
        }
        if let Some(server) = lap.server {
            fields.push(("server", LogValue::Text(server.to_string())));
        }
        fields.push(("up_bytes", read(Side::Local)));
        fields.push(("down_bytes", read(Side::Remote)));
        fields.push(("duration_us", LogValue::Number(micros(lap.began.elapsed()))));
        let (end, why) = match ending {
            Ending::Refused(why) => ("refused", Some(why.clone())),
            Ending::Gone(error) => ("gone", Some(error.to_string())),
            Ending::Stopped => ("stopped", None),
            Ending::Told => ("closed", None),
            Ending::Answered(status) => {
                fields.push(("status", LogValue::Number(u64::from(*status))));
                ("answered", None)
            }
            Ending::Cut(side) => (if *side == Side::Local { "local failed" } else { "remote failed" }, None),
            Ending::Joined((end, retransmits)) => {
                let names = ["local_retransmits", "remote_retransmits"];
                for (name, count) in names.into_iter().zip(retransmits) {
                    fields.extend(count.map(|count| (name, LogValue::Number(count.into()))));
                }
                match end {
                    WireEnd::Closed => ("closed", None),
                    WireEnd::Idle => ("idle", None),
                    WireEnd::Failed(Side::Local, error) => ("local failed", Some(error.to_string())),
                    WireEnd::Failed(Side::Remote, error) => ("remote failed", Some(error.to_string())),
                }
            }
        };
        fields.push(("end", LogValue::Text(end.to_owned())));
        fields.extend(why.map(|why| ("why", LogValue::Text(why))));
        Closed { fields }
    }

    /// The line, without its end.
    pub(crate) fn line(&self, format: LogFormat) -> String {
        let mut line = String::with_capacity(256);
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let is_first = index == 0;
            match format {
                LogFormat::Logfmt => {
                    let _ = write!(line, "{}{name}={}", if is_first { "" } else { " " }, Logfmt(value));
                }
                LogFormat::Json => {
                    let _ = write!(line, "{}\"{name}\":{}", if is_first { "{" } else { "," }, Json(value));
                }
            }
        }
        if format == LogFormat::Json {
            line.push('}');
        }
        line
    }
}

struct Logfmt<'a>(&'a LogValue);
struct Json<'a>(&'a LogValue);

impl fmt::Display for Logfmt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LogValue::Number(number) => write!(f, "{number}"),
            LogValue::Text(text)
                if text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\')) =>
            {
                f.write_str(text)
            }
            LogValue::Text(_) => write!(f, "{}", Json(self.0)),
        }
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            LogValue::Number(number) => return write!(f, "{number}"),
            LogValue::Text(text) => text,
        };
        f.write_char('"')?;
        for char in text.chars() {
            match char {
                '"' | '\\' => write!(f, "\\{char}")?,
                char if char.is_control() => write!(f, "\\u{:04x}", u32::from(char))?,
                char => f.write_char(char)?,
            }
        }
        f.write_char('"')
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// UTC with milliseconds (RFC 3339); the days are counted as in the proleptic Gregorian calendar, in eras of 400 years.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day last. 719468 days lie between 0000-03-01 and 1970-01-01.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn nothing_that_a_peer_says_can_end_a_line_or_a_field() {
        let fields = vec![("id", LogValue::Number(7)), ("why", LogValue::Text("a\n\"b\" c=d\\".to_owned()))];
        let closed = Closed { fields };
        assert!(closed.line(LogFormat::Logfmt).ends_with(r#"id=7 why="a\u000a\"b\" c=d\\""#));
        let line = closed.line(LogFormat::Json);
        assert!(line.starts_with("{\"id\":7,") && line.ends_with(r#""why":"a\u000a\"b\" c=d\\"}"#), "{line}");
    }
}
