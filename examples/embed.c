/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgmv inside a C program, without a daemon: a registry over the host's memory, a buffer, a view
 * over it, a null mask of its NaNs, and what deleting does. Prints each step; exits 0 if all of it
 * came out as it should.
 *
 *   cc -o embed embed.c $(pkg-config --cflags --libs libgmv) && ./embed
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <gmv/gmv.h>

#define ROWS 8

/* What the program keeps from start to end. */
typedef struct embedder {
    gmv_engine engine; /* owns the registry and the device */
    gmv_stream *stream;
    gmv_caller caller; /* libgmv serves many principals; this program is one */
} embedder;

static int embed_fail(const gmv_error *err)
{
    fprintf(stderr, "embed: %s: %s\n", gmv_status_code(err->status), err->message);
    return 1;
}

static gmv_status embed_open(embedder *self, gmv_error *err)
{
    const gmv_device_options options = {0};
    gmv_device *device;
    GMV_TRY(gmv_device_open_host(&options, &device, err));
    printf("device    %s\n", gmv_device_describe(device)->name);
    GMV_TRY(gmv_engine_init(&self->engine, &device, 1, NULL, NULL, err));
    gmv_status status = gmv_stream_create(device, &self->stream, err);
    if (status != GMV_OK)
        gmv_engine_fini(&self->engine);
    return status;
}

static void embed_close(embedder *self)
{
    gmv_stream_destroy(self->stream);
    gmv_engine_fini(&self->engine);
}

static void embed_print(const char *what, const gmv_node *node)
{
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(&node->id, text);
    printf("%-9s %s\n", what, text);
}

/* Everything an operation makes stays alive until it ends; after that, by its name or by what was
 * made from it. */
static gmv_status embed_make(gmv_operation *operation, gmv_id *out_buffer, gmv_error *err)
{
    const float rows[ROWS] = {1.5f, NAN, 3.0f, 4.0f, NAN, 6.0f, 7.0f, 8.0f};
    gmv_buffer *buffer;
    GMV_TRY(gmv_buffer_allocate(operation, 0, sizeof rows, false, NULL, &buffer, err));
    GMV_TRY(gmv_buffer_write(operation, buffer, 0, rows, sizeof rows, err));
    embed_print("buffer", &buffer->node);

    const gmv_typed_view_request request = {.dtype = GMV_DTYPE_F4, .layout = gmv_layout_flat(ROWS)};
    gmv_view *view;
    GMV_TRY(gmv_view_create_typed(operation, &buffer->node, &request, NULL, &view, err));
    embed_print("view", &view->node);

    gmv_mask_result nulls;
    GMV_TRY(gmv_nans_to_nulls(operation, &view->node, NULL, &nulls, err));
    embed_print("mask", &nulls.mask->node);

    uint8_t bits = 0;
    GMV_TRY(gmv_view_read_elements(operation, nulls.mask, 0, 1, &bits, err));
    printf("nulls     %" PRId64 ", bits %02x (least significant first, 1 is valid)\n",
           nulls.null_count, bits);
    if (nulls.null_count != 2 || bits != 0xed)
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "the mask is wrong");
    *out_buffer = buffer->node.id;
    return GMV_OK;
}

/* The name goes, the memory stays: the view needs it. */
static gmv_status embed_delete(embedder *self, const gmv_id *buffer, gmv_error *err)
{
    static gmv_deletion deletion; /* holds lists of ids: too big for small stacks */
    GMV_TRY(gmv_registry_delete(self->engine.registry, &self->caller, buffer, GMV_KIND_BUFFER,
                                GMV_IF_HELD_KEEP, &deletion, err));
    printf("deleted   the buffer: %s, held by %" PRIu64 "\n", deletion.alive ? "alive" : "gone",
           deletion.kept_alive_by_count);
    if (!deletion.alive || deletion.kept_alive_by_count != 1)
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "the view does not hold the buffer");
    return GMV_OK;
}

static gmv_status embed_run(embedder *self, gmv_error *err)
{
    gmv_operation operation;
    gmv_id buffer;
    gmv_operation_begin(&operation, &self->engine, &self->caller, GMV_LANE_BULK, &self->stream);
    gmv_status status = embed_make(&operation, &buffer, err);
    gmv_operation_end(&operation);
    return status == GMV_OK ? embed_delete(self, &buffer, err) : status;
}

int main(void)
{
    static embedder self;
    gmv_error err;
    gmv_error_init(&err);
    if (embed_open(&self, &err) != GMV_OK)
        return embed_fail(&err);
    gmv_status status = embed_run(&self, &err);
    embed_close(&self); /* frees every handle */
    return status == GMV_OK ? 0 : embed_fail(&err);
}
