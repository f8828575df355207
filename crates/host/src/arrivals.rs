//! The times at which packets came to a TUN device, noted by the kernel: a read from one brings no time with it.
//!
//! A small program in the kernel (BPF), which every packet for the device passes on its way into the device's queue
//! (TUNSETFILTEREBPF, linux/if_tun.h), writes the time into memory that we share. It lets every packet pass as it is. The
//! queue is first in, first out, so the n-th packet read is the n-th noted. The program has eleven instructions, which
//! stand here, so no compiler is needed.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Times that are kept: more than wait in any device's queue ([`QUEUE_PACKETS`](crate::tun::QUEUE_PACKETS)). A power of two.
const KEPT: usize = 1 << 14;
/// The number of packets so far, then the times.
const MAP_BYTES: usize = (1 + KEPT) * size_of::<u64>();

/// The times of one device's packets, in the order in which they are read.
#[derive(Debug)]
pub(crate) struct Arrivals {
    map: NonNull<AtomicU64>,
    /// The number of the packet that is read next; `None` until the device was found empty once, because packets may have come
    /// before the program.
    next: Option<u64>,
    /// Packets that had come by when the device was last empty.
    at_empty: u64,
}

// SAFETY: the memory is shared with the kernel, accessed by atomic operations alone, and unmapped once, by whoever owns this.
unsafe impl Send for Arrivals {}

impl Arrivals {
    /// Has the kernel note the times at which packets come to the device of `tun` from now on.
    ///
    /// # Errors
    /// Where this process may not load programs, or the kernel is older than 5.12.
    pub(crate) fn watch(tun: BorrowedFd<'_>) -> io::Result<Arrivals> {
        let map = create_map()?;
        let program = load(&map)?;
        let program_fd = program.as_raw_fd();
        // SAFETY: MAP_BYTES of the map are shared; the kernel keeps it for as long as they are mapped.
        let at = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), MAP_BYTES, protection, libc::MAP_SHARED, map.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(at.cast()).expect("a mapping is not at zero");
        let arrivals = Arrivals { map, next: None, at_empty: 0 };
        // SAFETY: the request takes a pointer to a descriptor, which the kernel reads before it returns.
        match unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETFILTEREBPF as _, &raw const program_fd) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(arrivals),
        }
    }

    /// The time at which the packet came that was just read, in nanoseconds of CLOCK_MONOTONIC; `None` if that is not known.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let number = self.next?;
        self.next = Some(number + 1);
        let slot = self.at(1 + number as usize % KEPT);
        // What is not there yet will be written: two packets came at the same time, and the second was the first to be through.
        Some(slot.swap(0, Ordering::Acquire)).filter(|&time| time > 0)
    }

    /// Packets that have come so far. To be asked before the device is read.
    pub(crate) fn come(&self) -> u64 {
        self.at(0).load(Ordering::Acquire)
    }

    /// Notes that the device was found empty after `come` packets had come. If no more have come since it was empty before, or they are
    /// more than processors can be about to put there, those that were not read are none that are still on their way: there was no
    /// room for them.
    pub(crate) fn was_empty(&mut self, come: u64) {
        const ON_THEIR_WAY_MAX: u64 = 1_024;
        if come == self.at_empty || self.next.is_none_or(|next| next > come || come - next > ON_THEIR_WAY_MAX) {
            self.next = Some(come);
        }
        self.at_empty = come;
    }

    fn at(&self, word: usize) -> &AtomicU64 {
        assert!(word <= KEPT, "word {word} is beyond the map");
        // SAFETY: it lies within the mapping, which lasts as long as this, and is aligned as pages are.
        unsafe { self.map.add(word).as_ref() }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), MAP_BYTES) };
    }
}

/// An instruction (RFC 9669 section 3): operation, destination and source registers, offset, immediate number.
const fn instruction(operation: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = (from << 4 | to) as u64;
    operation as u64 | registers << 8 | (offset as u16 as u64) << 16 | (number as u32 as u64) << 32
}

/// The program: counts the packet, writes the time into the count's place, and returns the packet's length, to which the device
/// then cuts it.
fn program(map: i32) -> [u64; 12] {
    const MOVE: u8 = 0xbf;
    const MOVE_NUMBER: u8 = 0xb7;
    const AND_NUMBER: u8 = 0x57;
    const SHIFT_LEFT: u8 = 0x67;
    const ADD: u8 = 0x0f;
    const LOAD_MAP: u8 = 0x18;
    const LOAD_WORD: u8 = 0x61;
    const STORE_DOUBLE: u8 = 0x7b;
    const ATOMIC_DOUBLE: u8 = 0xdb;
    /// RFC 9669 section 5.3: add, and fetch what was there.
    const FETCH_ADD: i32 = 0x01;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    /// RFC 9669 section 5.4: the address of a map's value.
    const MAP_VALUE: u8 = 2;
    /// `bpf_ktime_get_ns` (uapi/linux/bpf.h).
    const NOW: i32 = 5;
    [
        instruction(MOVE, 6, 1, 0, 0),
        instruction(LOAD_MAP, 7, MAP_VALUE, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(CALL, 0, 0, 0, NOW),
        instruction(MOVE_NUMBER, 1, 0, 0, 1),
        instruction(ATOMIC_DOUBLE, 7, 1, 0, FETCH_ADD),
        instruction(AND_NUMBER, 1, 0, 0, KEPT as i32 - 1),
        instruction(SHIFT_LEFT, 1, 0, 0, 3),
        instruction(ADD, 7, 1, 0, 0),
        instruction(STORE_DOUBLE, 7, 0, 8, 0),
        // The length is the first field of `struct __sk_buff`.
        instruction(LOAD_WORD, 0, 6, 0, 0),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

/// The memory that is shared: a map of one element (BPF_MAP_TYPE_ARRAY).
fn create_map() -> io::Result<OwnedFd> {
    const ARRAY: u32 = 2;
    const MMAPABLE: u32 = 1 << 10;
    let (key_bytes, elements) = (4, 1);
    // `struct bpf_attr` of BPF_MAP_CREATE: type, bytes of a key, bytes of a value, elements, flags.
    bpf(BPF_MAP_CREATE, &mut [ARRAY, key_bytes, MAP_BYTES as u32, elements, MMAPABLE])
}

/// The program, checked by the kernel and loaded.
fn load(map: &OwnedFd) -> io::Result<OwnedFd> {
    const SOCKET_FILTER: u32 = 1;
    let instructions = program(map.as_raw_fd());
    let halves = |pointer: *const u8| {
        let bytes = (pointer as u64).to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        [half(0), half(4)]
    };
    let licence = c"Dual MIT/GPL";
    let ([code, code_high], [name, name_high]) =
        (halves(instructions.as_ptr().cast()), halves(licence.as_ptr().cast()));
    // `struct bpf_attr` of BPF_PROG_LOAD: type, number of instructions, where they are, where the licence is.
    let count = instructions.len() as u32;
    bpf(BPF_PROG_LOAD, &mut [SOCKET_FILTER, count, code, code_high, name, name_high])
}

/// Makes something that a descriptor stands for; words of `attributes` that the kernel knows and that are not here are zero.
fn bpf(command: libc::c_int, attributes: &mut [u32]) -> io::Result<OwnedFd> {
    let (pointer, len) = (attributes.as_mut_ptr(), size_of_val(attributes));
    // SAFETY: the kernel reads `len` bytes of attributes, and what they point to, before it returns.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, len) };
    match libc::c_int::try_from(made) {
        // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// uapi/linux/bpf.h
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_PROG_LOAD: libc::c_int = 5;

/// `_IOR('T', 225, int)` (linux/if_tun.h).
const TUNSETFILTEREBPF: u64 = 0x8004_54e1;
