# SPDX-License-Identifier: Apache-2.0
"""CUDA memory of other processes, both ways, and devices that are lost: with GMVD_BACKEND=cuda only."""

import base64
import threading
import time

import numpy
import pytest

from conftest import BACKEND, PATIENCE, Client, cai
from cuda_exporter import IS_FAKE, Exporter, import_ipc, mappings

pytestmark = pytest.mark.skipif(BACKEND != "cuda", reason="CUDA memory is the CUDA backend's")
fake_driver = pytest.mark.skipif(not IS_FAKE, reason="faults are the stand-in's")


def test_an_import_sees_what_the_exporter_writes_and_copies_nothing(client, exporter):
    values = numpy.arange(20, dtype="<f4")
    made = exporter.export(values.tobytes())
    buffer = import_ipc(client, made, base=made["base"], nbytes=80)
    assert buffer["origin"] == "cuda_ipc" and buffer["exporter_base"] == made["base"] and buffer["nbytes"] == 80
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"] + 8, [10], "<f4")})
    assert view["offset"] == 8 and view["ptr"] == buffer["ptr"] + 8
    assert client.data(view["id"]) == values[2:12].tobytes()
    exporter.write(memory=made["memory"], offset=8, content=numpy.float32(-1).tobytes().hex())
    assert client.data(view["id"])[:4] == numpy.float32(-1).tobytes()


def test_what_is_written_into_an_import_reaches_the_exporter(client, exporter):
    made = exporter.export(bytes(64))
    buffer = import_ipc(client, made)
    client.call("PUT", f"/v1/buffers/{buffer['id']}/data", params={"offset": 5}, data=b"\x07\x08", expect=200,
                headers={"Content-Type": "application/octet-stream"})
    assert exporter.read(memory=made["memory"], offset=4, nbytes=4)["content"] == "00070800"


def test_import_sizes(client, exporter):
    made = exporter.export(bytes(8192))
    assert import_ipc(client, made)["nbytes"] == 8192
    assert import_ipc(client, made, nbytes=100)["nbytes"] == 100
    with client.unchanged():
        for members, code, pointer in (({"nbytes": 1 << 40}, "out_of_bounds", "/cuda_ipc/nbytes"), ({"nbytes": -1}, "value_error", "/cuda_ipc/nbytes"),
                                       ({"base": -1}, "value_error", "/cuda_ipc/base"), ({"base": 2 ** 63 - 1}, "value_error", "/cuda_ipc/base"),
                                       ({"base": "x"}, "type_error", "/cuda_ipc/base"), ({"size": 1}, "value_error", "/cuda_ipc/size")):
            client.refused("POST", "/v1/buffers/import", 422, code, pointer, json={"cuda_ipc": {"handle": made["handle"], **members}})


def test_imports_of_one_handle_share_a_mapping_but_not_a_handle(client, exporter):
    made = exporter.export(b"\x07" * 4096)
    first, second = import_ipc(client, made), import_ipc(client, made)
    assert first["id"] != second["id"] and first["ptr"] == second["ptr"] and mappings(client) == 1
    client.refused("POST", "/v1/views", 422, "pointer_ambiguous", "/cuda_array_interface/data/0",
                   json={"cuda_array_interface": cai(first["ptr"], [1], "|u1")})
    assert client.delete(f"/v1/buffers/{first['id']}")["freed_nbytes"] == 0
    assert client.bytes(f"/v1/buffers/{second['id']}/data") == b"\x07" * 4096
    assert client.delete(f"/v1/buffers/{second['id']}")["freed_nbytes"] == 4096


def test_many_imports_and_deletions_leave_no_mapping(client, exporter, wait_until):
    made = exporter.export(bytes(4096))
    for _ in range(50):
        buffer = import_ipc(client, made)
        assert client.delete(f"/v1/buffers/{buffer['id']}")["freed_nbytes"] == 4096
    wait_until(lambda: mappings(client) == 0)


def test_imported_memory_outlives_the_exporters_free_and_its_death(client, exporter):
    first, second = exporter.export(b"\x01" * 100), exporter.export(b"\x02" * 100)
    buffers = [import_ipc(client, made) for made in (first, second)]
    exporter.free(memory=first["memory"])
    assert client.bytes(f"/v1/buffers/{buffers[0]['id']}/data") == b"\x01" * 100
    exporter.kill()
    assert client.bytes(f"/v1/buffers/{buffers[1]['id']}/data") == b"\x02" * 100


def test_equal_addresses_of_two_exporters_need_the_buffers_name(client, exporter):
    base = 0x302000000
    made = [exporter.export(bytes([value]) * 4096) for value in (11, 22)]
    buffers = [import_ipc(client, one, base=base) for one in made]
    payload = {"cuda_array_interface": cai(base, [1], "|u1")}
    client.refused("POST", "/v1/views", 422, "pointer_ambiguous", "/cuda_array_interface/data/0", json=payload)
    for buffer, value in zip(buffers, (11, 22)):
        assert client.data(client.post("/v1/views", {**payload, "buffer": buffer["id"]})["id"]) == bytes([value])


def test_a_readonly_import_stays_so(client, exporter):
    buffer = import_ipc(client, exporter.export(bytes(64)), readonly=True)
    assert buffer["readonly"]
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [64], "|u1")})
    client.refused("POST", "/v1/kernels/set_null_mask", 403, "readonly",
                   json={"bitmask": view["id"], "begin_bit": 0, "end_bit": 8, "valid": True})


def test_pytorchs_spelling_of_a_handle(client, exporter):
    made = exporter.export(b"abcd")
    raw = base64.b64decode(made["handle"])
    prefixed = {"handle": base64.b64encode(b"\x02\x63" + raw).decode()}
    assert client.bytes(f"/v1/buffers/{import_ipc(client, prefixed)['id']}/data") == b"abcd"


@pytest.mark.parametrize("handle", ["", "A", "A" * 84, "A" * 86 + "==", "/" * 86 + "==", "!" * 88, base64.b64encode(bytes(63)).decode(),
                                    base64.b64encode(bytes(65)).decode(), base64.b64encode(b"\x02\x65" + bytes(64)).decode()])
def test_bytes_that_are_no_handle(client, control, handle):
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/cuda_ipc/handle", json={"cuda_ipc": {"handle": handle}})
        assert not handle or handle not in str(problem)
    control()


def test_handles_that_are_no_longer_good(client, control, exporter):
    # Whole blocks of their own: smaller allocations share one, and a handle opens the block.
    freed, orphaned = exporter.export(bytes(2 << 20)), exporter.export(bytes(2 << 20))
    exporter.free(memory=freed["memory"])
    with client.unchanged():
        client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/cuda_ipc/handle", json={"cuda_ipc": {"handle": freed["handle"]}})
        exporter.kill()
        client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/cuda_ipc/handle", json={"cuda_ipc": {"handle": orphaned["handle"]}})
    control()


def test_the_device_is_told_by_its_uuid(client, exporter):
    made = exporter.export(b"abcd")
    uuid = client.get("/v1/devices")["items"][0]["uuid"]
    assert uuid.startswith("GPU-")
    assert import_ipc(client, made, device_uuid=uuid)["device"] == 0
    with client.unchanged():
        client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/cuda_ipc/device_uuid",
                       json={"cuda_ipc": {"handle": made["handle"], "device_uuid": "GPU-00000000-0000-0000-0000-000000000000"}})


def test_segments_are_the_host_backends(client):
    with client.unchanged():
        client.refused("POST", "/v1/buffers/import", 422, "backend_unsupported", "/posix_shm", json={"posix_shm": {"name": "/x"}})


def test_every_kind_of_own_memory_opens_in_another_process(client, exporter):
    values = numpy.arange(100_000, dtype="u1")
    input_id = client.view(numpy.ones(100, "?"))["id"]
    kinds = {"allocated": (client.post("/v1/buffers", {"nbytes": 4096})["id"], False),
             "small upload": (client.upload(bytes(range(100)))["id"], True), "big upload": (client.upload(values)["id"], False),
             "mask": (client.post("/v1/kernels/bools_to_mask", {"input": input_id})["mask"]["buffer"], True),
             "exportable mask": (client.post("/v1/kernels/bools_to_mask", {"input": input_id, "exportable": True})["mask"]["buffer"], False)}
    for kind, (buffer_id, is_cloned) in kinds.items():
        content = client.bytes(f"/v1/buffers/{buffer_id}/data")
        share = client.post(f"/v1/buffers/{buffer_id}/export", expect=200)
        assert share["posix_shm"] is None and share["cuda_ipc"]["nbytes"] == len(content), kind
        assert share["cloned"] == is_cloned == (share["buffer"] != buffer_id), kind
        assert share["cuda_ipc"]["device_uuid"] == client.get("/v1/devices")["items"][0]["uuid"]
        opened = exporter.open(handle=share["cuda_ipc"]["handle"])["memory"]
        assert exporter.read(memory=opened, offset=share["cuda_ipc"]["offset"], nbytes=len(content))["content"] == content.hex(), kind
        exporter.write(memory=opened, offset=share["cuda_ipc"]["offset"], content="5a")
        assert client.bytes(f"/v1/buffers/{share['buffer']}/data")[0] == 0x5a, kind
        again = client.post(f"/v1/buffers/{share['buffer']}/export", expect=200)
        assert again["cuda_ipc"]["handle"] == share["cuda_ipc"]["handle"] and not again["cloned"]
        exporter.close(memory=opened)


def test_an_own_export_is_recognized(client):
    buffer = client.post("/v1/buffers", {"nbytes": 4096})
    handle = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["cuda_ipc"]["handle"]
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers/import", 409, "handle_exported_here", json={"cuda_ipc": {"handle": handle}})
        assert problem["id"] == buffer["id"]


def test_imported_and_empty_memory_is_not_exported(client, exporter):
    imported, empty = import_ipc(client, exporter.export(bytes(64))), client.post("/v1/buffers", {"nbytes": 0})
    with client.unchanged():
        for buffer in (imported, empty):
            client.refused("POST", f"/v1/buffers/{buffer['id']}/export", 422, "not_exportable", json={})


def test_an_event_of_the_exporter_is_waited_for(client, exporter):
    made = exporter.export(bytes(range(64)))
    buffer = import_ipc(client, made, base=made["base"])
    event = exporter.event()["handle"]
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [16], "<f4", stream=94201234), "event": event})
    assert view["buffer"] == buffer["id"] and client.data(view["id"]) == bytes(range(64))
    with client.unchanged():
        for bad in ("", "A" * 86 + "==", "A"):
            client.refused("POST", "/v1/views", 422, "handle_invalid", "/event",
                           json={"cuda_array_interface": cai(made["base"], [16], "<f4", stream=94201234), "event": bad})


@pytest.fixture
def many_devices(own_daemon, monkeypatch):
    """A daemon over two devices of the stand-in, or over all GPUs where there are several."""
    if IS_FAKE:
        monkeypatch.setenv("GMV_FAKE_CUDA_DEVICES", "2")
    client = own_daemon().client
    if len(client.get("/v1/devices")["items"]) < 2:
        pytest.skip("there is one device")
    return client


def test_an_import_is_on_the_device_of_its_memory(many_devices):
    client = many_devices
    uuids = [device["uuid"] for device in client.get("/v1/devices")["items"]]
    for ordinal in reversed(range(len(uuids))):
        other = Exporter(ordinal)
        made = other.export(bytes([ordinal + 1]) * 1000)
        for members in ({}, {"device_uuid": uuids[ordinal]}, {}):
            buffer = import_ipc(client, made, base=made["base"], **members)
            assert buffer["device"] == ordinal, f"memory of device {ordinal} is said to be on {buffer['device']}"
            assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == bytes([ordinal + 1]) * 1000
        wrong = uuids[(ordinal + 1) % len(uuids)]
        client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/cuda_ipc/handle",
                       json={"cuda_ipc": {"handle": made["handle"], "device_uuid": wrong}})
        assert mappings(client) == 1
        client.delete_all()
        other.kill()


def test_many_import_from_a_device_at_once(many_devices):
    client, other = many_devices, Exporter(1)
    made, found = other.export(bytes(64)), []

    def work():
        mine = Client(client.url)
        for _ in range(20):
            buffer = import_ipc(mine, made)
            found.append(buffer["device"])
            mine.delete(f"/v1/buffers/{buffer['id']}")
        mine.http.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [1] * 120
    other.kill()


@fake_driver
def test_events_that_have_not_passed_hold_no_worker(own_daemon):
    client = own_daemon("--threads", "4").client
    exporter = Exporter()
    made = exporter.export(bytes(64))
    buffer = import_ipc(client, made, base=made["base"])
    event = exporter.held_event()["handle"]
    body = {"cuda_array_interface": cai(made["base"], [64], "|u1", stream=94201234), "event": event}
    answers = []

    def wait():
        mine = Client(client.url)
        answers.append(mine.post("/v1/views", body))
        mine.http.close()

    threads = [threading.Thread(target=wait) for _ in range(6)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5:  # on the bulk lane, beside them
        assert client.upload(bytes(3 << 20))["nbytes"] == 3 << 20
    assert not answers
    exporter.write(memory=made["memory"], offset=0, content="07" * 64)
    exporter.release_events()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(answers) == 6 and client.data(answers[0]["id"]) == bytes([7]) * 64
    assert client.get(f"/v1/buffers/{buffer['id']}")["id"] == buffer["id"]
    exporter.kill()


@fake_driver
def test_an_event_that_never_passes_is_given_up(own_daemon):
    client = own_daemon("--threads", "4").client
    exporter = Exporter()
    made = exporter.export(bytes(64))
    import_ipc(client, made, base=made["base"])
    event = exporter.held_event()["handle"]
    begun = time.monotonic()
    with client.unchanged():
        problem = client.refused("POST", "/v1/views", 422, "handle_invalid", "/event",
                                 json={"cuda_array_interface": cai(made["base"], [64], "|u1", stream=94201234), "event": event})
    assert "not passed in time" in problem["detail"] and time.monotonic() - begun > 9
    exporter.kill()


# Devices that are lost.


def lose(running, view, **options):
    """A kernel that does not come back as it should."""
    return running.client.call("POST", "/v1/kernels/set_null_mask", **options, json={"bitmask": view["id"], "begin_bit": 3, "end_bit": 60, "valid": True})


def expect_exit(running):
    assert running.process.wait(PATIENCE) == 69, running.log_text()[-2000:]
    running.stop = lambda *_, **__: None


@fake_driver
@pytest.mark.parametrize("result", [719, 700, 214, 702])
def test_a_device_that_fails_for_good_ends_the_daemon(own_daemon, result):
    running = own_daemon(environment={"GMV_FAKE_CUDA_FAIL": f"1:{result}:cuLaunchKernel"})
    view = running.client.view(numpy.zeros(64, "u1"))
    answer = lose(running, view)
    assert answer.status_code == 503 and answer.json()["code"] == "device_lost"
    expect_exit(running)


@fake_driver
def test_a_device_that_fails_for_good_may_be_kept(own_daemon):
    running = own_daemon("--on-device-lost", "stay", environment={"GMV_FAKE_CUDA_FAIL": "1:719:cuLaunchKernel"})
    client, view = running.client, running.client.view(numpy.zeros(64, "u1"))
    assert lose(running, view).json()["code"] == "device_lost"
    assert client.call("GET", "/readyz", documented=False).status_code == 503
    assert client.get("/livez")["status"] == "ok"
    assert client.get("/v1/devices")["items"][0]["state"] == "lost"
    assert client.get(f"/v1/views/{view['id']}")["id"] == view["id"]
    for method, path, body in (("POST", "/v1/buffers", {"nbytes": 64}), ("POST", f"/v1/views/{view['id']}/copy", {})):
        answer = client.call(method, path, json=body)
        assert answer.status_code == 503 and answer.json()["code"] == "device_lost", (path, answer.text)
    assert client.call("GET", f"/v1/views/{view['id']}/data").status_code == 503
    client.delete(f"/v1/views/{view['id']}")


@fake_driver
def test_a_kernel_that_never_ends_loses_the_device(own_daemon):
    running = own_daemon("--job-deadline", "3", environment={"GMV_FAKE_CUDA_HANG": "1"})
    view = running.client.view(numpy.zeros(64, "u1"))
    answer = lose(running, view)
    assert answer.status_code == 503 and answer.json()["code"] == "device_lost"
    expect_exit(running)


@fake_driver
def test_a_driver_call_that_fails_once_fails_one_request(own_daemon):
    running = own_daemon(environment={"GMV_FAKE_CUDA_FAIL": "1:999:cuLaunchKernel"})
    client, view = running.client, running.client.view(numpy.zeros(64, "u1"))
    with client.unchanged():
        answer = lose(running, view, documented=False)
        assert answer.status_code == 500 and answer.json()["code"] == "internal", answer.text
    assert lose(running, view).status_code == 200
    assert client.data(view["id"])[:2] == b"\xf8\xff"


@fake_driver
def test_a_full_device_is_507_until_something_is_deleted(own_daemon):
    client = own_daemon(environment={"GMV_FAKE_CUDA_MEMORY": "192"}).client
    first = client.post("/v1/buffers", {"nbytes": 96 << 20})
    with client.unchanged():
        client.refused("POST", "/v1/buffers", 507, "device_out_of_memory", json={"nbytes": 96 << 20})
    client.delete(f"/v1/buffers/{first['id']}")
    client.post("/v1/buffers", {"nbytes": 96 << 20})


@fake_driver
def test_two_devices_are_served_side_by_side(own_daemon):
    client = own_daemon(environment={"GMV_FAKE_CUDA_DEVICES": "2"}).client
    devices = client.get("/v1/devices")["items"]
    assert [device["ordinal"] for device in devices] == [0, 1] and devices[0]["uuid"] != devices[1]["uuid"]
    first, second = (client.upload(bytes([device]) * 100, device=device) for device in (0, 1))
    assert first["device"] == 0 and second["device"] == 1
    assert client.bytes(f"/v1/buffers/{second['id']}/data") == b"\x01" * 100
