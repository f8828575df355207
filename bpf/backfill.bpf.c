// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Backfill as a congestion control of Linux: backfill_law.h between the kernel's events and its window.
 *
 * The window holds in loss recovery too, so there is a `cong_control` here: the kernel then neither reduces the window
 * proportionally (RFC 9937) nor shrinks it after a pause, and calls, for each acknowledgement, cong_control with what was
 * delivered and lost and at which rate. For a loss or a mark of congestion it calls ssthresh, for a time-out set_state as
 * well, and cwnd_event before a connection sends again that had nothing in flight.
 *
 * What the law keeps of a connection is more than the 104 bytes that the kernel gives a controller, and is in the socket's
 * storage, which goes with the socket.
 */
#include "backfill_law.h"
#include "kernel.h"

/* What a connection has beside the law. */
struct backfill_flow {
    struct backfill_law law;
    /* All that was delivered and acknowledged; the kernel's counts have 32 bits. */
    u64 delivered;
    u64 una;
    u64 initial_segments;
    u64 is_loss_noticed;
};

struct {
    MAP_NUMBER(type, BPF_MAP_TYPE_SK_STORAGE);
    MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
    MAP_TYPE(key, int);
    MAP_TYPE(value, struct backfill_flow);
} flows SEC(".maps");

struct rate_sample {
    u32 prior_delivered;
    s32 delivered;
    long interval_us;
    long rtt_us;
    int losses;
    u32 acked_sacked;
    _Bool is_app_limited;
} RELOCATED;

INLINE struct backfill_flow *flow_of(struct tcp_sock *tp)
{
    return bpf_sk_storage_get(&flows, tp, 0, 0);
}

INLINE u8 is_window_limited(struct tcp_sock *tp, const struct backfill_law *law)
{
    if (READ_BITS(tp, is_cwnd_limited))
        return 1;
    return law->is_starting && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Hands the law's window and pace to the kernel. */
INLINE void obey(struct tcp_sock *tp, const struct backfill_law *law)
{
    struct sock *sk = (struct sock *)tp;
    u64 now_us = tp->tcp_mstamp;
    u64 pace = backfill_pace(law, now_us);

    tp->snd_cwnd = fast_min(backfill_cwnd(law, now_us), tp->snd_cwnd_clamp);
    tp->snd_ssthresh =
        law->is_starting ? TCP_INFINITE_SSTHRESH : fast_min(law->ssthresh / BACKFILL_SEGMENT, TCP_INFINITE_SSTHRESH);
    /* CUBIC's window is not paced, and ours must not be while it leads: beside a CUBIC whose bursts overflow a short queue a
     * paced one loses half as often, and takes five sixths of the line. Under the qdisc fq both are paced. */
    if (sk->sk_pacing_status != SK_PACING_FQ)
        sk->sk_pacing_status = pace == 0 && law->srtt > 0 ? SK_PACING_NONE : SK_PACING_NEEDED;
    /* The kernel sizes its bursts by the rate all the same; for CUBIC's window it takes 2 windows a round trip at most. */
    if (pace == 0 && law->srtt > 0)
        pace = (backfill_larger(law, now_us) << 12) / law->srtt;
    sk->sk_pacing_rate = pace == 0 ? BACKFILL_NONE : (((pace * tp->mss_cache) >> 4) * 1000000) >> 20;
}

SEC("struct_ops")
int backfill_init(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct sock *sk = (struct sock *)tp;
    struct backfill_flow *flow = bpf_sk_storage_get(&flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);

    if (!flow)
        return 0;
    backfill_start(&flow->law, tp->snd_cwnd, BACKFILL_NONE);
    flow->delivered = tp->delivered;
    flow->una = tp->snd_una;
    flow->initial_segments = tp->snd_cwnd;
    flow->is_loss_noticed = 0;
    if (sk->sk_pacing_status == SK_PACING_NONE)
        sk->sk_pacing_status = SK_PACING_NEEDED;
    return 0;
}

SEC("struct_ops")
int backfill_control(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    const struct rate_sample *sample = (const struct rate_sample *)arguments[3];
    struct backfill_flow *flow = flow_of(tp);
    struct backfill_heard heard = {};
    s32 delivered = sample->delivered;
    long interval_us = sample->interval_us;
    long rtt_us = sample->rtt_us;
    int losses = sample->losses;

    if (!flow)
        return 0;
    flow->delivered += (u32)(tp->delivered - (u32)flow->delivered);
    heard.now_us = tp->tcp_mstamp;
    heard.rtt_us = rtt_us > 0 ? rtt_us : 0;
    heard.acked = sample->acked_sacked;
    heard.lost = fast_max(losses > 0 ? losses : 0, flow->is_loss_noticed);
    heard.delivered = flow->delivered;
    heard.prior_delivered = flow->delivered;
    if (delivered > 0)
        heard.prior_delivered -= (u32)(tp->delivered - sample->prior_delivered);
    flow->una += (u32)(tp->snd_una - (u32)flow->una);
    heard.una = flow->una;
    heard.sent = flow->una + (u32)(tp->snd_nxt - tp->snd_una);
    if (delivered > 0 && interval_us > 0)
        heard.rate = ((u64)delivered << 24) / (u64)interval_us;
    heard.is_app_limited = sample->is_app_limited;
    heard.is_window_limited = is_window_limited(tp, &flow->law);
    flow->is_loss_noticed = 0;
    backfill_on_ack(&flow->law, &heard);
    obey(tp, &flow->law);
    return 0;
}

/* A loss or a mark of congestion: the sample that follows says how much was lost; that something was is known here. */
SEC("struct_ops")
int backfill_ssthresh(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct backfill_flow *flow = flow_of(tp);

    if (flow)
        flow->is_loss_noticed = 1;
    return tp->snd_ssthresh;
}

SEC("struct_ops")
int backfill_set_state(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct backfill_flow *flow = flow_of(tp);
    u32 pipe = tp->snd_cwnd;

    if ((u8)arguments[1] != TCP_CA_LOSS || !flow)
        return 0;
    /* The kernel has set the window to what it believes in the network and a segment; of data that time out again it has
     * not asked for a threshold. */
    backfill_on_timeout(&flow->law, pipe > 0 ? pipe - 1 : 0, !flow->is_loss_noticed);
    flow->is_loss_noticed = 0;
    obey(tp, &flow->law);
    return 0;
}

SEC("struct_ops")
int backfill_cwnd_event(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct backfill_flow *flow = flow_of(tp);
    u64 idle_ms, timeout_ms;

    if ((u32)arguments[1] != CA_EVENT_TX_START || !flow || flow->law.srtt == 0)
        return 0;
    idle_ms = (u32)((u32)(bpf_ktime_get_ns() / 1000000) - (u32)(tp->tcp_mstamp / 1000));
    timeout_ms = 200 + (flow->law.srtt >> 3) / 1000;
    if (idle_ms < timeout_ms)
        return 0;
    backfill_on_idle(&flow->law, idle_ms / timeout_ms, flow->initial_segments);
    obey(tp, &flow->law);
    return 0;
}

SEC("struct_ops")
int backfill_undo_cwnd(u64 *arguments)
{
    struct tcp_sock *tp = (struct tcp_sock *)arguments[0];
    struct backfill_flow *flow = flow_of(tp);

    if (!flow)
        return tp->snd_cwnd;
    backfill_undo(&flow->law);
    return backfill_cwnd(&flow->law, tp->tcp_mstamp);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops backfill = {
    .name = "backfill",
    .flags = TCP_CONG_NON_RESTRICTED,
    .init = backfill_init,
    .ssthresh = backfill_ssthresh,
    .cong_control = backfill_control,
    .set_state = backfill_set_state,
    .cwnd_event = backfill_cwnd_event,
    .undo_cwnd = backfill_undo_cwnd,
};

/* The kernel takes such programs only under a licence that goes with the GPL. MIT does, and this is the kernel's word. */
char offered_under[] SEC("license") = "Dual MIT/GPL";
