/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the fake driver into a test. Its soname makes it the one that a later dlopen of
 * libcuda.so.1 finds, so the CUDA backend of this process runs on it.
 */
#ifndef GMV_TESTS_FAKE_SUPPORT_H
#define GMV_TESTS_FAKE_SUPPORT_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda/fake_cuda.h"

typedef struct fake_control {
    fake_cuda_fail_fn *fail;
    fake_cuda_fail_named_fn *fail_named;
    fake_cuda_failed_fn *failed;
    fake_cuda_sticky_fn *sticky;
    fake_cuda_hang_fn *hang;
    fake_cuda_count_fn *count;
} fake_control;

/* A symbol as whatever `out` points to; false if the library has none of this name. */
static inline bool fake_fetch(void *library, const char *symbol, void *out)
{
    void *address = library ? dlsym(library, symbol) : NULL;
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static inline bool fake_fetch_control(void *library, fake_control *out_control)
{
    return fake_fetch(library, "fake_cuda_fail", &out_control->fail) &&
           fake_fetch(library, "fake_cuda_fail_named", &out_control->fail_named) &&
           fake_fetch(library, "fake_cuda_failed", &out_control->failed) &&
           fake_fetch(library, "fake_cuda_sticky", &out_control->sticky) &&
           fake_fetch(library, "fake_cuda_hang", &out_control->hang) &&
           fake_fetch(library, "fake_cuda_count", &out_control->count);
}

/* Whether the driver that this process has loaded already is the fake one. */
static inline bool fake_attach(fake_control *out_control)
{
    return fake_fetch_control(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), out_control);
}

/* The library; NULL, and the reason on standard error, if it cannot be loaded. */
static inline void *fake_load(fake_control *out_control)
{
    char path[1024];
    const char *build = getenv("GMV_BUILDDIR");
    (void)snprintf(path, sizeof path, "%s/tests/fake_cuda/libcuda.so.1", build ? build : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (fake_fetch_control(library, out_control))
        return library;
    (void)fprintf(stderr, "%s: %s\n", path, library ? "not the fake driver" : dlerror());
    return NULL;
}

static inline fake_cuda_counters fake_counters(const fake_control *control)
{
    fake_cuda_counters counters;
    control->count(&counters);
    return counters;
}

#endif
