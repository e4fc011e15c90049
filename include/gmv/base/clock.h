/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic and wall time; tests can steer both. Thread-safe. */
#ifndef GMV_BASE_CLOCK_H
#define GMV_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

/* Nanoseconds of a monotonic clock. */
int64_t gmv_clock_monotonic_ns(void);

/* Milliseconds since 1970-01-01 UTC. */
int64_t gmv_clock_wall_ms(void);

/* For tests: adds to both clocks from now on. */
void gmv_clock_advance_ms(int64_t milliseconds);

#define GMV_RFC3339_MAX 32

/* "2026-11-29T10:00:00.250Z"; years 1970 to 9999. Returns the length. */
size_t gmv_clock_format_rfc3339(int64_t wall_ms, char out_text[GMV_RFC3339_MAX]);

GMV_END_DECLS

#endif
