/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A row of the vectors, for whoever runs them: a program of the host, or the kernel itself. */
#ifndef FAST_VECTOR_H
#define FAST_VECTOR_H

#include "fast_law.h"

enum fast_event { FAST_START, FAST_ACK, FAST_HALVE, FAST_RESTART, FAST_UNDO, FAST_BEGIN };

struct fast_vector {
    /* An `enum fast_event`. */
    u64 event;
    /* Of start, restart and undo. */
    u64 to_cwnd;
    u64 to_ssthresh;
    struct fast_heard heard;
    struct fast_parameters parameters;
    /* Before the event, and after it. */
    struct fast_law law;
};

INLINE void fast_vector_take(struct fast_vector *vector)
{
    struct fast_law *law = &vector->law;

    switch (vector->event) {
    case FAST_START:
        fast_start(law, vector->to_cwnd, vector->to_ssthresh);
        break;
    case FAST_ACK:
        fast_on_ack(law, &vector->parameters, &vector->heard);
        break;
    case FAST_HALVE:
        fast_halve(law, &vector->parameters, vector->heard.now_us);
        break;
    case FAST_RESTART:
        fast_restart(law, &vector->parameters, vector->heard.now_us, vector->to_cwnd, vector->to_ssthresh);
        break;
    case FAST_BEGIN:
        fast_begin(law, &vector->parameters, vector->heard.rtt_us);
        break;
    case FAST_UNDO:
        fast_undo(law, vector->to_cwnd, vector->to_ssthresh);
        break;
    }
}

#endif
