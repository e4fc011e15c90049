/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests, loaded into gmvd with LD_PRELOAD: once the file named by GMV_TEST_POISON exists, a
 * kernel faults in gmvd's own context, and "poisoned" or what went wrong is written into the file.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"

static void *wait_for_file(void *path)
{
    static const struct timespec pause = {.tv_nsec = 20000000};
    while (access(path, F_OK) != 0)
        nanosleep(&pause, NULL);
    const char *trouble = fault_device(0);
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%s\n", trouble ? trouble : "poisoned");
        fclose(file);
    }
    return NULL;
}

__attribute__((constructor)) static void start(void)
{
    pthread_t thread;
    char *path = getenv("GMV_TEST_POISON");
    if (path && pthread_create(&thread, NULL, wait_for_file, path) == 0)
        pthread_detach(thread);
}
