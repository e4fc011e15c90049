# SPDX-License-Identifier: Apache-2.0
"""A real daemon on a free port, and a client that holds every answer against the OpenAPI file."""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import tempfile
import time

import numpy
import pytest
import requests

from cuda_exporter import Exporter
from openapi_check import Contract

SOURCE = pathlib.Path(os.environ.get("GMV_SRCDIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("GMV_BUILDDIR", SOURCE / "build"))
GMVD = os.environ.get("GMVD", str(BUILD / "gmvd"))
BACKEND = os.environ.get("GMVD_BACKEND", "host")  # or "cuda", on a GPU or with the stand-in for the driver
CONTRACT = Contract(SOURCE / "openapi" / "gmvd.json")
PATIENCE = 120  # seconds for what must come about: nothing takes this long but a fault, however busy the machine is
SANITIZER_REPORT = re.compile(r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error|fake libcuda):?.*")


class Client:
    """HTTP calls on one keep-alive connection. Each answer must be what the contract states."""

    def __init__(self, url):
        self.url = url
        self.http = requests.Session()
        self.http.trust_env = False

    def call(self, method, path, *, expect=None, documented=True, **options):
        options.setdefault("timeout", PATIENCE)
        answer = self.http.request(method, self.url + path, **options)
        if documented:
            CONTRACT.check(method, path, answer.status_code, answer.headers, answer.content)
        assert answer.headers["X-Request-Id"]
        if expect is not None:
            assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text[:600]}"
        return answer

    def get(self, path, expect=200, **options):
        return self.call("GET", path, expect=expect, **options).json()

    def bytes(self, path, expect=200, **options):
        return self.call("GET", path, expect=expect, **options).content

    def post(self, path, body=None, expect=201, **options):
        body = {} if body is None else body
        return self.call("POST", path, expect=expect, json=body, **options).json()

    def delete(self, path, expect=200, **options):
        return self.call("DELETE", path, expect=expect, **options).json()

    def refused(self, method, path, status, code, pointer=None, **options):
        """The call must fail just so; gives the problem document."""
        answer = self.call(method, path, **options)
        assert answer.headers["Content-Type"] == "application/problem+json", answer.text[:300]
        problem = answer.json()
        got = (answer.status_code, problem["code"])
        assert got == (status, code), f"{method} {path}: {got}: {problem.get('detail')}"
        assert problem["status"] == status
        assert problem["request_id"] == answer.headers["X-Request-Id"]
        if pointer is not None:
            assert problem.get("pointer") == pointer, problem
        return problem

    def batch(self, operations):
        """What operations answer, in lots that one call takes; `$N` counts from the start of a lot."""
        bodies = []
        for first in range(0, len(operations), 1000):
            answer = self.post("/v1/batch", {"operations": operations[first:first + 1000], "atomic": False}, expect=200)
            assert all(result["status"] < 300 for result in answer["results"]), answer["results"]
            bodies += [result["body"] for result in answer["results"]]
        return bodies

    # Short ways to make things.

    def upload(self, content, **query):
        content = numpy.ascontiguousarray(content).tobytes() if isinstance(content, numpy.ndarray) else bytes(content)
        return self.call("POST", "/v1/buffers/upload", expect=201, data=content, params=query,
                         headers={"Content-Type": "application/octet-stream"}).json()

    def view(self, array, readonly=False):
        """A view over a fresh upload of a NumPy array."""
        buffer = self.upload(array)
        return self.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], array.shape, array.dtype.str, readonly)})

    def mask(self, text):
        """A |u1 view over the bytes that a hexadecimal text spells."""
        return self.view(numpy.frombuffer(bytes.fromhex(text), "u1"))

    def column(self, array, mask=None, **members):
        body = {"type": {"name": CUDF_NAMES[array.dtype.str]}, "size": len(array),
                "data": self.view(array)["id"] if len(array) else None,
                "null_mask": self.mask(mask)["id"] if mask else None}
        return self.post("/v1/columns", {**body, **members})

    def data(self, view_id):
        return self.bytes(f"/v1/views/{view_id}/data")

    def array(self, view_id):
        view = self.get(f"/v1/views/{view_id}")
        return numpy.frombuffer(self.data(view_id), view["typestr"]).reshape(view["shape"])

    def handles(self):
        found, cursor = [], None
        while True:
            page = self.get("/v1/handles", params={"all": "true", "limit": 1000, **({"cursor": cursor} if cursor else {})})
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def registered(self):
        return sum(device["registered_nbytes"] for device in self.get("/v1/devices")["items"])

    @contextlib.contextmanager
    def unchanged(self):
        """What happens inside must leave no handle and no byte behind."""
        before = {handle["id"] for handle in self.handles()}, self.registered()
        yield
        after = {handle["id"] for handle in self.handles()}, self.registered()
        assert after == before

    def delete_all(self):
        collections = {"buffer": "buffers", "view": "views", "column": "columns", "table": "tables", "packed": "packed"}
        paths = [f"/v1/{collections[handle['kind']]}/{handle['id']}" for handle in self.handles() if handle["named"]]
        while len(paths) < 20 and paths:
            self.call("DELETE", paths.pop())
        for first in range(0, len(paths), 1000):
            operations = [{"method": "DELETE", "path": path} for path in paths[first:first + 1000]]
            self.post("/v1/batch", {"operations": operations, "atomic": False}, expect=200)


def pytest_configure(config):
    # A test whose thread raises has failed.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


CUDF_NAMES = {"|i1": "INT8", "<i2": "INT16", "<i4": "INT32", "<i8": "INT64", "|u1": "UINT8", "<u2": "UINT16",
              "<u4": "UINT32", "<u8": "UINT64", "<f4": "FLOAT32", "<f8": "FLOAT64", "|b1": "BOOL8",
              "<M8[s]": "TIMESTAMP_SECONDS", "<M8[ms]": "TIMESTAMP_MILLISECONDS", "<M8[us]": "TIMESTAMP_MICROSECONDS",
              "<M8[ns]": "TIMESTAMP_NANOSECONDS", "<m8[s]": "DURATION_SECONDS", "<m8[ms]": "DURATION_MILLISECONDS",
              "<m8[us]": "DURATION_MICROSECONDS", "<m8[ns]": "DURATION_NANOSECONDS"}


def cai(address, shape, typestr, readonly=False, **members):
    return {"data": [int(address), readonly], "shape": [int(extent) for extent in shape], "typestr": typestr,
            "version": 3, **members}


class Daemon:
    def __init__(self, *arguments, environment=None, prefix=()):
        command = [*prefix, GMVD, "--listen", "127.0.0.1:0", "--backend", BACKEND, *arguments]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log,
                                        env={**os.environ, **(environment or {})})
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.search(r"http://[^\s]+", line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"{' '.join(command)} did not start: {line!r} {self.log_text()}")
        self.url = found.group(0).rstrip("/")
        self.port = int(self.url.rsplit(":", 1)[1])
        self.client = Client(self.url)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def raw(self, request, half_close=False):
        """Sends bytes, and reads until the daemon closes; gives what came."""
        with self.connect() as connection:
            try:
                connection.sendall(request)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return read_all(connection)

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def alive(self):
        return self.process.poll() is None

    def is_sanitized(self):
        """Then it keeps freed memory back on purpose, and its size tells nothing."""
        with open(f"/proc/{self.process.pid}/maps") as maps:
            return "san.so" in maps.read()

    def stop(self, timeout=PATIENCE):
        """SIGTERM must end it with 0 and without a sanitizer's word."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            raise
        finally:
            self.process.stdout.close()
            self.client.http.close()
        log = self.log_text()
        report = SANITIZER_REPORT.search(log)
        assert not report, log[max(0, report.start() - 200):report.start() + 4000]
        assert code == 0, f"exit code {code}: {log[-2000:]}"


def read_all(connection):
    content = b""
    try:
        while True:
            piece = connection.recv(1 << 16)
            if not piece:
                return content
            content += piece
    except ConnectionResetError:
        return content


def parse_answers(content):
    """The answers in a byte stream, as (status, headers, body) each."""
    answers = []
    while content:
        head, separator, rest = content.partition(b"\r\n\r\n")
        assert separator, content[:200]
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        if status == 100:
            content = rest
            continue
        length = int(headers.get("content-length", len(rest))) if status != 304 else 0
        answers.append((status, headers, rest[:length]))
        content = rest[length:]
    return answers


@pytest.fixture
def host_memory():
    """Skips tests of what only the host backend has: POSIX shared memory."""
    if BACKEND != "host":
        pytest.skip("POSIX shared memory is the host backend's")


@pytest.fixture(scope="session")
def daemon():
    running = Daemon()
    yield running
    running.stop()


@pytest.fixture
def client(daemon):
    """The shared daemon's client; the test must leave it alive, and everything made is deleted after."""
    yield daemon.client
    assert daemon.alive(), daemon.log_text()[-4000:]
    daemon.client.delete_all()
    # What a request that was broken off still reads goes as soon as the daemon has noticed.
    deadline = time.monotonic() + PATIENCE
    while (daemon.client.handles() or daemon.client.registered()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert daemon.client.handles() == []
    assert daemon.client.registered() == 0


@pytest.fixture
def exporter():
    """A process with CUDA memory of its own."""
    running = Exporter()
    yield running
    if running.process.poll() is None:
        running.kill()


@pytest.fixture
def own_daemon():
    """Starts daemons of the test's own: own_daemon("--threads", "1"); stopped and judged at the end."""
    started = []

    def start(*arguments, **options):
        started.append(Daemon(*arguments, **options))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def control(daemon):
    """A check to run after bad input: the daemon still does its work and holds nothing new."""

    def check():
        client = daemon.client
        with client.unchanged():
            view = client.view(numpy.arange(1, 9, dtype="u1"))
            assert client.data(view["id"]) == bytes(range(1, 9))
            count = client.post("/v1/kernels/null_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 64}, expect=200)
            assert count["count"] == 64 - sum(bin(byte).count("1") for byte in range(1, 9))
            client.delete(f"/v1/views/{view['id']}")
            client.delete(f"/v1/buffers/{view['buffer']}")

    return check


@pytest.fixture
def wait_until():
    def wait(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "did not come true in time"
            time.sleep(0.02)

    return wait


def load_vectors(name):
    return json.loads((SOURCE / "tests" / "vectors" / name).read_text())
