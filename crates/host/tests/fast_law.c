/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Takes rows of the vectors from stdin, each the fields of `struct fast_vector` but for the law, and writes the window and
 * the threshold after each. fast_law.rs compiles and runs it.
 */
#include <stdio.h>

#include "fast_vector.h"

int main(void)
{
    struct fast_vector vector = {0};
    unsigned long long row[12];

    for (;;) {
        for (int i = 0; i < 12; i++) {
            int read = scanf("%llu", &row[i]);

            if (read == EOF && i == 0)
                return 0;
            if (read != 1) {
                fprintf(stderr, "a row ends after %d numbers\n", i);
                return 1;
            }
        }
        vector.event = row[0];
        vector.parameters.alpha_packets = row[1];
        vector.parameters.gamma_percent = row[2];
        vector.parameters.update_rounds = row[3];
        vector.heard.now_us = row[4];
        vector.heard.rtt_us = row[5];
        vector.heard.acked = row[6];
        vector.heard.is_recovering = row[7];
        vector.heard.is_window_limited = row[8];
        vector.to_cwnd = row[9];
        vector.to_ssthresh = row[10];
        vector.parameters.check_seconds = row[11];
        fast_vector_take(&vector);
        printf("%llu %llu\n", (unsigned long long)vector.law.cwnd, (unsigned long long)vector.law.ssthresh);
    }
}
