// SPDX-License-Identifier: Apache-2.0
// The scenario of README.md with openapi-generator's typescript-fetch client.
import * as gmvd from "./client/index";

declare const process: { argv: string[]; exit(code: number): never };
declare const console: { log(text: string): void; error(...texts: unknown[]): void };

function expect(ok: boolean, what: string, ...details: unknown[]): void {
    if (!ok) {
        console.error(what, ...details);
        process.exit(1);
    }
}

async function bytesOf(answer: Blob): Promise<Uint8Array> {
    return new Uint8Array(await answer.arrayBuffer());
}

async function problemOf(call: Promise<unknown>): Promise<gmvd.Problem> {
    try {
        await call;
    } catch (error) {
        if (error instanceof gmvd.ResponseError) return gmvd.ProblemFromJSON(await error.response.json());
        throw error;
    }
    throw new Error("the call should have failed");
}

async function main(url: string): Promise<void> {
    const configuration = new gmvd.Configuration({ basePath: url });
    const sessions = new gmvd.SessionsApi(configuration);
    const buffers = new gmvd.BuffersApi(configuration);
    const views = new gmvd.ViewsApi(configuration);
    const packedTables = new gmvd.PackedApi(configuration);
    const tables = new gmvd.TablesApi(configuration);

    const session = await sessions.createSession({ createSessionRequest: { ttlSeconds: 60 } });
    expect(session.ttlSeconds === 60, "session", session);
    const gmvSession = session.id;

    const values = new Float32Array([1.5, NaN, 3, 4, NaN, 6, 7, 8, 9, 10]);
    const buffer = await buffers.uploadBuffer({ body: new Blob([values]), gmvSession });
    expect(buffer.nbytes === 40, "buffer", buffer);

    const typed = await buffers.createBufferView({ id: buffer.id, gmvSession, createTypedViewRequest: { typestr: "<f4", shape: [10] } });
    expect(typed.nbytes === 40, "typed view", typed);

    const payload = { data: [buffer.ptr, false], shape: [10], typestr: "<f4", version: 3 };
    const view = await views.createView({ gmvSession, createViewRequest: { cudaArrayInterface: payload } });
    expect(view.nbytes === 40, "view", view);

    const slice = await views.byteSliceView({ id: view.id, gmvSession, byteSliceRequest: { start: 4, stop: -4 } });
    expect(slice.nbytes === 32, "slice", slice);

    const mask = await new gmvd.KernelsApi(configuration).nansToNulls({ gmvSession, nansToNullsRequest: { input: view.id } });
    expect(mask.nullCount === 2, "mask", mask);

    const column = await new gmvd.ColumnsApi(configuration).createColumn({
        gmvSession,
        createColumnRequest: { type: { name: "FLOAT32" }, size: 10, data: view.id, nullMask: mask.mask.id },
    });
    expect(column.nullCount === 2, "column", column);

    const table = await tables.createTable({ gmvSession, createTableRequest: { columns: [column.id] } });
    expect(table.numRows === 10, "table", table);

    const packed = await tables.splitTable({ id: table.id, gmvSession, splitTableRequest: { splits: [2, 5] } });
    expect(packed.items.map((item) => item.numRows).join() === "2,3,5", "packed", packed);

    const first = packed.items[0].id;
    const metadata = await bytesOf(await packedTables.getPackedMetadata({ id: first }));
    expect(metadata.length === 56 && metadata[0] === 2, "metadata", metadata);
    const data = await bytesOf(await packedTables.getPackedData({ id: first }));
    expect(data.length === 128 && new Float32Array(data.buffer, 64, 1)[0] === 1.5, "data", data);

    const problem = await problemOf(views.getView({ id: "view_00000000000000000000000000" }));
    expect(problem.status === 404 && problem.code === "handle_unknown", "problem", problem);

    const deletion = await views.deleteView({ id: view.id });
    expect(deletion.alive && [slice.id, column.id].every((id) => deletion.keptAliveBy.includes(id)), "deletion", deletion);

    const end = await sessions.deleteSession({ id: session.id });
    expect(!end.alive && end.deleted >= 8, "end of session", end);
    console.log("well");
}

main(process.argv[2]).catch((error) => {
    console.error(error);
    process.exit(1);
});
