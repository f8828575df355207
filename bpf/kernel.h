/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What our programs know of the kernel they run in: the fields they touch, by name. The loader finds where the running
 * kernel keeps each (CO-RE), so one object serves all of them and no kernel header is needed to build it.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "fast_law.h"

#define SEC(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))

/* How a map's type and sizes are written down for the loader (libbpf's conventions for `.maps`). */
#define MAP_NUMBER(name, value) int(*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_F_LINK (1U << 13)

/* Helper functions by their numbers, which are fixed (linux/bpf.h). */
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*bpf_seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static void *(*bpf_skc_to_tcp_sock)(void *sock) = (void *)137;

#define TCP_CA_NAME_MAX 16
/* Slow start has not ended (net/tcp.h). */
#define TCP_INFINITE_SSTHRESH 0x7fffffff
/* Every user may choose it, and a namespace may have it for its default. */
#define TCP_CONG_NON_RESTRICTED 1
/* States of loss recovery (`enum tcp_ca_state`). */
#define TCP_CA_LOSS 4
#define TCP_LISTEN 10
/* The first segment after a pause (`enum tcp_ca_event`). */
#define CA_EVENT_TX_START 0
/* Who paces a socket: nobody, or TCP itself (`enum sk_pacing`). */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define SK_PACING_FQ 2

struct in6_addr {
    u8 bytes[16];
} RELOCATED;

struct sock_common {
    u32 skc_daddr;
    u32 skc_rcv_saddr;
    u16 skc_dport;
    u16 skc_num;
    u16 skc_family;
    u8 skc_state;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
    struct sock_common __sk_common;
    u32 sk_pacing_status;
    /* Bytes a second; all ones for no limit. */
    u64 sk_pacing_rate;
} RELOCATED;

/* A program as the kernel calls it: its arguments are in an array. */
typedef int program(u64 *arguments);

/* A controller as the kernel knows it; the members that we do not fill are left out. */
struct tcp_congestion_ops {
    /* First, so that the loader can write another one: see fast/kernel.rs of the crate `host`. */
    char name[TCP_CA_NAME_MAX];
    u32 flags;
    program *init;
    program *ssthresh;
    program *cong_avoid;
    program *cong_control;
    program *set_state;
    program *cwnd_event;
    program *pkts_acked;
    program *undo_cwnd;
};

/* The same when it is read from the kernel, where its fields lie elsewhere. */
struct tcp_congestion_ops___kernel {
    char name[TCP_CA_NAME_MAX];
} RELOCATED;

struct inet_connection_sock {
    const struct tcp_congestion_ops___kernel *icsk_ca_ops;
    u64 icsk_ca_priv[13];
} RELOCATED;

/* A running minimum, the best first. */
struct minmax_sample {
    u32 v;
} RELOCATED;

struct minmax {
    struct minmax_sample s[3];
} RELOCATED;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    u32 mss_cache;
    u32 snd_cwnd;
    u32 snd_cwnd_clamp;
    u32 snd_ssthresh;
    u32 srtt_us;
    u32 max_packets_out;
    u32 delivered;
    u32 snd_una;
    u32 snd_nxt;
    u32 is_cwnd_limited : 1;
    struct minmax rtt_min;
    /* When the packet that is being dealt with came, in us. */
    u64 tcp_mstamp;
} RELOCATED;

struct ack_sample {
    s32 rtt_us;
} RELOCATED;

/* A field of some bits: where they lie is known only to the running kernel. */
#define READ_BITS(record, field)                                                                                       \
    ({                                                                                                                 \
        const void *at = (const void *)(record) + __builtin_preserve_field_info((record)->field, 0);                    \
        u64 bits = 0;                                                                                                  \
        /* Not to be folded into an access of the field as it is declared here. */                                     \
        asm volatile("" : "+r"(at));                                                                                   \
        switch (__builtin_preserve_field_info((record)->field, 1)) {                                                   \
        case 1:                                                                                                        \
            bits = *(const u8 *)at;                                                                                    \
            break;                                                                                                     \
        case 2:                                                                                                        \
            bits = *(const u16 *)at;                                                                                   \
            break;                                                                                                     \
        case 4:                                                                                                        \
            bits = *(const u32 *)at;                                                                                   \
            break;                                                                                                     \
        case 8:                                                                                                        \
            bits = *(const u64 *)at;                                                                                   \
            break;                                                                                                     \
        }                                                                                                              \
        bits << __builtin_preserve_field_info((record)->field, 4) >>                                                   \
            __builtin_preserve_field_info((record)->field, 5);                                                         \
    })

#endif
