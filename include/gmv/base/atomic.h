/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic members of public structs. C and C++ name them differently but lay them out alike, so a
 * C++ program may include the headers and pass the structs around; it never touches such a member.
 */
#ifndef GMV_BASE_ATOMIC_H
#define GMV_BASE_ATOMIC_H

#ifdef __cplusplus
#    include <atomic>
#    define GMV_ATOMIC(type) std::atomic<type>
#else
#    include <stdatomic.h>
#    define GMV_ATOMIC(type) _Atomic(type)
#endif

#endif
