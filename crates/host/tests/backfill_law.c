/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Takes events from stdin, 15 numbers each, and writes both windows, what may be in flight and the pace after each.
 * backfill_law.rs compiles and runs it.
 */
#include <stdio.h>

#include "backfill_law.h"

int main(void)
{
    struct backfill_law law = {0};
    unsigned long long row[15];

    for (;;) {
        for (int i = 0; i < 15; i++) {
            int read = scanf("%llu", &row[i]);

            if (read == EOF && i == 0)
                return 0;
            if (read != 1) {
                fprintf(stderr, "an event ends after %d numbers\n", i);
                return 1;
            }
        }
        struct backfill_heard heard = {row[4],  row[5],  row[6],  row[7],  row[8], row[9],
                                       row[10], row[11], row[12], row[13], row[14]};

        switch (row[0]) {
        case 0:
            backfill_start(&law, row[1], row[2]);
            break;
        case 1:
            backfill_on_ack(&law, &heard);
            break;
        case 2:
            backfill_on_timeout(&law, row[1], row[2]);
            break;
        case 3:
            backfill_on_idle(&law, row[1], row[2]);
            break;
        case 4:
            backfill_undo(&law);
            break;
        }
        printf("%llu %llu %llu %llu\n", (unsigned long long)law.claim, (unsigned long long)law.fill,
               (unsigned long long)backfill_cwnd(&law, row[4]), (unsigned long long)backfill_pace(&law, row[4]));
    }
}
