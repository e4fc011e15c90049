/* SPDX-License-Identifier: Apache-2.0 */
/* The program itself: what it prints, how it stops, and with which exit codes. */
#include "config.h"

#include "http/support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define HOST "Host: localhost\r\n"

extern char **environ;

typedef struct daemon_process {
    pid_t pid;
    int output;       /* both of its streams */
    char text[65536]; /* what came from there */
    size_t n_text;
    support_server client; /* only the port counts */
} daemon_process;

static const char *daemon_path(void)
{
    static char path[4096];
    const char *folder = getenv("GMV_BUILDDIR");
    snprintf(path, sizeof path, "%s/gmvd", folder ? folder : ".");
    return path;
}

/* `arguments` end with NULL and start behind the program's name. */
static void daemon_spawn(daemon_process *process, const char *const arguments[])
{
    int pipe_fds[2];
    char *argv[16] = {strdup("gmvd")};
    for (size_t i = 0; arguments[i] && i < 14; i++)
        argv[i + 1] = strdup(arguments[i]);
    memset(process, 0, sizeof *process);
    check(pipe2(pipe_fds, O_CLOEXEC) == 0);
    process->pid = fork();
    if (process->pid == 0) {
        dup2(pipe_fds[1], STDOUT_FILENO);
        dup2(pipe_fds[1], STDERR_FILENO);
        execve(daemon_path(), argv, environ);
        _exit(127);
    }
    close(pipe_fds[1]);
    process->output = pipe_fds[0];
    for (size_t i = 0; argv[i]; i++)
        free(argv[i]);
}

static bool daemon_read_more(daemon_process *process)
{
    size_t room = sizeof process->text - 1 - process->n_text;
    ssize_t n = room ? read(process->output, process->text + process->n_text, room) : 0;
    if (n > 0)
        process->n_text += (size_t)n;
    return n > 0;
}

/* Reads until a line has `said` in it; from there on, or NULL. */
static const char *daemon_await_line(daemon_process *process, const char *said)
{
    const char *line;
    while (!(line = strstr(process->text, said)) || !strchr(line, '\n'))
        if (!daemon_read_more(process))
            break;
    return line;
}

/* Waits for the line that tells the port. */
static bool daemon_await(daemon_process *process)
{
    static const char said[] = "gmvd listening on http://127.0.0.1:";
    const char *line = daemon_await_line(process, said);
    if (line)
        process->client.port = (uint16_t)strtoul(line + sizeof said - 1, NULL, 10);
    check(line && process->client.port, "%s", process->text);
    return line != NULL;
}

/* Its exit code, or 128 and the signal that ended it. */
static int daemon_end(daemon_process *process)
{
    int status = 0;
    char rest[4096];
    while (daemon_read_more(process) || read(process->output, rest, sizeof rest) > 0)
        ;
    close(process->output);
    check(waitpid(process->pid, &status, 0) == process->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int daemon_run(daemon_process *process, const char *const arguments[])
{
    daemon_spawn(process, arguments);
    return daemon_end(process);
}

static const char *const on_free_port[] = {"--listen", "127.0.0.1:0", "--drain-timeout", "300",
                                           NULL};

static void test_serves_and_stops(void)
{
    static daemon_process process, asked;
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < 2; i++) {
        char address[64];
        daemon_spawn(&process, on_free_port);
        if (!daemon_await(&process))
            return;
        int idle = support_connect(&process.client);
        (void)support_print(idle, "GET /livez HTTP/1.1\r\n" HOST "\r\n");
        support_answer answer = support_receive(idle, false);
        check(answer.status == 200, "%d", answer.status);
        support_answer_free(&answer);
        snprintf(address, sizeof address, "127.0.0.1:%d", process.client.port);
        const char *const health[] = {"healthcheck", "--listen", address, NULL};
        check(daemon_run(&asked, health) == 0, "%.200s", asked.text);
        kill(process.pid, signals[i]);
        int code = daemon_end(&process);
        check(code == 0, "%d: %.200s", code, process.text);
        check(daemon_run(&asked, health) == 1, "%.200s", asked.text);
        close(idle);
    }
}

/* A request that does not end holds the first signal up; the second one does not wait. */
static void test_second_signal_leaves_at_once(void)
{
    static daemon_process process;
    daemon_spawn(&process, on_free_port);
    if (!daemon_await(&process))
        return;
    int slow = support_connect(&process.client);
    (void)support_print(slow, "POST /v1/buffers/upload HTTP/1.1\r\n" HOST
                              "Content-Type: application/octet-stream\r\n"
                              "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n");
    check(support_is_welcome(slow), "the request has not begun");
    (void)support_print(slow, "abc");
    kill(process.pid, SIGTERM);
    check(daemon_await_line(&process, "stopping") != NULL, "%.200s", process.text);
    support_sleep_ms(100);
    check(waitpid(process.pid, NULL, WNOHANG) == 0, "it waits for the request");
    kill(process.pid, SIGTERM);
    int code = daemon_end(&process);
    check(code == 128 + SIGTERM, "%d", code);
    close(slow);
}

static void test_exit_codes(void)
{
    static daemon_process process;
    static const struct {
        const char *arguments[4];
        int code;
        const char *said;
    } rows[] = {
        {{"--version", NULL}, EX_OK, "gmvd "},
        {{"--help", NULL}, EX_OK, "usage: gmvd"},
        {{"--print-openapi", NULL}, EX_OK, "openapi: 3.0.3"},
        {{"--check-config", NULL}, EX_OK, ""},
        {{"--check-config", "--threads", "x", NULL}, EX_USAGE, "--threads"},
        {{"--nope", NULL}, EX_USAGE, "--nope"},
        {{"--backend", "cuda", "--listen=127.0.0.1:0", NULL}, EX_UNAVAILABLE, "--backend cuda"},
        {{"--listen", "0.0.0.0:0", NULL}, EX_USAGE, "--insecure"},
        {{"--listen", "nonsense", NULL}, EX_USAGE, "HOST:PORT"},
        {{"--device", "1", NULL}, EX_UNAVAILABLE, "--device"},
        {{"--config", "/nowhere/gmvd.conf", NULL}, EX_NOINPUT, "/nowhere/gmvd.conf"},
        {{"healthcheck", "--listen", "nonsense", NULL}, 1, "gmvd: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int code = daemon_run(&process, rows[i].arguments);
        check(code == rows[i].code, "row %zu: %d: %.200s", i, code, process.text);
        check(strstr(process.text, rows[i].said) != NULL, "row %zu: %.200s", i, process.text);
    }
}

static void test_taken_port(void)
{
    static daemon_process first, second;
    char address[64];
    daemon_spawn(&first, on_free_port);
    if (!daemon_await(&first))
        return;
    snprintf(address, sizeof address, "127.0.0.1:%d", first.client.port);
    const char *const arguments[] = {"--listen", address, NULL};
    int code = daemon_run(&second, arguments);
    check(code == EX_UNAVAILABLE, "%d", code);
    check(strstr(second.text, address) != NULL, "%s", second.text);
    check(strstr(second.text, "cannot be listened on") != NULL, "%s", second.text);
    kill(first.pid, SIGTERM);
    check(daemon_end(&first) == 0);
}

static const support_test tests[] = {
    {"it_serves_and_stops_with_0", test_serves_and_stops},
    {"a_second_signal_leaves_at_once", test_second_signal_leaves_at_once},
    {"exit_codes_follow_sysexits", test_exit_codes},
    {"a_port_that_is_taken_is_told", test_taken_port},
};

int main(int argc, char *argv[])
{
    return support_run(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
