# SPDX-License-Identifier: Apache-2.0
"""What becomes of shared memory when one side dies, frees, lies, crowds or faults. Needs only the driver and gcc."""

import base64
import pathlib
import random
import threading
import time

import pytest

import support
from support import WorkerError, decode, free_nbytes, import_body, import_ipc, integration, mappings

cai = integration.cai
MIB = 1 << 20
real_gpu = pytest.mark.skipif(support.IS_FAKE, reason="the stand-in for the driver runs no PTX")


@pytest.fixture
def neighbour(start):
    return start("driver_worker")


def data(client, buffer, **options):
    return client.bytes(f"/v1/buffers/{buffer['id']}/data", **options)


# Events.


@real_gpu
def test_reads_and_kernels_wait_for_the_event(client, neighbour):
    made = neighbour.export(nbytes=MIB)
    import_ipc(client, made)
    for value, milliseconds in ((0xff, 400), (0, 100), (0x0f, 700)):
        slow = neighbour.slow_fill(memory=made["memory"], value=value, nbytes=MIB, milliseconds=milliseconds)
        assert slow["pending"], "the kernel was over too soon: this proves nothing"
        view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [MIB], "|u1", stream=slow["stream"]), "event": slow["event"]})
        count = client.post("/v1/kernels/null_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * MIB}, expect=200)["count"]
        assert count == (8 - bin(value).count("1")) * MIB, f"{count}: the kernel ran before the event"
        assert client.data(view["id"]) == bytes([value]) * MIB


def test_bad_and_short_events_are_refused(client, control, neighbour):
    made = neighbour.export(nbytes=64)
    import_ipc(client, made)
    good = neighbour.event()["handle"]
    raw = base64.b64decode(good)
    payload = cai(made["base"], [64], "|u1", stream=94201234)
    with client.unchanged():
        for content in (b"", raw[:63], raw + b"\0", raw[:8], bytes(64), b"\xff" * 64, random.Random(1).randbytes(64)):
            client.refused("POST", "/v1/views", 422, "handle_invalid", "/event",
                           json={"cuda_array_interface": payload, "event": base64.b64encode(content).decode()})
        client.refused("POST", "/v1/views", 422, "handle_invalid", "/event", json={"cuda_array_interface": payload, "event": made["handle"]})
        for value in (7, True, [], {}):
            client.refused("POST", "/v1/views", 422, "type_error", "/event", json={"cuda_array_interface": payload, "event": value})
    assert client.data(client.post("/v1/views", {"cuda_array_interface": payload, "event": good})["id"]) == bytes(64)
    control()


def test_events_with_flipped_bits(client, control, neighbour):
    """The driver reads where the bytes say, be anything there or not."""
    made = neighbour.export(nbytes=64, value=3)
    import_ipc(client, made)
    neighbour.event()
    raw = decode(neighbour.event()["handle"])
    for bit in range(512):
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        body = {"cuda_array_interface": cai(made["base"], [64], "|u1", stream=94201234), "event": base64.b64encode(damaged).decode()}
        answer = client.call("POST", "/v1/views", json=body, timeout=30)
        assert answer.status_code == 201 or (answer.status_code, answer.json()["code"]) == (422, "handle_invalid"), (bit, answer.text)
    control()


@pytest.mark.parametrize("how", ["destroyed", "exporter killed"])
def test_dead_events_do_no_harm(client, control, start, neighbour, how):
    """The driver may still open such an event (it is then over) or refuse it; nothing may hang or break."""
    made = neighbour.export(nbytes=4096, value=9)
    import_ipc(client, made)
    other = start("driver_worker")
    event = other.event()["handle"]
    if how == "destroyed":
        other.destroy_events()
    else:
        other.kill()
    for _ in range(20):
        answer = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(made["base"], [4096], "|u1", stream=94201234), "event": event}, timeout=30)
        assert answer.status_code == 201 or (answer.status_code, answer.json()["code"]) == (422, "handle_invalid"), answer.text
        if answer.status_code == 201:
            assert client.data(answer.json()["id"]) == b"\x09" * 4096
    control()


# Death and early frees.


def test_a_producer_killed_while_its_memory_is_mapped(client, control, wait_until, neighbour):
    made = neighbour.export(nbytes=4 * MIB, value=0x5a)
    buffer = import_ipc(client, made)
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [4 * MIB], "|u1")})
    neighbour.kill()
    assert data(client, buffer) == b"\x5a" * (4 * MIB)
    answer = client.post("/v1/kernels/valid_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 32 * MIB}, expect=200)
    assert answer["count"] == 16 * MIB
    client.delete(f"/v1/views/{view['id']}")
    assert client.delete(f"/v1/buffers/{buffer['id']}")["freed_nbytes"] == 4 * MIB
    wait_until(lambda: mappings(client) == 0)
    client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", json=import_body(made))
    control()


@pytest.mark.parametrize("package", ["cupy_worker", "torch_worker", "numba_worker"])
def test_a_library_killed_while_its_memory_is_mapped(client, control, wait_until, start, package):
    worker = start(package)
    made = worker.make(dtype="<f4", shape=[100_000])
    buffer = import_ipc(client, made)
    view = client.post("/v1/views", {"cuda_array_interface": made["payload"]})
    worker.kill()
    assert client.data(view["id"]) == decode(made["expected"])
    client.delete(f"/v1/buffers/{buffer['id']}", params={"if_held": "cascade"})
    wait_until(lambda: mappings(client) == 0)
    control()


def test_a_producer_that_frees_too_early(client, control, neighbour):
    made = neighbour.export(nbytes=8 * MIB, value=0x77)
    buffer = import_ipc(client, made)
    neighbour.free(memory=made["memory"])
    again = [neighbour.export(nbytes=8 * MIB, value=0x11) for _ in range(4)]
    assert data(client, buffer) == b"\x77" * (8 * MIB), "freed memory was given to somebody else while it is mapped here"
    client.delete(f"/v1/buffers/{buffer['id']}")
    for made in again:
        assert data(client, import_ipc(client, made)) == b"\x11" * (8 * MIB)
    control()


# Many.


def test_one_handle_imported_1000_times(client, control, wait_until, neighbour):
    made = neighbour.export(nbytes=MIB, value=0x21)
    buffers = [import_ipc(client, made) for _ in range(1000)]
    assert len({buffer["id"] for buffer in buffers}) == 1000 and len({buffer["ptr"] for buffer in buffers}) == 1
    assert mappings(client) == 1
    for buffer in buffers[::100]:
        assert data(client, buffer) == b"\x21" * MIB
    for buffer in buffers[:-1]:
        assert client.delete(f"/v1/buffers/{buffer['id']}")["freed_nbytes"] == 0
    assert data(client, buffers[-1]) == b"\x21" * MIB
    assert client.delete(f"/v1/buffers/{buffers[-1]['id']}")["freed_nbytes"] == MIB
    wait_until(lambda: mappings(client) == 0)
    control()


def test_eight_clients_import_and_delete_at_once(client, daemon, control, wait_until, neighbour):
    made = [neighbour.export(nbytes=64 << 10, value=value) for value in (0x31, 0x32)]
    troubles = []

    def work(number):
        mine = integration.Client(daemon.url)
        try:
            for turn in range(60):
                value = (number + turn) % 2
                buffer = import_ipc(mine, made[value])
                content = data(mine, buffer)
                assert content == bytes([0x31 + value]) * (64 << 10), content[:16].hex()
                assert mine.delete(f"/v1/buffers/{buffer['id']}")["alive"] is False
        except Exception as error:
            troubles.append(f"client {number}, turn {turn}: {error!r}")
        finally:
            mine.http.close()

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads), "a client got no answer"
    assert not troubles, troubles
    wait_until(lambda: mappings(client) == 0)
    control()


def test_200_rounds_give_all_memory_back(client, wait_until, neighbour):
    size = 64 * MIB
    # The neighbour's context takes memory, too: it must be there before what is free is looked at.
    warm = neighbour.export(nbytes=size, value=0)
    neighbour.free(memory=warm["memory"])
    time.sleep(1.5)  # the daemon looks at the device again
    before = free_nbytes(client)
    for turn in range(200):
        made = neighbour.export(nbytes=size, value=turn % 251)
        buffer = import_ipc(client, made)
        seen = data(client, buffer, expect=206, headers={"Range": "bytes=-64"})
        assert seen == bytes([turn % 251]) * 64, (turn, seen.hex())
        client.delete(f"/v1/buffers/{buffer['id']}")
        neighbour.free(memory=made["memory"])
    wait_until(lambda: mappings(client) == 0)
    wait_until(lambda: free_nbytes(client) >= before - 2 * size)


# Lies.


def test_handles_with_flipped_bits(client, control, wait_until, neighbour):
    made = neighbour.export(nbytes=4 * MIB, value=0x66)
    raw = bytearray(decode(made["handle"]))
    good = import_ipc(client, made)
    dice, opened = random.Random(5), 0
    for place in range(64):
        for bit in {dice.randrange(8), dice.randrange(8)}:
            damaged = bytearray(raw)
            damaged[place] ^= 1 << bit
            answer = client.call("POST", "/v1/buffers/import", timeout=30, json={"cuda_ipc": {"handle": base64.b64encode(damaged).decode()}})
            where = f"byte {place} bit {bit}: {answer.status_code} {answer.text[:300]}"
            if answer.status_code == 201:
                opened += 1
                forged = answer.json()
                assert forged["nbytes"] <= 1 << 40, where
                if forged["nbytes"]:
                    last = forged["nbytes"] - 1
                    seen = client.call("GET", f"/v1/buffers/{forged['id']}/data", headers={"Range": f"bytes={last}-{last}"}, timeout=30)
                    assert seen.status_code == 206, f"{where}: {seen.text[:200]}"
                client.delete(f"/v1/buffers/{forged['id']}")
            else:
                assert (answer.status_code, answer.json()["code"]) == (422, "handle_invalid"), where
                assert base64.b64encode(damaged).decode() not in answer.text
            seen = data(client, good, expect=206, headers={"Range": f"bytes={4 * MIB - 16}-"})
            assert seen == b"\x66" * 16, f"{where}: the good import reads {seen.hex()}"
        control()
    print(f"{opened} damaged handles opened")
    fresh = import_ipc(client, made)
    assert data(client, fresh) == b"\x66" * (4 * MIB)
    for buffer in (good, fresh):
        client.delete(f"/v1/buffers/{buffer['id']}")
    wait_until(lambda: mappings(client) == 0)


@pytest.fixture
def watched_heap(own_daemon):
    """A daemon whose allocator notices writes to freed memory, the driver's too."""
    if b"__asan_init" in pathlib.Path(integration.GMVD).read_bytes():
        pytest.skip("the sanitizer has an allocator of its own")
    return own_daemon(environment={"LD_PRELOAD": support.build_c("heap.c", "-shared", "-fPIC", "-fno-builtin", link_driver=False)})


def test_damaged_handles_leave_the_heap_alone(watched_heap, neighbour):
    client = watched_heap.client
    made, other = (neighbour.export(nbytes=size, value=0x55) for size in (4 * MIB, 4096))
    good = [import_ipc(client, made), import_ipc(client, other)]
    opened = 0
    for raw in (decode(made["handle"]), decode(other["handle"])):
        for bit in range(512):
            damaged = bytearray(raw)
            damaged[bit // 8] ^= 1 << bit % 8
            answer = client.call("POST", "/v1/buffers/import", timeout=30, json={"cuda_ipc": {"handle": base64.b64encode(damaged).decode()}})
            if answer.status_code == 201:
                opened += 1
                client.delete(f"/v1/buffers/{answer.json()['id']}")
    assert data(client, good[0]) == b"\x55" * (4 * MIB)
    for buffer in good:
        client.delete(f"/v1/buffers/{buffer['id']}")
    watched_heap.stop()
    log = watched_heap.log_text()
    assert "the heap has been looked at" in log and "heap: " not in log, log[-3000:]
    print(f"{opened} damaged handles opened")


@pytest.mark.parametrize("skew", [1, 2, 3, 5, 7])
def test_a_base_that_makes_an_aligned_pointer_misaligned(client, control, neighbour, skew):
    """A typed load there would end the context for everyone: it must be refused before."""
    made = neighbour.export(nbytes=4096)
    buffer = import_ipc(client, {**made, "base": made["base"] + skew})
    address = made["base"] + 64
    for typestr in ("<f8", "<i4", "<u2"):
        body = {"cuda_array_interface": cai(address, [8], typestr), "buffer": buffer["id"]}
        misaligned = (64 - skew) % int(typestr[2]) != 0
        if misaligned:
            client.refused("POST", "/v1/views", 422, "value_error", json=body)
        else:
            assert client.data(client.post("/v1/views", body)["id"]) == bytes(8 * int(typestr[2]))
    assert client.data(client.post("/v1/views", {"cuda_array_interface": cai(address, [8], "|u1"), "buffer": buffer["id"]})["id"]) == bytes(8)
    control()


# What gmvd shares.


def stop_watching(neighbour):
    neighbour.send("stop")
    result = neighbour.receive()
    assert neighbour.receive() == {}
    return result


@pytest.mark.parametrize("nbytes", [64 << 10, 256 << 10, 2 * MIB])
def test_an_export_deleted_while_it_is_read(client, control, neighbour, nbytes):
    shared = client.upload(b"\xc3" * nbytes)
    share = client.post(f"/v1/buffers/{shared['id']}/export", expect=200)
    assert not share["cloned"]
    neighbour.send("watch", handle=share["cuda_ipc"]["handle"], offset=share["cuda_ipc"]["offset"], nbytes=nbytes, value=0xc3)
    assert neighbour.receive() == {"opened": True}
    answer = client.delete(f"/v1/buffers/{shared['id']}")
    assert answer["alive"] is False
    others = []
    for number in range(1000):
        others.append(client.upload(bytes([number % 128]) * min(nbytes, 256 << 10)))
        if len(others) > 64:
            client.delete(f"/v1/buffers/{others.pop(0)['id']}")
    result = stop_watching(neighbour)
    assert result["wrong"] == 0 and result["reads"] > 10, result
    control()


def test_the_watcher_sees_a_write(client, neighbour):
    """The test above is worth something: the same reader does notice other bytes."""
    shared = client.upload(b"\xc3" * (256 << 10))
    share = client.post(f"/v1/buffers/{shared['id']}/export", expect=200)
    neighbour.send("watch", handle=share["cuda_ipc"]["handle"], offset=share["cuda_ipc"]["offset"], nbytes=256 << 10, value=0xc3)
    assert neighbour.receive() == {"opened": True}
    client.call("PUT", f"/v1/buffers/{shared['id']}/data", params={"offset": 1000}, data=b"\0", expect=200, headers={"Content-Type": "application/octet-stream"})
    time.sleep(0.5)
    assert stop_watching(neighbour)["wrong"] > 0


# Faults.


@real_gpu
def test_a_neighbours_fault_is_not_ours(client, control, neighbour):
    """A producer whose own context is lost while its memory is mapped here."""
    made = neighbour.export(nbytes=MIB, value=0x42)
    buffer = import_ipc(client, made)
    assert neighbour.fault()["result"] in (700, 719), "the kernel did not fault: this proves nothing"
    assert data(client, buffer) == b"\x42" * MIB
    with pytest.raises(WorkerError):
        neighbour.read(memory=made["memory"], offset=0, nbytes=4)
    neighbour.kill()
    assert data(client, buffer) == b"\x42" * MIB
    client.delete(f"/v1/buffers/{buffer['id']}")
    control()


@pytest.fixture
def poisoned(own_daemon, tmp_path):
    """poisoned(arguments): a daemon, and a function that makes a kernel fault in the daemon's own context."""

    def go(*arguments):
        file = tmp_path / "poison"
        running = own_daemon(*arguments, environment={"LD_PRELOAD": support.build_c("poison.c", "-shared", "-fPIC", link_driver=False),
                                                      "GMV_TEST_POISON": str(file)})

        def poison():
            file.touch()
            deadline = time.monotonic() + 30
            while not (said := pathlib.Path(file).read_text()):
                assert time.monotonic() < deadline, "the daemon's context was not poisoned in time"
                time.sleep(0.02)
            assert said == "poisoned\n", said

        return running, poison

    return go


@real_gpu
@pytest.mark.parametrize("asked", [False, True], ids=["idle", "asked"])
def test_a_fault_in_the_daemon_ends_it(poisoned, neighbour, asked):
    running, poison = poisoned()
    running.stop = lambda *_, **__: None
    view = import_ipc(running.client, neighbour.export(nbytes=4096))
    poison()
    if asked:
        try:
            answer = running.client.call("GET", f"/v1/buffers/{view['id']}/data", timeout=30, documented=False)
            assert answer.status_code == 503 and answer.json()["code"] == "device_lost", answer.text
        except support.integration.requests.exceptions.RequestException:
            pass  # the daemon has found out by itself and is gone
    assert running.process.wait(30) == 69, running.log_text()
    assert "device_lost" in running.log_text()


@real_gpu
def test_a_fault_in_the_daemon_may_be_outlived(poisoned, neighbour, wait_until):
    running, poison = poisoned("--on-device-lost", "stay")
    client = running.client
    buffer = import_ipc(client, neighbour.export(nbytes=4096))
    own = client.upload(bytes(100_000))
    poison()
    wait_until(lambda: client.call("GET", "/readyz", documented=False).status_code == 503)
    assert client.get("/livez")["status"] == "ok" and client.get("/v1/devices")["items"][0]["state"] == "lost"
    assert support.metric(client, 'gmvd_device_lost{device="0"}') == 1
    for method, path, options in (("GET", f"/v1/buffers/{buffer['id']}/data", {}), ("POST", "/v1/buffers", {"json": {"nbytes": 64}}),
                                  ("POST", f"/v1/buffers/{own['id']}/export", {"json": {}})):
        answer = client.call(method, path, timeout=30, documented=False, **options)
        assert answer.status_code == 503 and answer.json()["code"] == "device_lost", (path, answer.text[:300])
    for thing in (buffer, own):
        client.delete(f"/v1/buffers/{thing['id']}", timeout=30)
    running.stop(timeout=30)
