/* SPDX-License-Identifier: Apache-2.0 */
/* `gmvd healthcheck`: asks a running daemon for /livez over a plain socket. */
#ifndef GMV_GMVD_HEALTHCHECK_H
#define GMV_GMVD_HEALTHCHECK_H

/* `listen_at` as the daemon was given it; a wildcard address is asked on the loopback. 0 or 1. */
int gmvd_healthcheck(const char *listen_at);

#endif
