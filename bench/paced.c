/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency of one request sent again and again on one connection, at a fixed pace: what a client
 * sees that is not itself the load.
 *
 *   paced PORT RATE SECONDS METHOD PATH [BODY]     prints p50, p90, p99 and max in microseconds
 */
#include "config.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Reads one answer of a known length header; exits on any status but 2xx. */
static void read_answer(int fd)
{
    static char buffer[1 << 16];
    size_t have = 0;
    char *end = NULL;
    while (!end) {
        ssize_t n = read(fd, buffer + have, sizeof buffer - 1 - have);
        if (n <= 0)
            exit(1);
        have += (size_t)n;
        buffer[have] = '\0';
        end = strstr(buffer, "\r\n\r\n");
    }
    char *length = strcasestr(buffer, "content-length:");
    if (strncmp(buffer, "HTTP/1.1 2", 10) != 0 || !length) {
        fprintf(stderr, "%.300s\n", buffer);
        exit(1);
    }
    size_t whole = (size_t)(end + 4 - buffer) + strtoull(length + 15, NULL, 10);
    while (have < whole) {
        ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0)
            exit(1);
        have += (size_t)n;
    }
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: paced PORT RATE SECONDS METHOD PATH [BODY]\n");
        return 64;
    }
    const char *body = argc > 6 ? argv[6] : "";
    double gap_us = 1e6 / atof(argv[2]);
    size_t count = (size_t)(atof(argv[2]) * atof(argv[3]));
    char request[8192];
    int length =
        snprintf(request, sizeof request,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", argv[4],
                 argv[5], *body ? "Content-Type: application/json\r\n" : "", strlen(body), body);
    if (!*body)
        length = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                          argv[4], argv[5]);
    double *times = calloc(count, sizeof *times);
    int fd = connect_to(atoi(argv[1]));
    if (!times || count == 0)
        return 1;
    double due = now_us();
    for (size_t i = 0; i < count; i++) {
        due += gap_us;
        double wait = due - now_us();
        if (wait > 0) {
            struct timespec pause = {0, (long)(wait * 1e3)};
            nanosleep(&pause, NULL);
        } else {
            due = now_us();
        }
        double start = now_us();
        if (write(fd, request, (size_t)length) != length)
            return 1;
        read_answer(fd);
        times[i] = now_us() - start;
    }
    qsort(times, count, sizeof *times, compare);
    printf("{\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"max\": %.1f}\n", times[count / 2],
           times[count * 9 / 10], times[count * 99 / 100], times[count - 1]);
    return 0;
}
