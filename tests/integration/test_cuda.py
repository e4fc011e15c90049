# SPDX-License-Identifier: Apache-2.0
"""What went wrong elsewhere with streams, IPC handles, lost GPUs and missing drivers must go right here.

With GMVD_BACKEND=cuda only, on a GPU or over the stand-in for the driver. The exporter is a process of its own.
"""

import base64
import os
import random
import subprocess
import threading
import time

import numpy
import pytest

from conftest import BACKEND, GMVD, PATIENCE, cai
from cuda_exporter import IS_FAKE, Exporter, import_ipc, mappings, metric

pytestmark = pytest.mark.skipif(BACKEND != "cuda", reason="CUDA memory is the CUDA backend's")
fake_driver = pytest.mark.skipif(not IS_FAKE, reason="faults are the stand-in's")
MIB = 1 << 20


def refuse_import(client, code, pointer, **members):
    return client.refused("POST", "/v1/buffers/import", 422, code, pointer, json={"cuda_ipc": members})


# Downloads of memory that the daemon cannot read.


def test_a_big_download_is_whole_and_ranges_are_right(client):
    content = numpy.random.default_rng(7).integers(0, 256, 5 * MIB + 3, dtype="u1").tobytes()
    path = f"/v1/buffers/{client.upload(content)['id']}/data"
    assert client.bytes(path) == content
    for first, last in ((0, 0), (MIB - 1, MIB), (3, 4 * MIB + 5), (5 * MIB, 5 * MIB + 2)):
        answer = client.call("GET", path, expect=206, headers={"Range": f"bytes={first}-{last}"})
        assert answer.content == content[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
    head = client.call("HEAD", path, expect=200, documented=False)
    assert head.headers["Content-Length"] == str(len(content))


def test_many_downloads_at_once(client, daemon):
    content = numpy.random.default_rng(8).integers(0, 256, 3 * MIB + 1, dtype="u1").tobytes()
    path = f"/v1/buffers/{client.upload(content)['id']}/data"
    wrong = []

    def read():
        for _ in range(3):
            answer = daemon.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            if not answer.endswith(content):
                wrong.append(len(answer))

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_deleting_beneath_a_download_cuts_nothing(client, daemon):
    content = numpy.random.default_rng(9).integers(0, 256, 6 * MIB, dtype="u1").tobytes()
    buffer = client.upload(content)
    with daemon.connect() as connection:
        connection.sendall(f"GET /v1/buffers/{buffer['id']}/data HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = connection.recv(1000)
        client.delete(f"/v1/buffers/{buffer['id']}")
        while piece := connection.recv(1 << 16):
            got += piece
    assert got.endswith(content)


# PR-CAI-10: streams and events.


@pytest.mark.parametrize("stream, status", [(0, 422), (-1, 422), ("1", 422), (1.0, 422), (True, 422), (94201234, 422), (1, 201), (2, 201), (None, 201), ("absent", 201)])
def test_streams(client, stream, status):
    buffer = client.upload(bytes(64))
    members = {} if stream == "absent" else {"stream": stream}
    client.call("POST", "/v1/views", expect=status, json={"cuda_array_interface": cai(buffer["ptr"], [16], "<f4", **members)})


@pytest.mark.parametrize("event", [base64.b64encode(bytes(63)).decode(), base64.b64encode(bytes(65)).decode(), "A" * 87, "-" * 86 + "==", "\n" * 88,
                                   base64.b64encode(random.Random(1).randbytes(64)).decode()])
def test_bad_events(client, control, event):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "handle_invalid", "/event",
                       json={"cuda_array_interface": cai(buffer["ptr"], [16], "<f4", stream=94201234), "event": event})
        client.refused("POST", "/v1/views", 422, "type_error", "/event",
                       json={"cuda_array_interface": cai(buffer["ptr"], [16], "<f4"), "event": 7})
    control()


def test_what_is_wrong_with_a_payload_is_said_before_its_event_is_looked_at(client, exporter):
    buffer, event = client.upload(bytes(64)), exporter.event()["handle"]
    with client.unchanged():
        for address, shape, code in ((buffer["ptr"], [17], "out_of_bounds"), (8, [1], "pointer_not_registered"), (buffer["ptr"], [-1], "value_error")):
            client.refused("POST", "/v1/views", 422, code, json={"cuda_array_interface": cai(address, shape, "<f4", stream=5), "event": event})
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/stream",
                       json={"cuda_array_interface": cai(buffer["ptr"], [16], "<f4", stream=0), "event": event})


def test_an_event_of_a_dead_process_harms_nothing(client, control, exporter):
    buffer, event = client.upload(bytes(64)), exporter.event()["handle"]
    exporter.kill()
    answer = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(buffer["ptr"], [16], "<f4", stream=5), "event": event})
    assert answer.status_code == 201 or (answer.status_code == 422 and answer.json()["code"] == "handle_invalid"), answer.text
    control()


def test_memory_behind_slow_work_is_not_read_too_early(client, exporter):
    if not exporter.has(name="cuLaunchHostFunc")["has"]:
        pytest.skip("the driver has no slow work to offer")
    made = exporter.export(bytes(MIB))
    import_ipc(client, made, base=made["base"])
    event = exporter.fill_behind(memory=made["memory"], value=0xff, nbytes=MIB, milliseconds=400)["handle"]
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [MIB], "|u1", stream=94201234), "event": event})
    assert client.post("/v1/kernels/null_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * MIB}, expect=200)["count"] == 0


def test_events_are_not_leaked(client, daemon, exporter):
    buffer, event = client.upload(bytes(64)), exporter.event()["handle"]
    body = {"cuda_array_interface": cai(buffer["ptr"], [16], "<f4", stream=94201234), "event": event}

    def held():
        process = f"/proc/{daemon.process.pid}"
        maps = sum(1 for _ in open(f"{process}/maps"))
        return len(os.listdir(f"{process}/fd")), maps

    def turn(n):
        for _ in range(n):
            view = client.post("/v1/views", body)
            client.delete(f"/v1/views/{view['id']}")

    turn(50)
    before = held()
    turn(500)
    after = held()
    assert after[0] <= before[0] + 4 and after[1] <= before[1] + 40, (before, after)


# PR-IPC: handles.


def test_01_the_driver_says_how_much_there_is(client, control, exporter):
    made = exporter.allocate(nbytes=4 * MIB)
    base = made["base"]
    first = import_ipc(client, made, base=base)
    assert first["nbytes"] == 4194304
    assert [import_ipc(client, made, nbytes=nbytes)["nbytes"] for nbytes in (4194304, 4096)] == [4194304, 4096]
    with client.unchanged():
        refuse_import(client, "out_of_bounds", "/cuda_ipc/nbytes", handle=made["handle"], nbytes=4194305)
        refuse_import(client, "value_error", "/cuda_ipc/nbytes", handle=made["handle"], nbytes=-1)
    typed = f"/v1/buffers/{first['id']}/views"
    assert client.post(typed, {"typestr": "|u1", "shape": [4194304]})["nbytes"] == 4194304
    client.refused("POST", typed, 422, "out_of_bounds", json={"typestr": "|u1", "shape": [4194305]})
    client.refused("POST", typed, 422, "out_of_bounds", json={"typestr": "|u1", "shape": [1], "offset": 4194304})
    client.refused("POST", "/v1/views", 422, "out_of_bounds", json={"cuda_array_interface": cai(base + 4194300, [1], "<f8"), "buffer": first["id"]})
    before, dice = mappings(client), random.Random(2)
    with client.unchanged():
        for _ in range(200):
            damaged = base64.b64encode(dice.randbytes(64)).decode()
            problem = refuse_import(client, "handle_invalid", "/cuda_ipc/handle", handle=damaged)
            assert "cuda" not in problem["detail"].replace("cudaMalloc", "").replace("cudaIpcGetMemHandle", "").lower() and damaged not in str(problem)
    assert mappings(client) == before
    assert import_ipc(client, made)["nbytes"] == 4194304
    control()


def test_02_all_offsets_add_up(client, exporter):
    made = exporter.export(bytes(range(64)))
    buffer = import_ipc(client, made, base=made["base"])
    parent = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [32], "offset": 32})
    for offset, length, status in ((0, 32, 201), (31, 1, 201), (32, 0, 201), (32, 1, 422), (0, 33, 422), (-1, 1, 422)):
        client.call("POST", f"/v1/views/{parent['id']}/views", expect=status, json={"typestr": "|u1", "shape": [length], "offset": offset})
        address = made["base"] + 32 + offset
        inside = offset >= 0 and offset + length <= 32
        client.call("POST", "/v1/views", expect=201 if inside or offset < 0 else 422, json={"cuda_array_interface": cai(address, [length], "|u1")})
    view = parent
    for start, stop in ((10, 30), (5, 100), (3, 4)):
        view = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": start, "stop": stop})
    assert view["offset"] == 50 and view["nbytes"] == 1 and client.data(view["id"]) == bytes([50])


@fake_driver
def test_03_a_handle_of_a_device_that_is_not_served(own_daemon):
    running = own_daemon("--device", "0", environment={"GMV_FAKE_CUDA_DEVICES": "2"})
    os.environ["GMV_FAKE_CUDA_DEVICES"] = "2"
    try:
        other = Exporter(1)
        made = other.export(bytes(64))
    finally:
        del os.environ["GMV_FAKE_CUDA_DEVICES"]
    assert len(running.client.get("/v1/devices")["items"]) == 1
    with running.client.unchanged():
        refuse_import(running.client, "handle_invalid", "/cuda_ipc/handle", handle=made["handle"])
    assert running.client.data(running.client.view(numpy.arange(4, dtype="u1"))["id"]) == b"\x00\x01\x02\x03"
    other.kill()


@pytest.mark.parametrize("content", [bytes(64), b"\xff" * 64, random.Random(3).randbytes(64)])
def test_04_handles_of_nowhere_are_explained(client, control, content):
    with client.unchanged():
        problem = refuse_import(client, "handle_invalid", "/cuda_ipc/handle", handle=base64.b64encode(content).decode())
        assert len(problem["detail"]) > 20
    control()


def test_05_opened_handles_are_closed(client, exporter, wait_until):
    exporter.free(memory=exporter.export(bytes(64))["memory"])  # its context takes memory, too
    time.sleep(1.5)
    device = client.get("/v1/devices")["items"][0]
    for round_number in range(40):
        made = exporter.export(bytes([round_number]) * 64)
        buffer = import_ipc(client, made)
        assert client.bytes(f"/v1/buffers/{buffer['id']}/data")[:64] == bytes([round_number]) * 64
        client.delete(f"/v1/buffers/{buffer['id']}")
        exporter.free(memory=made["memory"])
    wait_until(lambda: mappings(client) == 0)
    wait_until(lambda: client.get("/v1/devices")["items"][0]["free_nbytes"] >= device["free_nbytes"] - 64 * MIB)


def test_06_packed_data_and_a_single_byte_open_elsewhere(client, exporter):
    column = client.column(numpy.arange(100, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    gpu_data = client.get(f"/v1/views/{packed['gpu_data']}")
    for buffer_id in (gpu_data["buffer"], client.upload(b"x")["id"], client.post("/v1/buffers", {"nbytes": 1})["id"]):
        content = client.bytes(f"/v1/buffers/{buffer_id}/data")
        share = client.post(f"/v1/buffers/{buffer_id}/export", expect=200)["cuda_ipc"]
        opened = exporter.open(handle=share["handle"])["memory"]
        assert exporter.read(memory=opened, offset=share["offset"], nbytes=share["nbytes"])["content"] == content.hex()
        exporter.close(memory=opened)


@fake_driver
def test_08_the_device_is_the_one_that_the_memory_is_on(own_daemon):
    client = own_daemon(environment={"GMV_FAKE_CUDA_DEVICES": "2"}).client
    os.environ["GMV_FAKE_CUDA_DEVICES"] = "2"
    try:
        other = Exporter(1)
        made = other.export(b"abcd")
    finally:
        del os.environ["GMV_FAKE_CUDA_DEVICES"]
    uuids = [device["uuid"] for device in client.get("/v1/devices")["items"]]
    for members in ({}, {"device_uuid": uuids[1]}):
        buffer = import_ipc(client, made, base=made["base"], **members)
        assert buffer["device"] == 1
        view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [4], "|u1"), "buffer": buffer["id"]})
        assert view["device"] == 1 and client.data(view["id"]) == b"abcd"
    refuse_import(client, "handle_invalid", "/cuda_ipc/handle", handle=made["handle"], device_uuid=uuids[0])
    other.kill()


def test_08_device_numbers_that_there_are_not(client):
    with client.unchanged():
        for device, code in ((1000, "value_error"), (-1, "value_error"), ("0", "type_error")):
            client.refused("POST", "/v1/buffers", 422, code, "/device", json={"nbytes": 8, "device": device})


def test_09_kernels_run_on_memory_whose_exporter_is_dead(client, control, exporter):
    made = exporter.export(b"\x0f" * 4096)
    buffer = import_ipc(client, made, base=made["base"])
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [4096], "|u1")})
    exporter.kill()
    answer = client.post("/v1/kernels/null_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * 4096}, expect=200)
    assert answer["count"] == 4 * 4096
    assert client.data(view["id"]) == b"\x0f" * 4096
    client.delete(f"/v1/views/{view['id']}")
    client.delete(f"/v1/buffers/{buffer['id']}")
    control()


def test_10_texts_that_are_no_handle(client, exporter):
    good = exporter.export(bytes(64))["handle"]
    raw = base64.b64decode(good)
    texts = [base64.b64encode(raw[:63]).decode(), base64.b64encode(raw + b"\0").decode(), good.rstrip("="), good[:40] + "\n" + good[40:], raw.hex(),
             base64.urlsafe_b64encode(b"\xff" * 64).decode(), " " + good, good + "=", base64.b64encode(b"\x02\x65" + raw).decode(), "/gmvd-1-1"]
    with client.unchanged():
        for text in texts:
            refuse_import(client, "handle_invalid", "/cuda_ipc/handle", handle=text)
        for value in (7, list(raw), True, {}):
            refuse_import(client, "type_error", "/cuda_ipc/handle", handle=value)
    for prefix in (b"", b"\x02\x63", b"\x03\x63"):
        import_ipc(client, {"handle": base64.b64encode(prefix + raw).decode()})


def test_11_foreign_memory_is_not_exported_but_what_is_made_of_it(client, exporter):
    made = exporter.export(bytes(range(64)))
    buffer = import_ipc(client, made, base=made["base"])
    client.refused("POST", f"/v1/buffers/{buffer['id']}/export", 422, "not_exportable", json={})
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [64], "|u1")})
    part = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 8, "stop": 16})
    client.refused("POST", f"/v1/buffers/{part['buffer']}/export", 422, "not_exportable", json={})
    copy = client.post(f"/v1/views/{part['id']}/copy")
    share = client.post(f"/v1/buffers/{copy['buffer']}/export", expect=200)["cuda_ipc"]
    opened = exporter.open(handle=share["handle"])["memory"]
    assert exporter.read(memory=opened, offset=share["offset"], nbytes=8)["content"] == bytes(range(8, 16)).hex()
    exporter.close(memory=opened)


def test_12_exactly_one_kind_of_handle(client, exporter):
    handle = exporter.export(bytes(64))["handle"]
    with client.unchanged():
        for body in ({}, {"cuda_ipc": None}, {"cuda_ipc": {"handle": handle}, "posix_shm": {"name": "/x"}}, {"cuda_ipc": None, "posix_shm": None}):
            problem = client.refused("POST", "/v1/buffers/import", 422, "value_error", json=body)
            assert "exactly one" in problem["detail"]
        client.refused("POST", "/v1/buffers/import", 422, "value_error", json={"fabric": {"handle": handle}})
        refuse_import(client, "handle_invalid", "/cuda_ipc/handle", handle="/gmvd-4711-1")


# PR-OPS-01: a device that goes while the daemon is idle.


@fake_driver
def test_an_idle_daemon_notices_and_ends(own_daemon, wait_until):
    running = own_daemon(environment={"GMV_FAKE_CUDA_FAIL": "4:719:cuMemGetInfo_v2"})
    assert running.process.wait(PATIENCE) == 69, running.log_text()[-2000:]
    assert "device_lost" in running.log_text()
    running.stop = lambda *_, **__: None


@fake_driver
def test_an_idle_daemon_notices_and_stays(own_daemon, wait_until):
    running = own_daemon("--on-device-lost", "stay", environment={"GMV_FAKE_CUDA_FAIL": "4:719:cuMemGetInfo_v2"})
    client = running.client
    wait_until(lambda: client.call("GET", "/readyz", documented=False).status_code == 503)
    problem = client.call("GET", "/readyz", documented=False).json()
    assert problem["code"] == "device_lost" and "a kernel failed" in problem["detail"], problem
    assert metric(client, 'gmvd_device_lost{device="0"}') == 1
    assert client.get("/v1/handles")["items"] == [] and client.get("/livez")["status"] == "ok"
    client.refused("POST", "/v1/buffers", 503, "device_lost", json={"nbytes": 8})


@fake_driver
def test_a_loss_ends_the_process_beneath_suspended_requests(own_daemon):
    running = own_daemon("--job-deadline", "3", environment={"GMV_FAKE_CUDA_HANG": "1"})
    view = running.client.view(numpy.zeros(64, "u1"))
    body = f'{{"bitmask": "{view["id"]}", "begin_bit": 3, "end_bit": 60, "valid": true}}'.encode()
    request = (b"POST /v1/kernels/set_null_mask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    waiting = [running.connect() for _ in range(8)]
    for connection in waiting:
        connection.sendall(request)
    assert running.process.wait(PATIENCE) == 69, running.log_text()[-2000:]
    for connection in waiting:
        connection.close()
    running.stop = lambda *_, **__: None


# PR-OPS-02: no driver, no device.


def start(*arguments, environment, timeout=PATIENCE):
    """Runs until it ends or says that it listens; gives its exit code (None: it listens), standard output and error."""
    with subprocess.Popen([GMVD, "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**{name: value for name, value in os.environ.items() if not name.startswith("GMVD_")}, **environment}) as process:
        line = process.stdout.readline()
        listens = "listening" in line
        if listens:
            process.terminate()
        _, log = process.communicate(timeout=timeout)
        return None if listens else process.returncode, line, log


WITHOUT = [("no library", {"LD_LIBRARY_PATH": ""}), ("no device", {"GMV_FAKE_CUDA_DEVICES": "0"}),
           ("too old", {"GMV_FAKE_CUDA_FAIL": "1:803:cuInit"}), ("not ready", {"GMV_FAKE_CUDA_FAIL": "1:3:cuInit"})]


@fake_driver
@pytest.mark.parametrize("environment", [environment for _, environment in WITHOUT], ids=[name for name, _ in WITHOUT])
def test_without_a_usable_driver(environment):
    code, _, log = start("--backend", "cuda", environment=environment)
    lines = [line for line in log.splitlines() if line.startswith("gmvd: ")]
    assert code == 69 and len(lines) == 1 and "--backend cuda" in lines[0] and "--backend host" in lines[0], log
    code, _, log = start("--backend", "auto", environment=environment)
    assert code is None and "backend=host" in log and "reason=" in log, log


@pytest.mark.skipif(IS_FAKE, reason="the stand-in looks at no such variable")
@pytest.mark.parametrize("visible", ["", "77", "junk"])
def test_no_device_is_visible(visible):
    code, _, log = start("--backend", "cuda", environment={"CUDA_VISIBLE_DEVICES": visible})
    lines = [line for line in log.splitlines() if line.startswith("gmvd: ")]
    assert code == 69 and len(lines) == 1 and "--backend cuda" in lines[0], log
    assert start("--backend", "auto", environment={"CUDA_VISIBLE_DEVICES": visible})[0] is None


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_a_device_that_was_asked_for_must_be_there(backend):
    code, _, log = start("--backend", backend, "--device", "99", environment={})
    assert code == 69 and "no CUDA device 99" in log, log


def test_auto_takes_the_gpu(own_daemon):
    client = own_daemon("--backend", "auto").client
    server = client.get("/v1/server")
    assert server["backend"] == "cuda" and server["cuda"]["toolkit"] and server["cuda"]["driver"]


@fake_driver
def test_devices_are_chosen_by_ordinal(own_daemon):
    client = own_daemon("--device", "2,0", environment={"GMV_FAKE_CUDA_DEVICES": "3"}).client
    assert sorted(device["ordinal"] for device in client.get("/v1/devices")["items"]) == [0, 2]
    assert client.post("/v1/buffers", {"nbytes": 8, "device": 2})["device"] == 2
    client.refused("POST", "/v1/buffers", 422, "value_error", "/device", json={"nbytes": 8, "device": 1})


@fake_driver
def test_a_device_that_does_not_open_is_left_out(own_daemon):
    environment = {"GMV_FAKE_CUDA_DEVICES": "2", "GMV_FAKE_CUDA_FAIL": "1:999:cuModuleLoadData"}
    code, _, log = start("--backend", "cuda", environment=environment)
    assert code == 69 and "--backend cuda" in log, log
    running = own_daemon("--backend", "auto", environment=environment)
    assert [device["ordinal"] for device in running.client.get("/v1/devices")["items"]] == [1]
    assert "device_skipped" in running.log_text()
