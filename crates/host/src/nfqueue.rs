//! A queue of netfilter's (NFQUEUE): the kernel holds packets, tells their lengths and first bytes, and lets each go or drops it
//! when it is told to.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{During, Error};

/// Packets that the kernel holds at most.
const HELD_MAX: u32 = 16_384;
/// Bytes of the socket's buffer for messages about packets that are not yet read.
const BUFFER: libc::c_int = 16 << 20;
const BATCH: usize = 64;
/// A netlink message about one packet: its attributes and what is copied.
const MESSAGE: usize = 512;
/// The most bytes of a packet that are copied: the attributes beside them take less than the rest of a message.
const COPIED_MAX: usize = 256;
/// Verdicts that are sent together.
const VERDICTS_MAX: usize = 64;

const QUEUE_PACKET: u16 = message(libc::NFQNL_MSG_PACKET);
const QUEUE_CONFIG: u16 = message(libc::NFQNL_MSG_CONFIG);
const QUEUE_VERDICT: u16 = message(libc::NFQNL_MSG_VERDICT);
const QUEUE_VERDICT_BATCH: u16 = message(libc::NFQNL_MSG_VERDICT_BATCH);
/// The type of the messages in which errors are told.
const ERROR: u16 = libc::NLMSG_ERROR as u16;
const NF_DROP: u32 = libc::NF_DROP as u32;
const NF_ACCEPT: u32 = libc::NF_ACCEPT as u32;
/// Bytes of struct nlmsghdr and struct nfgenmsg.
const HEADERS: usize = 20;

const fn message(kind: libc::c_int) -> u16 {
    ((libc::NFNL_SUBSYS_QUEUE as u16) << 8) | kind as u16
}

/// A packet that the kernel holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    /// Its number in the queue.
    pub(crate) id: u32,
    /// Bytes of IP.
    pub(crate) len: u32,
    /// Its first bytes.
    pub(crate) head: &'a [u8],
}

/// A queue of which this process is the only user.
#[derive(Debug)]
pub(crate) struct Queue {
    socket: OwnedFd,
    number: u16,
    /// Numbers of the packets that the kernel holds, in its order, each with true if it has been dealt with.
    held: VecDeque<(u32, bool)>,
    /// Numbers of the packets that [`flush`](Queue::flush) is to let go, in that order.
    leaving: Vec<u32>,
    buffers: Box<[[u8; MESSAGE]; BATCH]>,
    whole: Option<bool>,
    /// Answers that were no packets: verdicts about packets that were not there.
    pub(crate) errors: u64,
}

impl Queue {
    /// Takes the queue of this number in the calling thread's namespace. The first `copied` bytes of each packet are told, 256
    /// at most. A packet that comes when the queue is full passes if `fails_open`.
    pub(crate) fn open(number: u16, copied: usize, fails_open: bool) -> Result<Queue, Error> {
        assert!(copied <= COPIED_MAX, "{copied} bytes of a packet do not fit into a message of {MESSAGE}");
        let what = || format!("take netfilter's queue {number}");
        // SAFETY: takes numbers; what it returns is checked, and nobody else's.
        let fd =
            unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_NETFILTER) };
        if fd < 0 {
            return Err(Error::new(what(), explained(io::Error::last_os_error())));
        }
        // SAFETY: the descriptor was just opened here.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER).during(what)?;
        option(&socket, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1).during(what)?;
        let mut queue = Queue {
            socket,
            number,
            held: VecDeque::new(),
            leaving: Vec::new(),
            buffers: Box::new([[0; MESSAGE]; BATCH]),
            whole: None,
            errors: 0,
        };
        let bind = [libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, 0];
        queue.configure(&[(libc::NFQA_CFG_CMD, &bind)]).map_err(explained).during(what)?;
        // Copied bytes, then the mode.
        let mut params = (copied as u32).to_be_bytes().to_vec();
        params.push(libc::NFQNL_COPY_PACKET as u8);
        queue
            .configure(&[(libc::NFQA_CFG_PARAMS, &params), (libc::NFQA_CFG_QUEUE_MAXLEN, &HELD_MAX.to_be_bytes())])
            .during(what)?;
        let flag = libc::NFQA_CFG_F_FAIL_OPEN as u32;
        queue.set_flag(flag, fails_open).during(what)?;
        queue.keep_whole(false).during(what)?;
        Ok(queue)
    }

    /// Tells the kernel whether packets of several segments come as they are, or are cut first.
    pub(crate) fn keep_whole(&mut self, whole: bool) -> io::Result<()> {
        if self.whole != Some(whole) {
            self.set_flag(libc::NFQA_CFG_F_GSO as u32, whole)?;
            self.whole = Some(whole);
        }
        Ok(())
    }

    fn set_flag(&mut self, flag: u32, on: bool) -> io::Result<()> {
        let value = if on { flag } else { 0 };
        self.configure(&[(libc::NFQA_CFG_FLAGS, &value.to_be_bytes()), (libc::NFQA_CFG_MASK, &flag.to_be_bytes())])
    }

    /// Sends an order of configuration. The answer is awaited only before the first packet can come, or it would be lost
    /// among them; later ones cannot fail for another reason than the first.
    fn configure(&mut self, attributes: &[(libc::c_int, &[u8])]) -> io::Result<()> {
        let waits = self.whole.is_none();
        let flags = libc::NLM_F_REQUEST | if waits { libc::NLM_F_ACK } else { 0 };
        let mut bytes = Vec::with_capacity(64);
        append(&mut bytes, QUEUE_CONFIG, flags as u16, self.number, attributes);
        send(&self.socket, &bytes)?;
        if !waits {
            return Ok(());
        }
        loop {
            let mut answer = [0; 4_096];
            // SAFETY: the buffer is as long as said, and lives until the call returns.
            let len = unsafe { libc::recv(self.socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
            let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
            match error_of(answer.get(..len).unwrap_or_default()) {
                Some(0) => return Ok(()),
                Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                // A packet of a rule that was there already: it is not known of, and so let go at once.
                None => {
                    if let Some(held) = read(answer.get(..len).unwrap_or_default()) {
                        let id = held.id;
                        self.verdict(QUEUE_VERDICT, NF_ACCEPT, id)?;
                    }
                }
            }
        }
    }

    /// Reads what the kernel holds since the last call, and shows each packet to `take`. True if there may be more.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(Held<'_>)) -> io::Result<bool> {
        let mut vectors: [libc::iovec; BATCH] =
            std::array::from_fn(|at| libc::iovec { iov_base: self.buffers[at].as_mut_ptr().cast(), iov_len: MESSAGE });
        // SAFETY: zeros are valid for these structures: no addresses, no control data, no flags.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (header, vector) in headers.iter_mut().zip(&mut vectors) {
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: each header has one vector, and each vector one buffer as long as it says; all live until the call returns.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        let count = count as usize;
        for (header, buffer) in headers.iter().zip(self.buffers.iter()).take(count) {
            let message = buffer.get(..header.msg_len as usize).unwrap_or_default();
            match read(message) {
                Some(held) => {
                    self.held.push_back((held.id, false));
                    take(held);
                }
                None => self.errors += u64::from(error_of(message).is_some_and(|code| code != 0)),
            }
        }
        Ok(count == BATCH)
    }

    /// Lets a packet go with the next [`flush`](Queue::flush).
    pub(crate) fn accept(&mut self, id: u32) {
        self.leaving.push(id);
    }

    /// Lets a packet go at once, with this mark.
    pub(crate) fn accept_marked(&mut self, id: u32, mark: u32) -> io::Result<()> {
        self.mark(id);
        let mut order = Vec::with_capacity(40);
        let header = verdict_header(NF_ACCEPT, id);
        let attributes: [(libc::c_int, &[u8]); 2] =
            [(libc::NFQA_VERDICT_HDR, &header), (libc::NFQA_MARK, &mark.to_be_bytes())];
        append(&mut order, QUEUE_VERDICT, libc::NLM_F_REQUEST as u16, self.number, &attributes);
        send(&self.socket, &order)
    }

    /// Drops a packet.
    pub(crate) fn drop(&mut self, id: u32) -> io::Result<()> {
        self.mark(id);
        self.verdict(QUEUE_VERDICT, NF_DROP, id)
    }

    /// Has the kernel send the packets that were accepted, in that order: those that it has held longest with one verdict.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let mut orders = Vec::with_capacity(VERDICTS_MAX * 32);
        let mut count = 0;
        let mut at = 0;
        while at < self.leaving.len() {
            let run = self.run_from(at);
            let id = self.leaving[at + run.max(1) - 1];
            if run > 1 {
                self.held.drain(..run);
                append_verdict(&mut orders, self.number, QUEUE_VERDICT_BATCH, NF_ACCEPT, id);
            } else {
                self.mark(id);
                append_verdict(&mut orders, self.number, QUEUE_VERDICT, NF_ACCEPT, id);
            }
            self.forget_gone();
            at += run.max(1);
            count += 1;
            if count == VERDICTS_MAX || at == self.leaving.len() {
                send(&self.socket, &orders)?;
                orders.clear();
                count = 0;
            }
        }
        self.leaving.clear();
        Ok(())
    }

    /// The number of packets that leave, from `at` on, that are the ones that the kernel has held longest, in its order.
    fn run_from(&self, at: usize) -> usize {
        self.leaving[at..].iter().zip(&self.held).take_while(|(id, (held, gone))| *id == held && !gone).count()
    }

    fn mark(&mut self, id: u32) {
        let Some(&(first, _)) = self.held.front() else { return };
        // Numbers are in order, and wrap round.
        let found = self.held.binary_search_by_key(&id.wrapping_sub(first), |(held, _)| held.wrapping_sub(first));
        if let Ok(at) = found {
            self.held[at].1 = true;
        }
        self.forget_gone();
    }

    fn forget_gone(&mut self) {
        while self.held.front().is_some_and(|(_, gone)| *gone) {
            self.held.pop_front();
        }
    }

    fn verdict(&self, kind: u16, verdict: u32, id: u32) -> io::Result<()> {
        let mut order = Vec::with_capacity(32);
        append_verdict(&mut order, self.number, kind, verdict, id);
        send(&self.socket, &order)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Adds to an error of the first steps what it means here.
fn explained(error: io::Error) -> io::Error {
    let (kind, why) = match error.raw_os_error() {
        // What the kernel says to whoever may take queues (others are refused before).
        Some(libc::EPERM | libc::EBUSY) => (
            io::ErrorKind::Other,
            "another program uses it: another trunk or proxy? (`queue` of a trunk's file names its number)",
        ),
        Some(libc::EINVAL | libc::EPROTONOSUPPORT) => {
            (io::ErrorKind::Unsupported, "this kernel has no NFQUEUE (module nfnetlink_queue)")
        }
        _ => return error,
    };
    io::Error::new(kind, format!("{error}: {why}"))
}

fn option(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = mem::size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value lives until the call returns and is as long as said.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the bytes live until the call returns. Without an address netlink sends to the kernel.
    match unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn append_verdict(out: &mut Vec<u8>, queue: u16, kind: u16, verdict: u32, id: u32) {
    let header = verdict_header(verdict, id);
    append(out, kind, libc::NLM_F_REQUEST as u16, queue, &[(libc::NFQA_VERDICT_HDR, &header)]);
}

fn verdict_header(verdict: u32, id: u32) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&verdict.to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    header
}

/// Writes a netlink message behind what is in `out`: struct nlmsghdr, struct nfgenmsg, attributes.
fn append(out: &mut Vec<u8>, kind: u16, flags: u16, queue: u16, attributes: &[(libc::c_int, &[u8])]) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[libc::AF_UNSPEC as u8, libc::NFNETLINK_V0 as u8]);
    out.extend_from_slice(&queue.to_be_bytes());
    for (name, value) in attributes {
        out.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        out.extend_from_slice(&(*name as u16).to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

/// The code of a message that tells of an error, or acknowledges with a zero.
fn error_of(message: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let code = i32::from_ne_bytes(*message.get(16..)?.first_chunk()?);
    (kind == ERROR).then_some(code)
}

/// Reads what the kernel says of a packet.
fn read(message: &[u8]) -> Option<Held<'_>> {
    if u16::from_ne_bytes(*message.get(4..)?.first_chunk()?) != QUEUE_PACKET {
        return None;
    }
    let mut rest = message.get(HEADERS..)?;
    let (mut id, mut len, mut head) = (None, None, &[][..]);
    while let Some((header, _)) = rest.split_first_chunk::<4>() {
        let size = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = libc::c_int::from(u16::from_ne_bytes([header[2], header[3]]) & 0x3fff);
        let value = rest.get(4..size)?;
        match kind {
            libc::NFQA_PACKET_HDR => id = Some(u32::from_be_bytes(*value.first_chunk()?)),
            // Only if it is longer than what is copied.
            libc::NFQA_CAP_LEN => len = Some(u32::from_be_bytes(*value.first_chunk()?)),
            libc::NFQA_PAYLOAD => head = value,
            _ => {}
        }
        rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(Held { id: id?, len: len.unwrap_or(head.len() as u32), head })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_the_kernel_says_of_a_packet_is_read() {
        let mut bytes = Vec::new();
        let attributes: &[(libc::c_int, &[u8])] = &[
            (libc::NFQA_PACKET_HDR, &[0, 0, 1, 2, 8, 0, 4]),
            (libc::NFQA_PAYLOAD, &[0x45, 1, 2]),
            (libc::NFQA_CAP_LEN, &1_500_u32.to_be_bytes()),
        ];
        append(&mut bytes, QUEUE_PACKET, 0, 7, attributes);
        let held = read(&bytes).unwrap();
        assert_eq!((held.id, held.len, held.head), (258, 1_500, &[0x45, 1, 2][..]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..200), ours in any::<bool>()) {
            if ours && bytes.len() >= 6 {
                bytes[4..6].copy_from_slice(&QUEUE_PACKET.to_ne_bytes());
            }
            read(&bytes);
            error_of(&bytes);
        }
    }
}
