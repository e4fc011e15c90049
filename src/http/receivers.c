/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The octet-stream bodies under way. Their number is bounded, and a client that has stopped to send
 * must not keep others out: when all places are taken, the one that has been silent for longest
 * gives its place up. Its socket is shut for reading, which its own thread takes for the end of the
 * body. A receiver leaves before its socket is closed, so the descriptors of the list are open.
 */
#include "config.h"

#include "http/server_priv.h"

#include <sys/socket.h>

static void receivers_unlink(gmv_receivers *receivers, gmv_exchange *exchange)
{
    exchange->is_receiver = false;
    if (exchange->previous_receiver)
        exchange->previous_receiver->next_receiver = exchange->next_receiver;
    else
        receivers->first = exchange->next_receiver;
    if (exchange->next_receiver)
        exchange->next_receiver->previous_receiver = exchange->previous_receiver;
    receivers->count--;
}

/* The one that has been silent for longest, and for too long; or NULL. */
static gmv_exchange *receivers_find_stale(const gmv_receivers *receivers, uint32_t max_silence_ms)
{
    int64_t silent_since = gmv_clock_monotonic_ns() - (int64_t)max_silence_ms * 1000000;
    gmv_exchange *stale = NULL;
    for (gmv_exchange *one = receivers->first; one; one = one->next_receiver) {
        int64_t heard_at = atomic_load_explicit(&one->heard_at_ns, memory_order_relaxed);
        if (heard_at > silent_since)
            continue;
        silent_since = heard_at;
        stale = one;
    }
    return stale;
}

/* Under the lock. Whether there is a place now. */
static bool receivers_make_room(gmv_receivers *receivers, const gmv_server_options *options)
{
    if (receivers->count < options->max_uploads)
        return true;
    gmv_exchange *stale = receivers_find_stale(receivers, options->max_silence_ms);
    if (!stale)
        return false;
    receivers_unlink(receivers, stale);
    atomic_store(&stale->is_displaced, true);
    (void)shutdown(stale->receiver_fd, SHUT_RD);
    return true;
}

void gmv__receivers_init(gmv_receivers *receivers)
{
    *receivers = (gmv_receivers){0};
    pthread_mutex_init(&receivers->lock, NULL);
}

void gmv__receivers_fini(gmv_receivers *receivers)
{
    pthread_mutex_destroy(&receivers->lock);
}

bool gmv__receivers_join(gmv_exchange *exchange)
{
    gmv_receivers *receivers = &exchange->server->receivers;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return false;
    gmv__receivers_hear(exchange);
    pthread_mutex_lock(&receivers->lock);
    bool joins = receivers_make_room(receivers, &exchange->server->options);
    if (joins) {
        exchange->is_receiver = true;
        exchange->receiver_fd = info->connect_fd;
        exchange->previous_receiver = NULL;
        exchange->next_receiver = receivers->first;
        if (receivers->first)
            receivers->first->previous_receiver = exchange;
        receivers->first = exchange;
        receivers->count++;
    }
    pthread_mutex_unlock(&receivers->lock);
    return joins;
}

void gmv__receivers_hear(gmv_exchange *exchange)
{
    atomic_store_explicit(&exchange->heard_at_ns, gmv_clock_monotonic_ns(), memory_order_relaxed);
}

void gmv__receivers_excuse(gmv_exchange *exchange)
{
    atomic_store_explicit(&exchange->heard_at_ns, INT64_MAX, memory_order_relaxed);
}

void gmv__receivers_leave(gmv_exchange *exchange)
{
    gmv_receivers *receivers = &exchange->server->receivers;
    pthread_mutex_lock(&receivers->lock);
    if (exchange->is_receiver)
        receivers_unlink(receivers, exchange);
    pthread_mutex_unlock(&receivers->lock);
}
