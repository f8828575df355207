// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Lists the connections of a network namespace that FAST controls, whatever it is called there: a record for each. */
#include "fast_flow.h"

/* As fast/connection.rs of the crate `host` reads it. Addresses and the remote port are in network order. */
struct connection {
    char name[TCP_CA_NAME_MAX];
    u8 local[16];
    u8 remote[16];
    u16 local_port;
    u16 remote_port;
    u16 family;
    u8 is_listening;
    u8 reserved;
    u32 cwnd_segments;
    u32 mss_bytes;
    u32 alpha_packets;
    u32 ssthresh_segments;
    u64 base_us;
    /* In units of 2^-8 us. */
    u64 average;
};

struct bpf_iter_meta {
    void *seq;
} RELOCATED;

struct bpf_iter__tcp {
    struct bpf_iter_meta *meta;
    struct sock_common *sk_common;
} RELOCATED;

SEC("iter/tcp")
int fast_connections(struct bpf_iter__tcp *at)
{
    struct sock_common *common = at->sk_common;
    struct connection record = {};
    struct fast_flow *flow;
    struct tcp_sock *tp;

    if (!common)
        return 0;
    /* None for a connection that is being opened or has been closed: such have no controller. */
    tp = bpf_skc_to_tcp_sock(common);
    if (!tp)
        return 0;
    flow = (struct fast_flow *)tp->inet_conn.icsk_ca_priv;
    if (flow->mark != FAST_MARK && common->skc_state != TCP_LISTEN)
        return 0;
    bpf_probe_read_kernel_str(record.name, sizeof(record.name), tp->inet_conn.icsk_ca_ops->name);
    record.family = common->skc_family;
    record.local_port = common->skc_num;
    record.remote_port = common->skc_dport;
    record.is_listening = common->skc_state == TCP_LISTEN;
    record.cwnd_segments = tp->snd_cwnd;
    record.mss_bytes = tp->mss_cache;
    record.ssthresh_segments = tp->snd_ssthresh;
    record.alpha_packets = flow->alpha_packets;
    record.base_us = flow->law.base_us;
    record.average = flow->law.average;
    if (common->skc_family == 2) {
        *(u32 *)record.local = common->skc_rcv_saddr;
        *(u32 *)record.remote = common->skc_daddr;
    } else {
        *(struct in6_addr *)record.local = common->skc_v6_rcv_saddr;
        *(struct in6_addr *)record.remote = common->skc_v6_daddr;
    }
    bpf_seq_write(at->meta->seq, &record, sizeof(record));
    return 0;
}

char offered_under[] SEC("license") = "Dual MIT/GPL";
