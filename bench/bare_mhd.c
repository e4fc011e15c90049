/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor that GET /v1/views/{id} is measured against: libmicrohttpd alone, which answers every
 * request with a fresh response of the given body and the headers that gmvd sends. Bodies of
 * requests are dropped, which makes it the floor of uploads, too.
 *
 *   bare_mhd PORT BODY-FILE   (one thread, epoll, loopback)
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>

static char body[65536];
static size_t body_nbytes;

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_nbytes, void **state)
{
    static int seen;
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (*upload_nbytes > 0) {
        *upload_nbytes = 0;
        return MHD_YES;
    }
    char *copy = malloc(body_nbytes);
    if (!copy)
        return MHD_NO;
    memcpy(copy, body, body_nbytes);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(body_nbytes, copy, MHD_RESPMEM_MUST_FREE);
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "X-Request-Id", "0123456789abcdef0123456789");
    MHD_add_response_header(response, "ETag", "\"view_00000000000000000000000000-1\"");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bare_mhd PORT BODY-FILE\n");
        return 64;
    }
    FILE *file = fopen(argv[2], "rb");
    if (!file) {
        perror(argv[2]);
        return 66;
    }
    body_nbytes = fread(body, 1, sizeof body, file);
    fclose(file);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, answer,
                         NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)32768, MHD_OPTION_CONNECTION_TIMEOUT, 60u, MHD_OPTION_END);
    if (!daemon)
        return 71;
    printf("ready\n");
    fflush(stdout);
    pause();
    MHD_stop_daemon(daemon);
    return 0;
}
