/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What FAST keeps of a connection, in the room that the kernel gives every controller (icsk_ca_priv, 104 bytes). */
#ifndef FAST_FLOW_H
#define FAST_FLOW_H

#include "kernel.h"

/* "FAST" and a version of this structure: who finds it in a connection may read the rest. */
#define FAST_MARK 0x4641535400000002ULL

struct fast_flow {
    u64 mark;
    struct fast_law law;
    /* The window and the threshold before the last reduction. */
    u64 cwnd_before;
    u64 ssthresh_before;
    /* What it aimed at last. */
    u32 alpha_packets;
};

_Static_assert(sizeof(struct fast_flow) <= 104, "a controller has 104 bytes of a connection");

#endif
