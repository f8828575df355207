//! The memory that TCP holds, on the whole machine.

use std::fs;

use crate::sysctl;

/// Memory of all TCP sockets in all namespaces, in pages, and what the kernel makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Held now.
    pub held_pages: u64,
    /// The pages below which the kernel does not care: the first value of `net.ipv4.tcp_mem` (tcp(7)).
    pub free_pages: u64,
    /// Connections that no program has any more and that the kernel still tries to end.
    pub orphans: u64,
}

impl Memory {
    /// The memory that is held now. `None` if the kernel does not tell, as in a container with a network of its own.
    pub fn now() -> Option<Memory> {
        let counts = fs::read_to_string("/proc/net/sockstat").ok()?;
        Memory::read(&counts, &sysctl::read("net.ipv4.tcp_mem").ok()?)
    }

    /// True if it is so much that windows may no longer grow as they would.
    pub fn is_short(&self) -> bool {
        self.held_pages > self.free_pages
    }

    fn read(counts: &str, limits: &str) -> Option<Memory> {
        let words: Vec<&str> = counts.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_whitespace().collect();
        let count = |name| words.chunks_exact(2).find(|pair| pair[0] == name)?[1].parse().ok();
        Some(Memory {
            held_pages: count("mem")?,
            free_pages: limits.split_whitespace().next()?.parse().ok()?,
            orphans: count("orphan")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "sockets: used 26\nTCP: inuse 1 orphan 145 tw 0 alloc 146 mem 296215\nUDP: inuse 0 mem 59\n";

    #[test]
    fn memory_is_short_above_the_first_of_the_kernel_s_three_limits() {
        let memory = Memory::read(COUNTS, "287898\t383867\t575796").expect("as the kernel writes it");
        assert_eq!(memory, Memory { held_pages: 296_215, free_pages: 287_898, orphans: 145 });
        assert!(memory.is_short());
        assert!(!Memory::read(COUNTS, "296215 383867 575796").expect("as the kernel writes it").is_short());
    }

    #[test]
    fn a_kernel_that_does_not_tell_leaves_it_unknown() {
        for (counts, limits) in [("", "1 2 3"), ("TCP: inuse 1", "1 2 3"), (COUNTS, "")] {
            assert_eq!(Memory::read(counts, limits), None, "{counts} {limits}");
        }
    }
}
