/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a kernel that touches memory that is not there, run in the primary context of this
 * process, as a faulty library beside gmvd's code would. The context is lost for good then.
 */
#ifndef GMV_TESTS_GPU_FAULT_H
#define GMV_TESTS_GPU_FAULT_H

#include <dlfcn.h>

/* The driver's text names the result; NULL: it went as meant, and the kernel has faulted. */
static const char *fault_device(int ordinal)
{
    static const char kernel[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                 ".visible .entry fault()\n{\n"
                                 "    .reg .b64 %a;\n    mov.u64 %a, 64;\n"
                                 "    st.global.u32 [%a], 1;\n    ret;\n}\n";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *function;
    if (!driver)
        return "there is no driver";
    int (*retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*push)(void *) = (int (*)(void *))dlsym(driver, "cuCtxPushCurrent_v2");
    int (*pop)(void **) = (int (*)(void **))dlsym(driver, "cuCtxPopCurrent_v2");
    int (*load)(void **, const void *) =
        (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
    int (*find)(void **, void *, const char *) =
        (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **) =
        (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                 void *, void **, void **))dlsym(driver, "cuLaunchKernel");
    int (*synchronize)(void) = (int (*)(void))dlsym(driver, "cuCtxSynchronize");
    if (!retain || !push || !pop || !load || !find || !launch || !synchronize)
        return "the driver lacks a call";
    if (retain(&context, ordinal) != 0 || push(context) != 0)
        return "there is no context";
    const char *trouble = NULL;
    if (load(&module, kernel) != 0)
        trouble = "the driver does not compile the kernel";
    else if (find(&function, module, "fault") != 0)
        trouble = "the kernel is not found";
    else if (launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0)
        trouble = "the kernel does not start";
    else if (synchronize() == 0)
        trouble = "the kernel did not fault";
    (void)pop(&context);
    return trouble;
}

#endif
