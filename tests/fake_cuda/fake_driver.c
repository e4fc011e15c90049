/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's devices, contexts and modules, its faults on demand, and its books. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda/fake_priv.h"

#define FAKE_VERSION      13000
#define FAKE_STACK_MAX    32
#define FAKE_LEAST_URGENT 0
#define FAKE_MOST_URGENT  (-5)

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- results --------------------------------------------------------------------------------- */

static const struct fake_result {
    CUresult result;
    const char *name;
    bool sticky;
} fake_results[] = {
#define RESULT(name, sticky) \
    {                        \
        name, #name, sticky  \
    }
    RESULT(CUDA_SUCCESS, false),
    RESULT(CUDA_ERROR_INVALID_VALUE, false),
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, false),
    RESULT(CUDA_ERROR_NOT_INITIALIZED, false),
    RESULT(CUDA_ERROR_DEINITIALIZED, false),
    RESULT(CUDA_ERROR_NO_DEVICE, false),
    RESULT(CUDA_ERROR_INVALID_DEVICE, false),
    RESULT(CUDA_ERROR_INVALID_IMAGE, false),
    RESULT(CUDA_ERROR_INVALID_CONTEXT, false),
    RESULT(CUDA_ERROR_MAP_FAILED, false),
    RESULT(CUDA_ERROR_NO_BINARY_FOR_GPU, false),
    RESULT(CUDA_ERROR_INVALID_SOURCE, false),
    RESULT(CUDA_ERROR_OPERATING_SYSTEM, false),
    RESULT(CUDA_ERROR_INVALID_HANDLE, false),
    RESULT(CUDA_ERROR_NOT_FOUND, false),
    RESULT(CUDA_ERROR_NOT_READY, false),
    RESULT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, false),
    RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, false),
    RESULT(CUDA_ERROR_NOT_PERMITTED, false),
    RESULT(CUDA_ERROR_NOT_SUPPORTED, false),
    RESULT(CUDA_ERROR_SYSTEM_NOT_READY, false),
    RESULT(CUDA_ERROR_ECC_UNCORRECTABLE, true),
    RESULT(CUDA_ERROR_NVLINK_UNCORRECTABLE, true),
    RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, true),
    RESULT(CUDA_ERROR_LAUNCH_TIMEOUT, true),
    RESULT(CUDA_ERROR_ASSERT, true),
    RESULT(CUDA_ERROR_HARDWARE_STACK_ERROR, true),
    RESULT(CUDA_ERROR_ILLEGAL_INSTRUCTION, true),
    RESULT(CUDA_ERROR_MISALIGNED_ADDRESS, true),
    RESULT(CUDA_ERROR_INVALID_ADDRESS_SPACE, true),
    RESULT(CUDA_ERROR_INVALID_PC, true),
    RESULT(CUDA_ERROR_LAUNCH_FAILED, true),
    RESULT(CUDA_ERROR_UNKNOWN, false),
#undef RESULT
};

static const struct fake_result *result_find(CUresult result)
{
    for (size_t i = 0; i < sizeof fake_results / sizeof fake_results[0]; i++)
        if (fake_results[i].result == result)
            return &fake_results[i];
    return NULL;
}

bool fake_is_sticky(CUresult result)
{
    const struct fake_result *found = result_find(result);
    return found && found->sticky;
}

static const char *result_name(CUresult result)
{
    const struct fake_result *found = result_find(result);
    return found ? found->name : NULL;
}

CUresult fake_error_name(CUresult result, const char **out_name)
{
    *out_name = result_name(result);
    return *out_name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_error_text(CUresult result, const char **out_text)
{
    return fake_error_name(result, out_text);
}

void fake_violate(fake_context *context, CUresult result, const char *format, ...)
{
    va_list arguments;
    char text[256];
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, FAKE_CUDA_COMPLAINT "%s\n", text);
    fake.counters.violations++;
    if (context->sticky == CUDA_SUCCESS)
        context->sticky = result;
}

/* ---- handles --------------------------------------------------------------------------------- */

/* A handle is type << 56 | generation << 32 | slot + 1. */
typedef struct fake_slot {
    fake_type type;
    uint32_t generation;
    void *object;
    size_t next_free; /* slot + 1; 0: none */
} fake_slot;

static struct {
    fake_slot *slots;
    size_t n, capacity, first_free;
} handles;

static bool handles_grow(void)
{
    if (handles.n < handles.capacity)
        return true;
    size_t capacity = handles.capacity ? 2 * handles.capacity : 256;
    fake_slot *slots = realloc(handles.slots, capacity * sizeof *slots);
    if (!slots)
        return false;
    handles.slots = slots;
    handles.capacity = capacity;
    return true;
}

void *fake_handle_make(fake_type type, void *object)
{
    size_t slot = handles.first_free;
    if (slot) {
        slot--;
        handles.first_free = handles.slots[slot].next_free;
    } else {
        if (!handles_grow())
            return NULL;
        slot = handles.n++;
        handles.slots[slot].generation = 0;
    }
    fake_slot *made = &handles.slots[slot];
    made->type = type;
    made->object = object;
    return (void *)((uintptr_t)type << 56 | (uintptr_t)(made->generation & 0xffffff) << 32 |
                    (uintptr_t)(slot + 1));
}

static fake_slot *handle_slot(const void *handle)
{
    uintptr_t value = (uintptr_t)handle, slot = value & 0xffffffff;
    if (slot == 0 || slot > handles.n)
        return NULL;
    fake_slot *found = &handles.slots[slot - 1];
    bool is_current = found->object && (value >> 32 & 0xffffff) == (found->generation & 0xffffff) &&
                      value >> 56 == (uintptr_t)found->type;
    return is_current ? found : NULL;
}

void *fake_handle_object(fake_type type, const void *handle)
{
    fake_slot *slot = handle_slot(handle);
    return slot && slot->type == type ? slot->object : NULL;
}

void fake_handle_drop(const void *handle)
{
    fake_slot *slot = handle_slot(handle);
    if (!slot)
        return;
    slot->object = NULL;
    slot->generation++;
    slot->next_free = handles.first_free;
    handles.first_free = (size_t)(slot - handles.slots) + 1;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static _Thread_local struct {
    void *contexts[FAKE_STACK_MAX]; /* handles */
    size_t n;
} stack;

static fake_context *context_current(void)
{
    return stack.n ? fake_handle_object(FAKE_CONTEXT, stack.contexts[stack.n - 1]) : NULL;
}

/* Making a live context current does not fail on a real device, so only by name here. */
static bool call_can_fail(const char *symbol)
{
    return strcmp(symbol, "cuCtxPushCurrent_v2") != 0 && strcmp(symbol, "cuCtxPopCurrent_v2") != 0;
}

/* Whether this call is the one that is to fail. */
static bool call_is_to_fail(const char *symbol)
{
    bool counts =
        fake.failing_symbol[0] ? strcmp(fake.failing_symbol, symbol) == 0 : call_can_fail(symbol);
    fake.counters.calls++;
    if (fake.calls_to_failure == 0 || !counts)
        return false;
    if (--fake.calls_to_failure > 0)
        return false;
    fake.failed_symbol = symbol;
    return true;
}

static CUresult context_tell(fake_context *context)
{
    if (context->told)
        fake.counters.late_calls++;
    context->told = true;
    return context->sticky;
}

static CUresult call_check(fake_call *call, const char *symbol, fake_scope scope)
{
    if (!fake.initialized)
        return CUDA_ERROR_NOT_INITIALIZED;
    call->context = context_current();
    if (scope == FAKE_IN_CONTEXT && !call->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (scope == FAKE_IN_CONTEXT && call->context->sticky)
        return context_tell(call->context);
    if (!call_is_to_fail(symbol))
        return CUDA_SUCCESS;
    call->planned = fake.failure;
    if (scope == FAKE_IN_CONTEXT && fake_is_sticky(call->planned)) {
        call->context->sticky = call->planned;
        call->context->told = true;
        return call->planned;
    }
    return CUDA_SUCCESS;
}

CUresult fake_enter(fake_call *call, const char *symbol, fake_scope scope)
{
    CUresult result = fake_enter_release(call, symbol, scope);
    if (result == CUDA_SUCCESS && call->planned) {
        (void)pthread_mutex_unlock(&fake.lock);
        return call->planned;
    }
    return result;
}

CUresult fake_enter_release(fake_call *call, const char *symbol, fake_scope scope)
{
    *call = (fake_call){.scope = scope};
    (void)pthread_mutex_lock(&fake.lock);
    CUresult result = call_check(call, symbol, scope);
    if (result != CUDA_SUCCESS)
        (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

CUresult fake_leave(const fake_call *call, CUresult result)
{
    /* A call that is not in a context may have ended it. */
    if (call->scope == FAKE_IN_CONTEXT && result && result == call->context->sticky)
        call->context->told = true;
    (void)pthread_mutex_unlock(&fake.lock);
    return call->planned ? call->planned : result;
}

/* ---- steering -------------------------------------------------------------------------------- */

void fake_cuda_fail_named(const char *symbol, uint64_t n, int result)
{
    (void)pthread_mutex_lock(&fake.lock);
    (void)snprintf(fake.failing_symbol, sizeof fake.failing_symbol, "%s", symbol ? symbol : "");
    fake.calls_to_failure = n;
    fake.failure = (CUresult)result;
    fake.failed_symbol = NULL;
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_fail(uint64_t n, int result)
{
    fake_cuda_fail_named(NULL, n, result);
}

const char *fake_cuda_failed(void)
{
    (void)pthread_mutex_lock(&fake.lock);
    const char *symbol = fake.failed_symbol;
    (void)pthread_mutex_unlock(&fake.lock);
    return symbol;
}

void fake_cuda_sticky(int result)
{
    (void)pthread_mutex_lock(&fake.lock);
    for (fake_context *context = fake.contexts; context; context = context->next)
        context->sticky = (CUresult)result;
    (void)pthread_cond_broadcast(&fake.changed);
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_hang(bool on)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.hanging = on;
    (void)pthread_cond_broadcast(&fake.changed);
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_cuda_count(fake_cuda_counters *out_counters)
{
    (void)pthread_mutex_lock(&fake.lock);
    *out_counters = fake.counters;
    out_counters->used_nbytes = 0;
    for (int i = 0; i < fake.n_devices; i++)
        out_counters->used_nbytes += fake.devices[i].used_nbytes;
    (void)pthread_mutex_unlock(&fake.lock);
}

static uint64_t environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* N:RESULT[:SYMBOL] */
static void environment_failure(void)
{
    const char *text = getenv("GMV_FAKE_CUDA_FAIL");
    char *rest;
    if (!text || !*text)
        return;
    fake.calls_to_failure = strtoull(text, &rest, 10);
    fake.failure = *rest == ':' ? (CUresult)strtol(rest + 1, &rest, 10) : CUDA_ERROR_UNKNOWN;
    (void)snprintf(fake.failing_symbol, sizeof fake.failing_symbol, "%s",
                   *rest == ':' ? rest + 1 : "");
}

/* ---- the driver and its devices -------------------------------------------------------------- */

static CUresult driver_init(void)
{
    if (fake.initialized)
        return CUDA_SUCCESS;
    uint64_t n = environment_number("GMV_FAKE_CUDA_DEVICES", 1);
    if (n == 0)
        return CUDA_ERROR_NO_DEVICE;
    fake.n_devices = n < FAKE_DEVICES_MAX ? (int)n : FAKE_DEVICES_MAX;
    for (int i = 0; i < fake.n_devices; i++)
        fake.devices[i].total_nbytes = environment_number("GMV_FAKE_CUDA_MEMORY", 8192) << 20;
    fake.async = environment_number("GMV_FAKE_CUDA_ASYNC", 0) != 0;
    fake.launches_to_hang = environment_number("GMV_FAKE_CUDA_HANG", 0);
    environment_failure();
    fake.initialized = true;
    return call_is_to_fail("cuInit") ? fake.failure : CUDA_SUCCESS;
}

CUresult fake_init(unsigned flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    (void)pthread_mutex_lock(&fake.lock);
    CUresult result = driver_init();
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

CUresult fake_driver_version(int *out_version)
{
    *out_version = FAKE_VERSION;
    return CUDA_SUCCESS;
}

static CUresult number_give(int *out_number, int number)
{
    *out_number = number;
    return CUDA_SUCCESS;
}

CUresult fake_device_count(int *out_count)
{
    FAKE_CALL("cuDeviceGetCount", FAKE_GLOBAL, number_give(out_count, fake.n_devices));
}

static bool device_exists(int ordinal)
{
    return ordinal >= 0 && ordinal < fake.n_devices;
}

CUresult fake_device_get(CUdevice *out_device, int ordinal)
{
    FAKE_CALL("cuDeviceGet", FAKE_GLOBAL,
              device_exists(ordinal) ? number_give(out_device, ordinal)
                                     : CUDA_ERROR_INVALID_DEVICE);
}

static CUresult device_name(char *out_name, int nbytes, CUdevice device)
{
    if (!device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    (void)snprintf(out_name, (size_t)nbytes, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult fake_device_name(char *out_name, int nbytes, CUdevice device)
{
    FAKE_CALL("cuDeviceGetName", FAKE_GLOBAL, device_name(out_name, nbytes, device));
}

/* The same in every process, as that of a real device is. */
static CUresult device_uuid(CUuuid *out_uuid, CUdevice device)
{
    if (!device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; i < sizeof out_uuid->bytes; i++)
        out_uuid->bytes[i] = (char)(0xfa + 17 * (int)i);
    out_uuid->bytes[sizeof out_uuid->bytes - 1] = (char)device;
    return CUDA_SUCCESS;
}

CUresult fake_device_uuid(CUuuid *out_uuid, CUdevice device)
{
    FAKE_CALL("cuDeviceGetUuid_v2", FAKE_GLOBAL, device_uuid(out_uuid, device));
}

static CUresult device_total(size_t *out_nbytes, CUdevice device)
{
    if (!device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out_nbytes = fake.devices[device].total_nbytes;
    return CUDA_SUCCESS;
}

CUresult fake_device_total(size_t *out_nbytes, CUdevice device)
{
    FAKE_CALL("cuDeviceTotalMem_v2", FAKE_GLOBAL, device_total(out_nbytes, device));
}

static CUresult device_attribute(int *out_value, CUdevice_attribute attribute, CUdevice device)
{
    static const struct {
        CUdevice_attribute attribute;
        int value;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 4},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
    };
    if (!device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out_value = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].attribute == attribute)
            *out_value = rows[i].value;
    return CUDA_SUCCESS;
}

CUresult fake_device_attribute(int *out_value, CUdevice_attribute attribute, CUdevice device)
{
    FAKE_CALL("cuDeviceGetAttribute", FAKE_GLOBAL, device_attribute(out_value, attribute, device));
}

/* ---- contexts -------------------------------------------------------------------------------- */

static fake_context *context_make(int ordinal, bool is_primary)
{
    fake_context *context = calloc(1, sizeof *context);
    void *handle = context ? fake_handle_make(FAKE_CONTEXT, context) : NULL;
    if (!handle) {
        free(context);
        return NULL;
    }
    *context = (fake_context){
        .handle = handle, .ordinal = ordinal, .is_primary = is_primary, .next = fake.contexts};
    fake.contexts = context;
    fake.counters.contexts++;
    return context;
}

void fake_context_end(fake_context *context)
{
    fake_context **link = &fake.contexts;
    if (!context->sticky)
        fake_context_wait(context);
    fake_streams_end(context);
    fake_memory_end(context);
    while (*link != context)
        link = &(*link)->next;
    *link = context->next;
    fake_handle_drop(context->handle);
    fake.counters.contexts--;
    free(context);
}

static CUresult context_retain(CUcontext *out_context, CUdevice ordinal)
{
    if (!device_exists(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_device *device = &fake.devices[ordinal];
    if (!device->primary && !(device->primary = context_make(ordinal, true)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    device->retains++;
    *out_context = device->primary->handle;
    return CUDA_SUCCESS;
}

CUresult fake_context_retain(CUcontext *out_context, CUdevice device)
{
    FAKE_CALL("cuDevicePrimaryCtxRetain", FAKE_GLOBAL, context_retain(out_context, device));
}

static CUresult context_release(CUdevice ordinal)
{
    if (!device_exists(ordinal) || fake.devices[ordinal].retains == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--fake.devices[ordinal].retains == 0) {
        fake_context_end(fake.devices[ordinal].primary);
        fake.devices[ordinal].primary = NULL;
    }
    return CUDA_SUCCESS;
}

CUresult fake_context_release(CUdevice device)
{
    FAKE_RELEASE("cuDevicePrimaryCtxRelease_v2", FAKE_GLOBAL, context_release(device));
}

static CUresult context_push(CUcontext context)
{
    if (!fake_handle_object(FAKE_CONTEXT, context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.n == FAKE_STACK_MAX)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack.contexts[stack.n++] = context;
    return CUDA_SUCCESS;
}

CUresult fake_context_push(CUcontext context)
{
    FAKE_CALL("cuCtxPushCurrent_v2", FAKE_GLOBAL, context_push(context));
}

static CUresult context_pop(CUcontext *out_context)
{
    if (stack.n == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack.n--;
    if (out_context)
        *out_context = stack.contexts[stack.n];
    return CUDA_SUCCESS;
}

CUresult fake_context_pop(CUcontext *out_context)
{
    FAKE_RELEASE("cuCtxPopCurrent_v2", FAKE_GLOBAL, context_pop(out_context));
}

static CUresult context_set(CUcontext context)
{
    if (context && !fake_handle_object(FAKE_CONTEXT, context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.n)
        stack.n--;
    return context ? context_push(context) : CUDA_SUCCESS;
}

CUresult fake_context_set(CUcontext context)
{
    FAKE_CALL("cuCtxSetCurrent", FAKE_GLOBAL, context_set(context));
}

static CUresult context_get(CUcontext *out_context)
{
    *out_context = stack.n ? stack.contexts[stack.n - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult fake_context_get(CUcontext *out_context)
{
    FAKE_CALL("cuCtxGetCurrent", FAKE_GLOBAL, context_get(out_context));
}

static CUresult context_create(CUcontext *out_context, CUdevice device)
{
    if (!device_exists(device))
        return CUDA_ERROR_INVALID_DEVICE;
    fake_context *context = context_make(device, false);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out_context = context->handle;
    return context_push(context->handle);
}

CUresult fake_context_create(CUcontext *out_context, unsigned flags, CUdevice device)
{
    (void)flags;
    FAKE_CALL("cuCtxCreate_v2", FAKE_GLOBAL, context_create(out_context, device));
}

static CUresult context_destroy(CUcontext handle)
{
    fake_context *context = fake_handle_object(FAKE_CONTEXT, handle);
    if (!context || context->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.n && stack.contexts[stack.n - 1] == handle)
        stack.n--;
    fake_context_end(context);
    return CUDA_SUCCESS;
}

CUresult fake_context_destroy(CUcontext context)
{
    FAKE_RELEASE("cuCtxDestroy_v2", FAKE_GLOBAL, context_destroy(context));
}

static CUresult context_priorities(int *out_least, int *out_greatest)
{
    *out_least = FAKE_LEAST_URGENT;
    *out_greatest = FAKE_MOST_URGENT;
    return CUDA_SUCCESS;
}

CUresult fake_context_priorities(int *out_least, int *out_greatest)
{
    FAKE_CALL("cuCtxGetStreamPriorityRange", FAKE_IN_CONTEXT,
              context_priorities(out_least, out_greatest));
}

/* ---- modules --------------------------------------------------------------------------------- */

struct fake_module {
    void *handle;
    void **functions; /* handles that were made for it */
    size_t n_functions;
};

static CUresult module_load(CUmodule *out_module, const void *image)
{
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    fake_module *module = calloc(1, sizeof *module);
    void *handle = module ? fake_handle_make(FAKE_MODULE, module) : NULL;
    if (!handle) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->handle = handle;
    fake.counters.modules++;
    *out_module = handle;
    return CUDA_SUCCESS;
}

CUresult fake_module_load(CUmodule *out_module, const void *image)
{
    FAKE_CALL("cuModuleLoadData", FAKE_IN_CONTEXT, module_load(out_module, image));
}

CUresult fake_module_load_fatbin(CUmodule *out_module, const void *image)
{
    FAKE_CALL("cuModuleLoadFatBinary", FAKE_IN_CONTEXT, module_load(out_module, image));
}

static CUresult module_unload(CUmodule handle)
{
    fake_module *module = fake_handle_object(FAKE_MODULE, handle);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < module->n_functions; i++)
        fake_handle_drop(module->functions[i]);
    fake_handle_drop(handle);
    free(module->functions);
    free(module);
    fake.counters.modules--;
    return CUDA_SUCCESS;
}

CUresult fake_module_unload(CUmodule module)
{
    FAKE_RELEASE("cuModuleUnload", FAKE_IN_CONTEXT, module_unload(module));
}

static CUresult module_function(CUfunction *out_function, CUmodule handle, const char *name)
{
    fake_module *module = fake_handle_object(FAKE_MODULE, handle);
    const fake_kernel *kernel = fake_kernel_find(name);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    void **functions = realloc(module->functions, (module->n_functions + 1) * sizeof *functions);
    if (!functions)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->functions = functions;
    void *function = fake_handle_make(FAKE_FUNCTION, (void *)(uintptr_t)kernel);
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    functions[module->n_functions++] = function;
    *out_function = function;
    return CUDA_SUCCESS;
}

CUresult fake_module_function(CUfunction *out_function, CUmodule module, const char *name)
{
    FAKE_CALL("cuModuleGetFunction", FAKE_IN_CONTEXT, module_function(out_function, module, name));
}

static CUresult function_attribute(int *out_value, CUfunction_attribute attribute,
                                   CUfunction function)
{
    if (!fake_handle_object(FAKE_FUNCTION, function))
        return CUDA_ERROR_INVALID_HANDLE;
    *out_value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
                 : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                 : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION      ? 90
                                                                      : 0;
    return CUDA_SUCCESS;
}

CUresult fake_function_attribute(int *out_value, CUfunction_attribute attribute,
                                 CUfunction function)
{
    FAKE_CALL("cuFuncGetAttribute", FAKE_IN_CONTEXT,
              function_attribute(out_value, attribute, function));
}
