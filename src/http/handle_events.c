/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of events: where it begins is decided here, the server sends it. */
#include "http/events.h"
#include "http/handle_priv.h"
#include "http/service.h"

GMV_HANDLER(events)
{
    gmv_events *events = request->service->events;
    if (!gmv_event_reader_init(&reply->events, events, &request->operation->caller,
                               request->last_event_id, request->last_event_id_length))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "Last-Event-ID",
                                  "this is not the id of an event");
    if (!gmv_events_enter(events))
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL,
                        "all %u streams of events are in use; try again later",
                        GMV_EVENT_STREAMS_MAX);
    reply->has_events = true;
    reply->content_type = "text/event-stream";
    reply->caching = GMV_CACHING_NO_STORE;
    return GMV_OK;
}
