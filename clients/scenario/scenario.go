// SPDX-License-Identifier: Apache-2.0

// The scenario of README.md with openapi-generator's Go client.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	gmvd "github.com/gmvd/client"
)

func require(ok bool, what string, details ...interface{}) {
	if !ok {
		fmt.Fprintln(os.Stderr, append([]interface{}{what}, details...)...)
		os.Exit(1)
	}
}

func must[T any](answer T, _ interface{}, err error) T {
	if problem, ok := err.(*gmvd.GenericOpenAPIError); ok {
		require(false, string(problem.Body()))
	}
	require(err == nil, "a call failed:", err)
	return answer
}

// The generated client sends binary bodies from files only.
func file(content []byte) *os.File {
	made, err := os.CreateTemp("", "gmvd-scenario-")
	require(err == nil, "no temporary file:", err)
	defer os.Remove(made.Name())
	made.Write(content)
	made.Seek(0, io.SeekStart)
	return made
}

func read(answer *os.File) []byte {
	defer os.Remove(answer.Name())
	content, err := io.ReadAll(answer)
	require(err == nil, "no content:", err)
	return content
}

func contains(ids []string, id string) bool {
	for _, one := range ids {
		if one == id {
			return true
		}
	}
	return false
}

func main() {
	require(len(os.Args) == 2, "usage: scenario URL")
	configuration := gmvd.NewConfiguration()
	configuration.Servers = gmvd.ServerConfigurations{{URL: os.Args[1]}}
	client := gmvd.NewAPIClient(configuration)
	ctx := context.Background()

	wanted := gmvd.NewCreateSessionRequest()
	wanted.SetTtlSeconds(60)
	session := must(client.SessionsAPI.CreateSession(ctx).CreateSessionRequest(*wanted).Execute())
	require(session.TtlSeconds == 60, "session")

	nan := float32(math.NaN())
	content := new(bytes.Buffer)
	binary.Write(content, binary.LittleEndian, []float32{1.5, nan, 3, 4, nan, 6, 7, 8, 9, 10})
	upload := file(content.Bytes())
	buffer := must(client.BuffersAPI.UploadBuffer(ctx).Body(upload).GmvSession(session.Id).Execute())
	require(buffer.Nbytes == 40, "buffer", buffer.Nbytes)

	typedRequest := gmvd.NewCreateTypedViewRequest("<f4", []int64{10})
	typed := must(client.BuffersAPI.CreateBufferView(ctx, buffer.Id).CreateTypedViewRequest(*typedRequest).GmvSession(session.Id).Execute())
	require(typed.Nbytes == 40, "typed view", typed.Nbytes)

	payload := map[string]interface{}{"data": []interface{}{buffer.Ptr, false}, "shape": []int{10}, "typestr": "<f4", "version": 3}
	view := must(client.ViewsAPI.CreateView(ctx).CreateViewRequest(*gmvd.NewCreateViewRequest(payload)).GmvSession(session.Id).Execute())
	require(view.Nbytes == 40, "view", view.Nbytes)

	sliceRequest := gmvd.NewByteSliceRequest()
	sliceRequest.SetStart(4)
	sliceRequest.SetStop(-4)
	slice := must(client.ViewsAPI.ByteSliceView(ctx, view.Id).ByteSliceRequest(*sliceRequest).GmvSession(session.Id).Execute())
	require(slice.Nbytes == 32, "slice", slice.Nbytes)

	mask := must(client.KernelsAPI.NansToNulls(ctx).NansToNullsRequest(*gmvd.NewNansToNullsRequest(view.Id)).GmvSession(session.Id).Execute())
	require(mask.NullCount == 2, "mask", mask.NullCount)

	columnRequest := gmvd.NewCreateColumnRequest(*gmvd.NewColumnTypeRequest("FLOAT32"), 10)
	columnRequest.SetData(view.Id)
	columnRequest.SetNullMask(mask.Mask.Id)
	column := must(client.ColumnsAPI.CreateColumn(ctx).CreateColumnRequest(*columnRequest).GmvSession(session.Id).Execute())
	require(column.NullCount == 2, "column", column.NullCount)

	tableRequest := gmvd.NewCreateTableRequest([]string{column.Id})
	table := must(client.TablesAPI.CreateTable(ctx).CreateTableRequest(*tableRequest).GmvSession(session.Id).Execute())
	require(table.NumRows == 10, "table", table.NumRows)

	splitRequest := gmvd.NewSplitTableRequest([]int32{2, 5})
	packed := must(client.TablesAPI.SplitTable(ctx, table.Id).SplitTableRequest(*splitRequest).GmvSession(session.Id).Execute())
	require(len(packed.Items) == 3, "packed", len(packed.Items))
	for i, rows := range []int32{2, 3, 5} {
		require(packed.Items[i].NumRows == rows, "rows", packed.Items[i].NumRows)
	}

	first := packed.Items[0].Id
	metadata := read(must(client.PackedAPI.GetPackedMetadata(ctx, first).Execute()))
	require(len(metadata) == 56 && metadata[0] == 2, "metadata", metadata)
	data := read(must(client.PackedAPI.GetPackedData(ctx, first).Execute()))
	require(len(data) == 128 && bytes.Equal(data[64:68], content.Bytes()[:4]), "data", data)

	_, answer, err := client.ViewsAPI.GetView(ctx, "view_00000000000000000000000000").Execute()
	failure, ok := err.(*gmvd.GenericOpenAPIError)
	require(ok && answer.StatusCode == 404, "an unknown view", err)
	problem, ok := failure.Model().(gmvd.Problem)
	require(ok && problem.Status == 404 && problem.Code == "handle_unknown", "problem", failure.Model())

	deletion := must(client.ViewsAPI.DeleteView(ctx, view.Id).Execute())
	require(deletion.Alive && contains(deletion.KeptAliveBy, slice.Id) && contains(deletion.KeptAliveBy, column.Id), "deletion", deletion)

	end := must(client.SessionsAPI.DeleteSession(ctx, session.Id).Execute())
	require(!end.Alive && end.Deleted >= 8, "end of session", end)
	fmt.Println("well")
}
