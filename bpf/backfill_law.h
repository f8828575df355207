/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Backfill's arithmetic, the twin of crates/engine/src/cc/backfill/law.rs: the same unsigned integers in the same steps, so
 * that the kernel's windows are the simulator's to the last packet. crates/host/tests/backfill_law.rs holds both to it, and
 * a change here is a change there, where the comments are. The guards cannot be switched off here.
 *
 * No sign, no float, nothing that overflows and nothing of the kernel: it compiles for BPF and for any host.
 */
#ifndef BACKFILL_LAW_H
#define BACKFILL_LAW_H

#include "fast_law.h"

/* Windows are in units of 2^-16 segments. */
#define BACKFILL_SEGMENT (1ULL << 16)
#define BACKFILL_CWND_MAX (1ULL << 22)
#define BACKFILL_WINDOW_MAX (BACKFILL_CWND_MAX * BACKFILL_SEGMENT)
#define BACKFILL_RTT_US_MAX ((1ULL << 25) - 1)
/* In units of 2^-24 segments a microsecond. */
#define BACKFILL_RATE_MAX (1ULL << 30)
#define BACKFILL_BATCH_MAX (1ULL << 16)
#define BACKFILL_NONE (~0ULL)

#define BACKFILL_BETA 717
#define BACKFILL_C 410
#define BACKFILL_DISTANCE_MAX (1ULL << 17)
#define BACKFILL_ALPHA_MAX (2 * BACKFILL_SEGMENT)
#define BACKFILL_ALPHA_SHARE 64
#define BACKFILL_ALPHA_MIN (BACKFILL_SEGMENT / 8)
#define BACKFILL_IDLE_SHARE 128
#define BACKFILL_DOUBLINGS_MAX 20
#define BACKFILL_STEADY_US 2000000
#define BACKFILL_UNSEEN_US 10000000
#define BACKFILL_RATE_SPAN_US 100000
#define BACKFILL_FULL_ROUNDS 3

/* What an acknowledgement says. */
struct backfill_heard {
    u64 now_us;
    u64 rtt_us;
    u64 acked;
    u64 lost;
    u64 delivered;
    u64 prior_delivered;
    u64 una;
    u64 sent;
    u64 rate;
    u64 is_app_limited;
    u64 is_window_limited;
};

/* The least or most of the last one to two spans of time. */
struct backfill_recent {
    u64 now;
    u64 before;
    u64 turn_us;
};

/* The two windows and what they are computed from. */
struct backfill_law {
    u64 claim;
    u64 ssthresh;
    u64 w_max;
    u64 origin;
    u64 k;
    u64 w_est;
    u64 epoch_us;
    u64 losses;
    u64 cut_until;
    u64 claim_before;
    u64 ssthresh_before;
    u64 w_max_before;
    u64 fill;
    u64 is_starting;
    u64 full_rate;
    u64 full_rounds;
    u64 srtt;
    u64 base_us;
    u64 base_seen_us;
    struct backfill_recent standing;
    u64 standing_us;
    u64 queue_max_us;
    struct backfill_recent rates;
    u64 rate;
    u64 rate_max;
    u64 idle_rounds;
    u64 round_from;
    u64 steady_from_us;
    u64 steady_least_us;
    u64 steady_most_us;
    u64 look_until_us;
};

INLINE void backfill_turn(struct backfill_recent *recent, u64 now_us, u64 span_us, u64 none)
{
    if (now_us >= recent->turn_us) {
        recent->before = now_us >= recent->turn_us + span_us ? none : recent->now;
        recent->now = none;
        recent->turn_us = now_us + span_us;
    }
}

INLINE u64 backfill_least(struct backfill_recent *recent, u64 now_us, u64 value, u64 span_us)
{
    backfill_turn(recent, now_us, span_us, BACKFILL_NONE);
    recent->now = fast_min(recent->now, value);
    return fast_min(recent->now, recent->before);
}

INLINE u64 backfill_most(struct backfill_recent *recent, u64 now_us, u64 value, u64 span_us)
{
    backfill_turn(recent, now_us, span_us, 0);
    recent->now = fast_max(recent->now, value);
    return fast_max(recent->now, recent->before);
}

/* The part of `difference` that belongs to `acked` segments of a window `w`. */
INLINE u64 backfill_portion(u64 difference, u64 acked, u64 w)
{
    return ((difference * acked) << 8) / (w >> 8);
}

/*
 * The largest number whose cube is at most `n`, for n up to 2^54. Without a branch: the kernel's verifier would follow every
 * path through them, of which there are 2^18.
 */
INLINE u64 backfill_cube_root(u64 n)
{
    u64 root = 0;

#pragma unroll
    for (int bit = 17; bit >= 0; bit--) {
        u64 larger = root + (1ULL << bit);
        /* The sign of a difference of two numbers below 2^55. */
        u64 is_too_large = (n - larger * larger * larger) >> 63;

        root += (is_too_large ^ 1) << bit;
    }
    return root;
}

/* A law that has measured nothing, at a window of so many segments. */
INLINE void backfill_start(struct backfill_law *law, u64 cwnd, u64 ssthresh)
{
    __builtin_memset(law, 0, sizeof(*law));
    law->claim = fast_clamp(cwnd, 1, BACKFILL_CWND_MAX) * BACKFILL_SEGMENT;
    law->ssthresh = ssthresh >= BACKFILL_CWND_MAX ? BACKFILL_NONE : ssthresh * BACKFILL_SEGMENT;
    law->claim_before = law->claim;
    law->ssthresh_before = law->ssthresh;
    law->fill = law->claim;
    law->is_starting = 1;
    law->standing.now = BACKFILL_NONE;
    law->standing.before = BACKFILL_NONE;
}

/* The larger of the two windows. */
INLINE u64 backfill_larger(const struct backfill_law *law, u64 now_us)
{
    u64 w = fast_max(law->claim, law->fill);

    if (law->look_until_us > now_us)
        w = w / 4 * 3;
    return fast_max(w, 2 * BACKFILL_SEGMENT);
}

/* Segments that may be in flight. */
INLINE u64 backfill_cwnd(const struct backfill_law *law, u64 now_us)
{
    return backfill_larger(law, now_us) / BACKFILL_SEGMENT;
}

/* The pace, in units of 2^-24 segments a microsecond; 0 for none. */
INLINE u64 backfill_pace(const struct backfill_law *law, u64 now_us)
{
    u64 per_us;

    if (law->srtt == 0 || (law->claim >= law->fill && !law->is_starting))
        return 0;
    per_us = (backfill_larger(law, now_us) << 11) / law->srtt;
    return law->is_starting ? per_us * 2 : per_us * 5 / 4;
}

/* The segments that the path holds without a queue. */
INLINE u64 backfill_bdp(const struct backfill_law *law)
{
    return fast_min((law->rate * law->base_us) >> 8, BACKFILL_WINDOW_MAX);
}

INLINE void backfill_measure(struct backfill_law *law, const struct backfill_heard *heard)
{
    if (heard->rtt_us > 0) {
        u64 rtt_us = fast_min(heard->rtt_us, BACKFILL_RTT_US_MAX);

        law->srtt = law->srtt == 0 ? rtt_us << 3 : law->srtt - (law->srtt >> 3) + rtt_us;
        if (law->base_us == 0 || rtt_us <= law->base_us + (law->base_us >> 11))
            law->base_seen_us = heard->now_us;
        law->base_us = law->base_us == 0 ? rtt_us : fast_min(law->base_us, rtt_us);
        law->standing_us = backfill_least(&law->standing, heard->now_us, rtt_us, law->srtt >> 4);
        law->queue_max_us = fast_max(law->queue_max_us, rtt_us - law->base_us);
    }
    if (heard->rate > 0 && (!heard->is_app_limited || heard->rate > law->rate)) {
        u64 span = fast_max(5 * (law->srtt >> 3), BACKFILL_RATE_SPAN_US);

        law->rate = backfill_most(&law->rates, heard->now_us, fast_min(heard->rate, BACKFILL_RATE_MAX), span);
        law->rate_max = fast_max(law->rate_max, law->rate);
    }
}

/* CUBIC's reduction, with fast convergence (RFC 9438 s4.6, s4.7), rounded as Linux rounds it. */
INLINE void backfill_cut(struct backfill_law *law)
{
    law->claim_before = law->claim;
    law->ssthresh_before = law->ssthresh;
    law->w_max_before = law->w_max;
    law->w_max = law->claim < law->w_max ? law->claim * (1024 + BACKFILL_BETA) / 2048 : law->claim;
    law->claim = fast_max(law->claim / BACKFILL_SEGMENT * BACKFILL_BETA / 1024, 2) * BACKFILL_SEGMENT;
    law->ssthresh = law->claim;
    law->epoch_us = 0;
}

INLINE void backfill_lose(struct backfill_law *law, const struct backfill_heard *heard, u64 lost, u64 w)
{
    law->losses += lost * (law->claim * BACKFILL_SEGMENT / w);
    if (law->losses < BACKFILL_SEGMENT)
        return;
    law->losses = 0;
    if (heard->una >= law->cut_until) {
        backfill_cut(law);
        law->cut_until = fast_max(heard->sent, 1);
    }
}

/* CUBIC's growth by the share of the arrivals that are its own (RFC 9438 s4.2, s4.3). */
INLINE void backfill_grow_claim(struct backfill_law *law, const struct backfill_heard *heard, u64 acked, u64 w)
{
    u64 t, distance, rise, curve, step, blind, grown;

    if (law->claim < law->ssthresh) {
        grown = law->claim + backfill_portion(law->claim, acked, w);
        law->claim = fast_min(fast_min(grown, law->ssthresh), BACKFILL_WINDOW_MAX);
        return;
    }
    if (law->epoch_us == 0) {
        law->epoch_us = fast_max(heard->now_us, 1);
        law->origin = fast_max(law->w_max, law->claim);
        law->k = backfill_cube_root((law->origin - law->claim) * ((1 << 24) / BACKFILL_C));
        law->w_est = law->claim;
    }
    t = (fast_min(heard->now_us - law->epoch_us + law->base_us, 1 << 27) << 10) / 1000000;
    distance = fast_min(t < law->k ? law->k - t : t - law->k, BACKFILL_DISTANCE_MAX);
    rise = (BACKFILL_C * distance * distance * distance) >> 24;
    if (t < law->k)
        curve = law->origin > rise ? law->origin - rise : 0;
    else
        curve = law->origin + rise;
    law->w_est += backfill_portion(BACKFILL_SEGMENT * 8 / 15, acked, w);
    step = curve > law->claim ? curve - law->claim : 0;
    step = fast_min(fast_max(step, BACKFILL_SEGMENT / 100), law->claim / 2);
    blind = law->w_max == 0 ? law->claim / 20 : 0;
    grown = law->claim + backfill_portion(fast_max(step, blind), acked, w);
    law->claim = fast_min(fast_max(grown, law->w_est), BACKFILL_WINDOW_MAX);
}

INLINE void backfill_restart(struct backfill_law *law)
{
    law->is_starting = 1;
    law->full_rate = 0;
    law->full_rounds = 0;
    law->rate_max = 0;
}

INLINE void backfill_stand(struct backfill_law *law, u64 now_us)
{
    law->steady_from_us = now_us;
    law->steady_least_us = law->standing_us;
    law->steady_most_us = law->standing_us;
}

INLINE void backfill_look(struct backfill_law *law, u64 now_us)
{
    law->look_until_us = now_us + (law->srtt >> 2);
    law->base_seen_us = now_us;
}

INLINE void backfill_judge_look(struct backfill_law *law, u64 now_us)
{
    if (now_us < law->look_until_us)
        return;
    law->look_until_us = 0;
    if (law->standing_us + (law->standing_us - law->base_us) / 8 >= law->steady_least_us) {
        law->base_us = law->standing_us;
        law->queue_max_us = 0;
        backfill_restart(law);
    }
    backfill_stand(law, now_us);
}

/* Looks at the delay with a smaller window: for one's own queue, or for a longer route. */
INLINE void backfill_watch(struct backfill_law *law, u64 now_us, u64 alpha)
{
    u64 queued;

    if (law->look_until_us > 0) {
        backfill_judge_look(law, now_us);
        return;
    }
    queued = ((law->standing_us - law->base_us) * law->rate_max) >> 8;
    if (queued <= 2 * alpha || law->steady_from_us == 0) {
        backfill_stand(law, now_us);
        if (now_us >= law->base_seen_us + BACKFILL_UNSEEN_US && law->fill > law->claim) {
            backfill_look(law, now_us);
            law->steady_least_us = BACKFILL_NONE;
        }
        return;
    }
    law->steady_least_us = fast_min(law->steady_least_us, law->standing_us);
    law->steady_most_us = fast_max(law->steady_most_us, law->standing_us);
    if (now_us - law->steady_from_us >= fast_max(BACKFILL_STEADY_US, law->k << 10)) {
        if (law->steady_most_us - law->steady_least_us <= (law->steady_least_us - law->base_us) / 8)
            backfill_look(law, now_us);
        else
            backfill_stand(law, now_us);
    }
}

INLINE void backfill_begin(struct backfill_law *law, const struct backfill_heard *heard, u64 acked, u64 w, u64 most,
                           u8 begins_round)
{
    u64 waits = w * (law->standing_us - law->base_us) / law->standing_us;

    if (begins_round) {
        law->full_rounds += 1;
        if (law->rate > law->full_rate + law->full_rate / 4) {
            law->full_rate = law->rate;
            law->full_rounds = 0;
        }
    }
    if (waits > most || law->full_rounds >= BACKFILL_FULL_ROUNDS) {
        law->is_starting = 0;
        law->fill = fast_min(backfill_bdp(law), w) + most;
    } else if (heard->is_window_limited) {
        law->fill = fast_min(law->fill + acked * BACKFILL_SEGMENT, BACKFILL_WINDOW_MAX);
    }
}

/* The filling window: FAST's law towards a few segments in the queue, half of the way each round trip. */
INLINE void backfill_move_fill(struct backfill_law *law, const struct backfill_heard *heard, u64 acked, u64 w,
                               u8 begins_round)
{
    u64 most, alpha, more, aim, from, part, bdp;

    if (law->base_us == 0)
        return;
    most = fast_max(BACKFILL_ALPHA_MAX, w / BACKFILL_ALPHA_SHARE);
    alpha = fast_clamp(((law->queue_max_us * law->rate) >> 8) / 10, BACKFILL_ALPHA_MIN, most);
    if (law->is_starting) {
        backfill_begin(law, heard, acked, w, most, begins_round);
        return;
    }
    acked = fast_min(acked, w / BACKFILL_SEGMENT);
    backfill_watch(law, heard->now_us, alpha);
    if (law->look_until_us > 0 || law->is_starting)
        return;
    bdp = backfill_bdp(law);
    if (begins_round) {
        u64 waits = w * (law->standing_us - law->base_us) / law->standing_us;

        law->idle_rounds = waits < fast_max(alpha, w / BACKFILL_IDLE_SHARE) ? law->idle_rounds + 1 : 0;
    }
    more = fast_min(alpha << fast_min(law->idle_rounds, BACKFILL_DOUBLINGS_MAX), fast_max(alpha, w / 4));
    aim = fast_min(w * law->base_us / law->standing_us + more, bdp + bdp / 10 + alpha);
    from = fast_min(law->fill, fast_max(w, aim));
    part = backfill_portion((aim >= from ? aim - from : from - aim) / 2, acked, w);
    law->fill = fast_clamp(aim >= from ? from + part : from - part, 2 * BACKFILL_SEGMENT, BACKFILL_WINDOW_MAX);
}

/* Takes an acknowledgement. */
INLINE void backfill_on_ack(struct backfill_law *law, const struct backfill_heard *heard)
{
    u64 acked = fast_min(heard->acked, BACKFILL_BATCH_MAX);
    u64 lost = fast_min(heard->lost, BACKFILL_BATCH_MAX);
    u8 begins_round = acked > 0 && heard->prior_delivered >= law->round_from;
    u64 w;

    if (begins_round)
        law->round_from = heard->delivered;
    backfill_measure(law, heard);
    w = backfill_larger(law, heard->now_us);
    if (lost > 0)
        backfill_lose(law, heard, lost, w);
    if (heard->una >= law->cut_until && heard->is_window_limited)
        backfill_grow_claim(law, heard, acked, w);
    backfill_move_fill(law, heard, acked, w, begins_round);
}

/* The retransmission timer expired; so many segments are still believed to be in the network. */
INLINE void backfill_on_timeout(struct backfill_law *law, u64 pipe, u8 is_repeated)
{
    if (!is_repeated)
        backfill_cut(law);
    law->claim = fast_min(law->claim, fast_min(pipe, BACKFILL_CWND_MAX) * BACKFILL_SEGMENT + BACKFILL_SEGMENT);
    law->w_max = 0;
    law->epoch_us = 0;
    law->cut_until = 0;
    law->fill = fast_max(law->fill / 2, 2 * BACKFILL_SEGMENT);
    backfill_restart(law);
}

INLINE u64 backfill_halved(u64 w, u64 timeouts, u64 initial)
{
    return fast_max(w >> fast_min(timeouts, 63), fast_min(w, initial * BACKFILL_SEGMENT));
}

/* The connection was idle: both windows halve for every time-out that it lasted, down to `initial` (RFC 2861 s3.1). */
INLINE void backfill_on_idle(struct backfill_law *law, u64 timeouts, u64 initial)
{
    law->ssthresh = fast_max(law->ssthresh, law->claim / 4 * 3);
    law->claim = backfill_halved(law->claim, timeouts, initial);
    law->fill = backfill_halved(law->fill, timeouts, initial);
    law->epoch_us = 0;
    backfill_restart(law);
}

/* The last cut was a mistake: CUBIC's window and threshold are at least what they were (RFC 4015 s3.2). */
INLINE void backfill_undo(struct backfill_law *law)
{
    law->claim = fast_max(law->claim, law->claim_before);
    law->ssthresh = fast_max(law->ssthresh, law->ssthresh_before);
    law->w_max = law->w_max_before;
}

#endif
