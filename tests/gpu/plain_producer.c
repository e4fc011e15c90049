/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest producer: memory of the driver API with a known content, printed as JSON. Waits for
 * the end of its input, then frees. Built and run by test_producers.py.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("{\"error\": \"%s: %d\"}\n", call, (int)result);
    exit(1);
}
#define CHECK(call) check(call, #call)

int main(void)
{
    static int values[COUNT];
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    CUipcMemHandle handle;
    for (int i = 0; i < COUNT; i++)
        values[i] = i * i - 7;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxPushCurrent(context));
    CHECK(cuMemAlloc(&memory, sizeof values));
    CHECK(cuMemcpyHtoD(memory, values, sizeof values));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcGetMemHandle(&handle, memory));
    printf("{\"base\": %llu, \"nbytes\": %zu, \"count\": %d, \"hex\": \"",
           (unsigned long long)memory, sizeof values, COUNT);
    for (size_t i = 0; i < sizeof handle; i++)
        printf("%02x", (unsigned)((unsigned char *)&handle)[i]);
    printf("\"}\n");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    CHECK(cuMemFree(memory));
    return 0;
}
