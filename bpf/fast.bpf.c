// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * FAST as a congestion control of Linux: fast_law.h between the kernel's events and its window.
 *
 * The kernel's own recovery stays in charge of what is sent while losses are repaired (RFC 6937), as the engine's does of
 * its FAST: so there is a `cong_avoid` here and no `cong_control`, which would have to do all of that itself. The kernel
 * calls, for an acknowledgement, first pkts_acked with the round trip that it measured and then, unless recovery holds the
 * window, cong_avoid with the segments that it acknowledged; for a loss, ssthresh, and for a time-out set_state as well.
 */
#include "fast_flow.h"

/* What the user chose for all connections of this instance, and may change while it runs. */
struct fast_installation {
    struct fast_parameters parameters;
    /* What the machine's default was, if this instance has taken its place. */
    char default_before[TCP_CA_NAME_MAX];
};

struct {
    MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
    MAP_NUMBER(max_entries, 1);
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct fast_installation);
} settings SEC(".maps");

/* Andrew et al. s4-B, their equation (1), and Jin, Wei and Low 2004; the loader writes the user's before anything runs. The
 * section is named because 16 bytes may otherwise end in one of constants, which the loader does not find. */
static const struct fast_parameters unset SEC(".rodata") = {.alpha_packets = 20, .gamma_percent = 50, .update_rounds = 2,
                                              .check_seconds = 5};

INLINE const struct fast_parameters *parameters(void)
{
    u32 only = 0;
    struct fast_installation *found = bpf_map_lookup_elem(&settings, &only);

    return found ? &found->parameters : &unset;
}

INLINE struct fast_flow *flow_of(struct tcp_sock *tp)
{
    return (struct fast_flow *)tp->inet_conn.icsk_ca_priv;
}

INLINE u64 threshold_of(struct tcp_sock *tp)
{
    u32 ssthresh = tp->snd_ssthresh;

    return ssthresh >= TCP_INFINITE_SSTHRESH ? FAST_NEVER : ssthresh;
}

/* Takes over what the kernel has done to the window of its own accord, such as shrinking it after a pause. */
INLINE void follow(struct fast_law *law, struct tcp_sock *tp)
{
    u64 cwnd = fast_clamp(tp->snd_cwnd, 1, FAST_CWND_MAX);

    if (law->cwnd != cwnd) {
        law->cwnd = cwnd;
        law->target = cwnd;
    }
    law->ssthresh = threshold_of(tp);
}

/* Whether the window is what limits the connection; in slow start half of it used is enough (RFC 7661 s4.1's spirit). */
INLINE u8 is_window_limited(struct tcp_sock *tp)
{
    if (READ_BITS(tp, is_cwnd_limited))
        return 1;
    return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

SEC("struct_ops")
int fast_init(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct fast_flow *flow = flow_of(tp);

    fast_start(&flow->law, tp->snd_cwnd, threshold_of(tp));
    /* The hand-shake's round trip; all bits are set as long as none was measured. */
    if (tp->rtt_min.s[0].v != ~0U)
        fast_begin(&flow->law, parameters(), tp->rtt_min.s[0].v);
    flow->cwnd_before = flow->law.cwnd;
    flow->ssthresh_before = flow->law.ssthresh;
    flow->alpha_packets = fast_alpha(&flow->law, parameters());
    flow->mark = FAST_MARK;
    return 0;
}

SEC("struct_ops")
int fast_pkts_acked(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    const struct ack_sample *sample = (const struct ack_sample *)arguments[1];
    s32 rtt_us = sample->rtt_us;

    /* Negative: what was acknowledged had been sent twice (RFC 6298 s3). */
    if (rtt_us > 0)
        fast_measure(&flow_of(tp)->law, parameters(), tp->tcp_mstamp, rtt_us);
    return 0;
}

SEC("struct_ops")
int fast_cong_avoid(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct fast_flow *flow = flow_of(tp);
    const struct fast_parameters *chosen = parameters();
    struct fast_heard heard = {
        .now_us = tp->tcp_mstamp,
        .acked = (u32)arguments[2],
        .is_window_limited = is_window_limited(tp),
    };

    follow(&flow->law, tp);
    fast_grow(&flow->law, chosen, &heard);
    flow->alpha_packets = fast_alpha(&flow->law, chosen);
    flow->law.cwnd = fast_min(flow->law.cwnd, tp->snd_cwnd_clamp);
    tp->snd_cwnd = flow->law.cwnd;
    if (flow->law.ssthresh != FAST_NEVER)
        tp->snd_ssthresh = flow->law.ssthresh;
    return 0;
}

SEC("struct_ops")
int fast_ssthresh(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct fast_flow *flow = flow_of(tp);

    follow(&flow->law, tp);
    flow->cwnd_before = flow->law.cwnd;
    flow->ssthresh_before = flow->law.ssthresh;
    fast_halve(&flow->law, parameters(), tp->tcp_mstamp);
    return flow->law.ssthresh;
}

SEC("struct_ops")
int fast_set_state(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];

    /* After a time-out the kernel has set the window to what it believes in the network, and a segment. */
    if ((u8)arguments[1] == TCP_CA_LOSS)
        fast_restart(&flow_of(tp)->law, parameters(), tp->tcp_mstamp, tp->snd_cwnd, threshold_of(tp));
    return 0;
}

SEC("struct_ops")
int fast_undo_cwnd(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct fast_flow *flow = flow_of(tp);

    follow(&flow->law, tp);
    fast_undo(&flow->law, flow->cwnd_before, flow->ssthresh_before);
    return flow->law.cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fast = {
    .name = "fast",
    .flags = TCP_CONG_NON_RESTRICTED,
    .init = fast_init,
    .ssthresh = fast_ssthresh,
    .cong_avoid = fast_cong_avoid,
    .set_state = fast_set_state,
    .pkts_acked = fast_pkts_acked,
    .undo_cwnd = fast_undo_cwnd,
};

/* The kernel takes such programs only under a licence that goes with the GPL. MIT does, and this is the kernel's word. */
char offered_under[] SEC("license") = "Dual MIT/GPL";
