// SPDX-License-Identifier: Apache-2.0 OR MIT
/* FAST's arithmetic where it counts: the vectors, a row a call, computed by the kernel that is running. For tests. */
#include "fast_vector.h"

#define SEC(name) __attribute__((section(name), used))

SEC("syscall")
int fast_vectors(struct fast_vector *vector)
{
    fast_vector_take(vector);
    return 0;
}

char offered_under[] SEC("license") = "Dual MIT/GPL";
