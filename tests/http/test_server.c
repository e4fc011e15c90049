/* SPDX-License-Identifier: Apache-2.0 */
/* The server over raw sockets: framing, suspended requests and uploads, odd clients, and stopping. */
#include "http/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void test_livez(void)
{
    support_server s = {0};
    support_answer answer;
    support_start(&s, NULL);
    check(support_ask(&s, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", &answer) == 200);
    check(strcmp(answer.body, "{\"status\":\"ok\"}") == 0, "%s", answer.body);
    support_answer_free(&answer);
    support_stop(&s, 1000);
}

static const support_test tests[] = {
    {"livez_answers", test_livez},
};

int main(int argc, char *argv[])
{
    return support_run(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
