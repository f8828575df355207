//! The memory that the sockets of the whole machine take, beside the limit that the kernel sets them.
//!
//! At the limit (tcp(7), the third figure of `tcp_mem`) Linux resets connections, whoever they belong to. A run on a machine
//! whose sockets other programs fill then shows faults that no proxy can prevent, and must say so.

use std::fs;

/// The most memory that sockets were seen to take, and the limit.
#[derive(Debug)]
pub struct TcpMemory {
    /// None if the kernel does not tell.
    limit_pages: Option<u64>,
    most_pages: u64,
}

/// The share of the limit from which on connections may have been reset between two looks.
const FULL_PERCENT: u64 = 95;

impl TcpMemory {
    pub(crate) fn new() -> TcpMemory {
        let limit = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").ok();
        TcpMemory { limit_pages: limit.as_deref().and_then(limit_pages), most_pages: 0 }
    }

    /// Looks at what the sockets take now.
    pub(crate) fn look(&mut self) {
        if self.limit_pages.is_some()
            && let Ok(text) = fs::read_to_string("/proc/net/sockstat")
        {
            self.note(&text);
        }
    }

    fn note(&mut self, sockstat: &str) {
        self.most_pages = self.most_pages.max(taken_pages(sockstat).unwrap_or(0));
    }

    /// The most that was taken, in percent of the limit. None if the kernel does not tell.
    pub fn most_percent(&self) -> Option<u64> {
        self.limit_pages.map(|limit| 100 * self.most_pages / limit)
    }

    /// True if the kernel may have reset connections for want of memory.
    pub fn was_full(&self) -> bool {
        self.most_percent().is_some_and(|percent| percent >= FULL_PERCENT)
    }
}

fn limit_pages(text: &str) -> Option<u64> {
    text.split_whitespace().nth(2)?.parse().ok().filter(|&limit| limit > 0)
}

/// The pages that TCP has, from `TCP: inuse 5 orphan 0 tw 3 alloc 7 mem 2`: the one figure of these lines that counts all
/// namespaces.
fn taken_pages(sockstat: &str) -> Option<u64> {
    let line = sockstat.lines().find(|line| line.starts_with("TCP:"))?;
    line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(limit: &str, taken_pages: &[u64]) -> TcpMemory {
        let mut memory = TcpMemory { limit_pages: limit_pages(limit), most_pages: 0 };
        for taken in taken_pages {
            memory.note(&format!(
                "sockets: used 190\nTCP: inuse 5 orphan 2 tw 9 alloc 7 mem {taken}\nUDP: inuse 0 mem 78\n"
            ));
        }
        memory
    }

    #[test]
    fn the_most_that_was_taken_counts_even_if_it_is_given_back() {
        let seen = memory("287898\t383867\t575796", &[20, 575_000, 300]);
        assert_eq!(seen.most_percent(), Some(99));
        assert!(seen.was_full());
    }

    #[test]
    fn much_below_the_limit_is_no_excuse() {
        assert!(!memory("287898\t383867\t575796", &[383_867]).was_full());
    }

    #[test]
    fn nothing_is_said_if_the_kernel_does_not_tell() {
        assert_eq!(memory("", &[1]).most_percent(), None);
        assert!(!memory("1 2 x", &[1]).was_full());
    }
}
