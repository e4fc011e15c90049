/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver and its calls. Once found it stays: the driver does not survive being closed. */
#include "device/cuda/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/log.h>

cuda_driver gmv__cuda;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static char driver_problem[192]; /* "" when it is open */

typedef struct driver_symbol {
    const char *name;
    size_t offset; /* of the member in cuda_driver */
} driver_symbol;

#define DRIVER_SYMBOL(member, symbol, parameters) {symbol, offsetof(cuda_driver, member)},
static const driver_symbol driver_symbols[] = {CUDA_DRIVER_MAP(DRIVER_SYMBOL)};
#undef DRIVER_SYMBOL

/* The name of the first call that the library lacks; NULL if it has them all. */
static const char *driver_fetch(void *library)
{
    for (size_t i = 0; i < sizeof driver_symbols / sizeof driver_symbols[0]; i++) {
        void *address = dlsym(library, driver_symbols[i].name);
        if (!address)
            return driver_symbols[i].name;
        memcpy((char *)&gmv__cuda + driver_symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

static void driver_open_once(void)
{
    void *library = dlopen(CUDA_DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(driver_problem, sizeof driver_problem, "there is no NVIDIA driver (%s)",
                 CUDA_DRIVER_LIBRARY);
        gmv_log(GMV_LOG_DEBUG, "cuda_driver", gmv_log_text("error", dlerror()));
        return;
    }
    const char *missing = driver_fetch(library);
    if (missing) {
        snprintf(driver_problem, sizeof driver_problem,
                 "the NVIDIA driver is too old: it has no %s", missing);
        dlclose(library);
        return;
    }
    CUresult result = gmv__cuda.init(0);
    if (result == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    (void)gmv__cuda.error_name(result, &name);
    snprintf(driver_problem, sizeof driver_problem,
             result == CUDA_ERROR_NO_DEVICE ? "the NVIDIA driver finds no device (%s)"
                                            : "the NVIDIA driver cannot be initialized (%s)",
             name ? name : "no reason given");
}

gmv_status gmv__cuda_driver_open(gmv_error *err)
{
    (void)pthread_once(&driver_once, driver_open_once);
    if (driver_problem[0])
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL, "%s", driver_problem);
    return GMV_OK;
}
