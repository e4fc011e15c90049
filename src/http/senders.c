/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How deep the kernel's send buffers are. A thread hands over as much of a body as fits before it
 * turns to anything else, so many senders with deep buffers keep small answers waiting; one alone
 * with a shallow buffer spends more time being woken than sending. So all big bodies under way
 * share one budget, and each socket goes back to the usual depth behind its body.
 *
 * A sender leaves before its socket is closed, so the descriptors of the list are open.
 */
#include "config.h"

#include "http/server_priv.h"

#include <sys/socket.h>

#define SENDERS_BUDGET_NBYTES (4 * GMV_SOCKET_SEND_NBYTES)
#define SENDERS_BODY_NBYTES   ((uint64_t)1 << 20) /* smaller ones are no senders */

static void sender_resize(int socket_fd, size_t nbytes)
{
    int value = (int)nbytes;
    (void)setsockopt(socket_fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof value);
}

/* Under the lock. Those with as many as the budget allows keep what they have. */
static void senders_share(gmv_senders *senders)
{
    size_t share = SENDERS_BUDGET_NBYTES / GMV_MAX(senders->count, (size_t)1);
    size_t nbytes = GMV_MAX(share, (size_t)GMV_SOCKET_SEND_NBYTES);
    if (nbytes == senders->nbytes)
        return;
    senders->nbytes = nbytes;
    for (gmv_exchange *sender = senders->first; sender; sender = sender->next_sender)
        sender_resize(sender->sender_fd, nbytes);
}

void gmv__senders_init(gmv_senders *senders)
{
    *senders = (gmv_senders){.nbytes = GMV_SOCKET_SEND_NBYTES};
    pthread_mutex_init(&senders->lock, NULL);
}

void gmv__senders_fini(gmv_senders *senders)
{
    pthread_mutex_destroy(&senders->lock);
}

void gmv__senders_join(gmv_exchange *exchange, uint64_t body_nbytes)
{
    gmv_senders *senders = &exchange->server->senders;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (body_nbytes < SENDERS_BODY_NBYTES || !info)
        return;
    pthread_mutex_lock(&senders->lock);
    exchange->is_sender = true;
    exchange->sender_fd = info->connect_fd;
    exchange->previous_sender = NULL;
    exchange->next_sender = senders->first;
    if (senders->first)
        senders->first->previous_sender = exchange;
    senders->first = exchange;
    senders->count++;
    sender_resize(exchange->sender_fd, senders->nbytes);
    senders_share(senders);
    pthread_mutex_unlock(&senders->lock);
}

void gmv__senders_leave(gmv_exchange *exchange)
{
    gmv_senders *senders = &exchange->server->senders;
    if (!exchange->is_sender)
        return;
    pthread_mutex_lock(&senders->lock);
    exchange->is_sender = false;
    if (exchange->previous_sender)
        exchange->previous_sender->next_sender = exchange->next_sender;
    else
        senders->first = exchange->next_sender;
    if (exchange->next_sender)
        exchange->next_sender->previous_sender = exchange->previous_sender;
    senders->count--;
    senders_share(senders);
    pthread_mutex_unlock(&senders->lock);
    sender_resize(exchange->sender_fd, GMV_SOCKET_SEND_NBYTES);
}
