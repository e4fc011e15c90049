/* SPDX-License-Identifier: Apache-2.0 */
/* A client of one request: it must work in a container that has no other. */
#include "config.h"

#include "gmvd/healthcheck.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define HEALTHCHECK_TIMEOUT_S 3

static const char healthcheck_request[] =
    "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/* Splits HOST:PORT, without brackets, a wildcard turned into the loopback. */
static bool healthcheck_split(const char *listen_at, char host[128], char port[16])
{
    const char *colon = strrchr(listen_at, ':');
    if (!colon || colon == listen_at || colon - listen_at >= 128 || strlen(colon + 1) >= 16)
        return false;
    size_t length = (size_t)(colon - listen_at);
    if (listen_at[0] == '[' && listen_at[length - 1] == ']') {
        listen_at++;
        length -= 2;
    }
    memcpy(host, listen_at, length);
    host[length] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
    else if (strcmp(host, "::") == 0)
        memcpy(host, "::1", sizeof "::1");
    return true;
}

static int healthcheck_connect(const char *listen_at)
{
    char host[128], port[16];
    if (!healthcheck_split(listen_at, host, port))
        return -1;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0 || !found)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval timeout = {.tv_sec = HEALTHCHECK_TIMEOUT_S};
    if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0 ||
                    connect(fd, found->ai_addr, found->ai_addrlen) != 0)) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

int gmvd_healthcheck(const char *listen_at)
{
    static const char wanted[] = "HTTP/1.1 200 ";
    int fd = healthcheck_connect(listen_at);
    if (fd < 0) {
        fprintf(stderr, "gmvd: nobody answers at %s\n", listen_at);
        return 1;
    }
    char answer[sizeof wanted - 1];
    size_t received = 0;
    if (send(fd, healthcheck_request, sizeof healthcheck_request - 1, MSG_NOSIGNAL) ==
        (ssize_t)sizeof healthcheck_request - 1) {
        ssize_t n;
        while (received < sizeof answer &&
               (n = recv(fd, answer + received, sizeof answer - received, 0)) > 0)
            received += (size_t)n;
    }
    close(fd);
    if (received == sizeof answer && memcmp(answer, wanted, sizeof answer) == 0)
        return 0;
    fprintf(stderr, "gmvd: what answers at %s does not say that it is alive\n", listen_at);
    return 1;
}
