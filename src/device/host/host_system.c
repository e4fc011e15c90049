/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system lets this process have: memory of the machine and of its control group (version
 * 2, as a container sees its own), mappings and open files. Where the system does not say, it is
 * taken to allow.
 */
#include "device/host/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmv/base/num.h>

#define GROUP_PATH "/sys/fs/cgroup/"

/* The number behind `key` ("" for a file of one number) in a file of lines; false if there is none.
 */
static bool read_number(const char *path, const char *key, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        char *end;
        if (strncmp(line, key, length) != 0 || (length && line[length] != ' '))
            continue;
        unsigned long long number = strtoull(line + length, &end, 10);
        found = end != line + length;
        if (found)
            *out = number;
    }
    fclose(file);
    return found;
}

uint64_t gmv__host_system_total(void)
{
    uint64_t total = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit;
    return read_number(GROUP_PATH "memory.max", "", &limit) ? GMV_MIN(total, limit) : total;
}

/* What the control group has left: pages of files other than shared memory can be taken back. */
static uint64_t group_available(void)
{
    uint64_t limit, current, files, shared;
    if (!read_number(GROUP_PATH "memory.max", "", &limit) ||
        !read_number(GROUP_PATH "memory.current", "", &current) ||
        !read_number(GROUP_PATH "memory.stat", "file", &files) ||
        !read_number(GROUP_PATH "memory.stat", "shmem", &shared))
        return UINT64_MAX;
    uint64_t reclaimable = files - GMV_MIN(files, shared);
    uint64_t used = current - GMV_MIN(current, reclaimable);
    return limit - GMV_MIN(limit, used);
}

uint64_t gmv__host_system_available(void)
{
    uint64_t kibibytes, machine = UINT64_MAX;
    if (read_number("/proc/meminfo", "MemAvailable:", &kibibytes))
        machine = kibibytes * 1024;
    uint64_t group = group_available();
    return GMV_MIN(machine, group);
}

uint64_t gmv__host_system_mappings(void)
{
    uint64_t limit = 65530; /* the kernel's default */
    (void)read_number("/proc/sys/vm/max_map_count", "", &limit);
    return limit;
}

uint64_t gmv__host_system_descriptors(void)
{
    const rlim_t enough = (rlim_t)1 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    rlim_t wanted = GMV_MIN(limit.rlim_max, enough);
    if (limit.rlim_cur < wanted) {
        struct rlimit raised = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    return GMV_MIN(limit.rlim_cur, enough);
}
