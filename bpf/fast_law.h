/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * FAST's arithmetic, the twin of crates/engine/src/cc/fast/law.rs: the same unsigned integers in the same steps, so that
 * the kernel's windows are the simulator's to the last packet. crates/engine/src/cc/fast/vectors.csv holds both to it, and
 * a change here is a change there.
 *
 * From Jin, Wei and Low 2004 and Andrew et al. 2005. No sign (BPF has no signed division before its fourth instruction
 * set), no float, no loop, nothing that overflows and nothing of the kernel: it compiles for BPF and for any host.
 */
#ifndef FAST_LAW_H
#define FAST_LAW_H

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __INT32_TYPE__ s32;
typedef __UINT64_TYPE__ u64;

/* BPF programs are called with a stack of 512 bytes and pass no structures by value. */
#define INLINE static inline __attribute__((always_inline))

/* The average round trip is kept in units of 2^-8 us: 3/w of a difference is otherwise soon nothing. */
#define FAST_FRACTION_BITS 8
/* Longest round trip taken for one, 67 s; with FAST_CWND_MAX and 100 percent it keeps fast_step() within 64 bits. */
#define FAST_RTT_US_MAX ((1ULL << 26) - 1)
/* Largest window, in segments. */
#define FAST_CWND_MAX (1ULL << 22)
/* Slow start has not ended. */
#define FAST_NEVER (~0ULL)
/* A check lets the queue drain: the window is three quarters of what the path would hold. */
#define FAST_DRAIN_QUARTERS 3
/* An alpha by rate: so many packets, and as many more as the flow sends in this time. */
#define FAST_AUTO_PACKETS 20
#define FAST_AUTO_US 2000ULL
/* The queue is other packets' than ours if less than this part of it goes when ours leave it. */
#define FAST_OWN_PART 32
/* No round trip was taken in this step of a check. */
#define FAST_NO_RTT (~0U)

/* What the user chose. */
struct fast_parameters {
    /* Packets of its own that a flow aims to have in the queues of its path; 0 is an alpha by rate. */
    u32 alpha_packets;
    /* How much of the way to its aim the window goes with every update. */
    u32 gamma_percent;
    /* Round trips from one update of the window to the next. */
    u32 update_rounds;
    /* Seconds after which a base round trip that was not seen again is checked; 0 for never. */
    u32 check_seconds;
};

/* What an acknowledgement of new data says. */
struct fast_heard {
    u64 now_us;
    /* The round trip that it measured; 0 if it measured none. */
    u64 rtt_us;
    /* Segments that it acknowledged. */
    u64 acked;
    /* Loss recovery holds the window. */
    u8 is_recovering;
    /* The window, and nothing else, limits what is in flight. */
    u8 is_window_limited;
};

/* A step of a check of the base round trip. */
enum fast_check {
    /* None is under way. */
    FAST_REST,
    /* The shortest round trip is taken with our packets in the queue. */
    FAST_BEFORE,
    /* The queue drains; acknowledgements do not show it yet. */
    FAST_DRAIN,
    /* The shortest round trip is taken without our packets in the queue. */
    FAST_AFTER,
};

/* The window and what it is computed from. */
struct fast_law {
    /* Segments that may be in flight. */
    u64 cwnd;
    /* Below it the window is in slow start. */
    u64 ssthresh;
    /* Where the last update wants the window; growth gets there by a segment for each acknowledged. */
    u64 target;
    /* d: the shortest round trip so far; 0 before the first. */
    u64 base_us;
    /* D: the average round trip, in units of 2^-8 us. */
    u64 average;
    /* When the window is next computed. */
    u64 update_at_us;
    /* When the next check of the base begins, or the step under way ends. */
    u64 check_at_us;
    /* The shortest round trip of this step, and that before the queue was drained. */
    u32 least_us;
    u32 before_us;
    /* An `enum fast_check`. */
    u32 check;
};

INLINE u64 fast_min(u64 a, u64 b)
{
    return a < b ? a : b;
}

INLINE u64 fast_max(u64 a, u64 b)
{
    return a > b ? a : b;
}

INLINE u64 fast_clamp(u64 value, u64 least, u64 most)
{
    return fast_min(fast_max(value, least), most);
}

/*
 * The window law, equation (1) of Andrew et al. with gamma for its half and no more than a doubling (Jin, Wei and Low
 * 2004): min(2w, floor((1 - gamma) w + gamma (w d / D + alpha))), at least 1. `base` and `average` are in the same unit.
 */
INLINE u64 fast_step(u64 w, u64 base, u64 average, u64 alpha, u64 gamma_percent)
{
    u64 kept = (100 - gamma_percent) * w * average;
    u64 aimed = gamma_percent * (w * base + alpha * average);

    return fast_clamp((kept + aimed) / (100 * average), 1, 2 * w);
}

/*
 * The average after a sample, whose weight is min(3/w, 1/4) (Jin, Wei and Low 2004). `average` and `sample` are in the same
 * unit.
 */
INLINE u64 fast_averaged(u64 average, u64 sample, u64 w)
{
    u64 difference = sample >= average ? sample - average : average - sample;
    u64 part = w > 12 ? difference * 3 / w : difference / 4;

    return sample >= average ? average + part : average - part;
}

/* 1 if more than `alpha` of `w` segments wait: w (D - d) / D > alpha. */
INLINE u8 fast_has_queue(u64 w, u64 base, u64 average, u64 alpha)
{
    u64 waits = average > base ? average - base : 0;

    return w * waits > alpha * average;
}

/* The packets that are to wait now. */
INLINE u64 fast_alpha(const struct fast_law *law, const struct fast_parameters *parameters)
{
    if (parameters->alpha_packets)
        return parameters->alpha_packets;
    return FAST_AUTO_PACKETS + law->cwnd * (FAST_AUTO_US << FAST_FRACTION_BITS) / fast_max(law->average, 1);
}

/* A law that has measured nothing. */
INLINE void fast_start(struct fast_law *law, u64 cwnd, u64 ssthresh)
{
    law->cwnd = fast_clamp(cwnd, 1, FAST_CWND_MAX);
    law->ssthresh = ssthresh;
    law->target = law->cwnd;
    law->base_us = 0;
    law->average = 0;
    law->update_at_us = 0;
    law->check_at_us = 0;
    law->least_us = FAST_NO_RTT;
    law->before_us = 0;
    law->check = FAST_REST;
}

/*
 * Takes the round trip of the hand-shake, which no queue of one's own has lengthened. FAST as published has measured none
 * there, and so has one that is never checked.
 */
INLINE void fast_begin(struct fast_law *law, const struct fast_parameters *parameters, u64 rtt_us)
{
    if (parameters->check_seconds == 0)
        return;
    law->base_us = fast_clamp(rtt_us, 1, FAST_RTT_US_MAX);
    law->average = law->base_us << FAST_FRACTION_BITS;
}

INLINE void fast_pause(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us)
{
    law->update_at_us = now_us + parameters->update_rounds * (law->average >> FAST_FRACTION_BITS);
}

/* Ends a check; the next one is due so many seconds after the base was last seen. */
INLINE void fast_rest(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us)
{
    if (law->check == FAST_DRAIN || law->check == FAST_AFTER)
        fast_pause(law, parameters, now_us);
    law->check = FAST_REST;
    law->check_at_us = now_us + parameters->check_seconds * 1000000ULL;
}

/* Takes a round trip, at least 1 us. */
INLINE void fast_measure(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us, u64 rtt_us)
{
    u64 rtt = fast_clamp(rtt_us, 1, FAST_RTT_US_MAX);
    u64 sample = rtt << FAST_FRACTION_BITS;

    if (law->base_us == 0)
        law->average = sample;
    else if (law->check == FAST_REST || law->check == FAST_BEFORE)
        law->average = fast_averaged(law->average, sample, law->cwnd);
    if (law->base_us == 0 || rtt <= law->base_us) {
        law->base_us = rtt;
        fast_rest(law, parameters, now_us);
    }
    law->least_us = fast_min(law->least_us, rtt);
}

/* A segment for each acknowledged, until alpha wait: then the law is near its aim and takes over. */
INLINE void fast_slow_start(struct fast_law *law, const struct fast_parameters *parameters, const struct fast_heard *heard)
{
    if (fast_has_queue(law->cwnd, law->base_us << FAST_FRACTION_BITS, law->average, fast_alpha(law, parameters))) {
        law->ssthresh = law->cwnd;
        fast_pause(law, parameters, heard->now_us);
    } else if (heard->is_window_limited) {
        law->cwnd = fast_min(fast_min(law->cwnd + heard->acked, law->ssthresh), FAST_CWND_MAX);
    }
    law->target = law->cwnd;
}

INLINE void fast_avoid(struct fast_law *law, const struct fast_parameters *parameters, const struct fast_heard *heard)
{
    if (heard->now_us >= law->update_at_us) {
        u64 next = fast_step(law->cwnd, law->base_us << FAST_FRACTION_BITS, law->average, fast_alpha(law, parameters),
                             parameters->gamma_percent);

        law->target = fast_min(next, FAST_CWND_MAX);
        /* A smaller window is one at once; a larger one is spread over acknowledgements, as no burst. */
        law->cwnd = fast_min(law->cwnd, law->target);
        /* The law has shrunk it: that is no reason for slow start. */
        law->ssthresh = fast_min(law->ssthresh, law->cwnd);
        fast_pause(law, parameters, heard->now_us);
    }
    if (heard->is_window_limited)
        law->cwnd = fast_min(law->target, law->cwnd + heard->acked);
}

INLINE void fast_step_to(struct fast_law *law, u32 check, u64 until_us)
{
    law->check = check;
    law->check_at_us = until_us;
    law->least_us = FAST_NO_RTT;
}

/* Lets our packets leave the queue: three quarters of what the path would hold at the rate that we have. */
INLINE void fast_drain(struct fast_law *law, u64 round_us)
{
    u64 held = law->cwnd * law->base_us / fast_max(round_us, law->base_us);

    law->before_us = law->least_us;
    law->target = law->cwnd;
    law->cwnd = fast_clamp(held * FAST_DRAIN_QUARTERS / 4, fast_min(law->cwnd, 2), law->cwnd);
    law->ssthresh = fast_min(law->ssthresh, law->cwnd);
}

INLINE void fast_judge(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us, u64 round_us)
{
    u64 queue = round_us > law->base_us ? round_us - law->base_us : 0;
    u64 gone = law->before_us > law->least_us ? law->before_us - law->least_us : 0;

    if (law->least_us != FAST_NO_RTT && law->before_us != FAST_NO_RTT && gone * FAST_OWN_PART < queue)
        law->base_us = law->least_us;
    fast_rest(law, parameters, now_us);
}

/*
 * Goes on with a check of the base; 1 while it holds the window.
 *
 * A route may have become longer, and then the law takes the difference for a queue. If our packets wait in one, it gets
 * shorter when they leave it. If it does not, the base is out of date, and the shortest round trip without them is the
 * new one.
 */
INLINE u8 fast_checks(struct fast_law *law, const struct fast_parameters *parameters, const struct fast_heard *heard)
{
    u64 now_us = heard->now_us;
    u8 is_due = now_us >= law->check_at_us;
    u64 round_us = fast_max(law->average >> FAST_FRACTION_BITS, 1);

    if (parameters->check_seconds == 0)
        return 0;
    if (law->check == FAST_REST && law->check_at_us == 0) {
        fast_rest(law, parameters, now_us);
    } else if (law->check == FAST_REST && is_due && heard->is_window_limited) {
        fast_step_to(law, FAST_BEFORE, now_us + round_us);
    } else if (law->check == FAST_BEFORE && is_due) {
        fast_drain(law, round_us);
        fast_step_to(law, FAST_DRAIN, now_us + round_us);
    } else if (law->check == FAST_DRAIN && is_due) {
        fast_step_to(law, FAST_AFTER, now_us + round_us + round_us / 2);
    } else if (law->check == FAST_AFTER && is_due) {
        fast_judge(law, parameters, now_us, round_us);
    }
    return law->check == FAST_DRAIN || law->check == FAST_AFTER;
}

/* Grows or shrinks the window with an acknowledgement whose round trip has been taken. */
INLINE void fast_grow(struct fast_law *law, const struct fast_parameters *parameters, const struct fast_heard *heard)
{
    if (law->base_us == 0)
        return;
    if (law->cwnd < law->ssthresh)
        fast_slow_start(law, parameters, heard);
    else if (!fast_checks(law, parameters, heard))
        fast_avoid(law, parameters, heard);
}

/* Takes an acknowledgement of new data. */
INLINE void fast_on_ack(struct fast_law *law, const struct fast_parameters *parameters, const struct fast_heard *heard)
{
    if (heard->rtt_us)
        fast_measure(law, parameters, heard->now_us, heard->rtt_us);
    if (!heard->is_recovering)
        fast_grow(law, parameters, heard);
}

/* A loss: half of the window as with Reno, at least 2 (RFC 5681 s3.1). */
INLINE void fast_halve(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us)
{
    law->ssthresh = fast_max(law->cwnd / 2, 2);
    law->cwnd = law->ssthresh;
    law->target = law->cwnd;
    fast_pause(law, parameters, now_us);
    fast_rest(law, parameters, now_us);
}

/* Slow start from `cwnd` to `ssthresh`. What was measured of the path stays. */
INLINE void fast_restart(struct fast_law *law, const struct fast_parameters *parameters, u64 now_us, u64 cwnd,
                         u64 ssthresh)
{
    law->cwnd = fast_clamp(cwnd, 1, FAST_CWND_MAX);
    law->ssthresh = ssthresh;
    law->target = law->cwnd;
    fast_pause(law, parameters, now_us);
    fast_rest(law, parameters, now_us);
}

/* The last reduction was a mistake: the window and the threshold are at least what they were (RFC 4015 s3.2). */
INLINE void fast_undo(struct fast_law *law, u64 cwnd, u64 ssthresh)
{
    law->cwnd = fast_max(law->cwnd, cwnd);
    law->ssthresh = fast_max(law->ssthresh, ssthresh);
    law->target = law->cwnd;
}

#endif
