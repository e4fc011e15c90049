# SPDX-License-Identifier: Apache-2.0
"""Workers (processes that obey one JSON command a line) and what tests of real producers share."""

import base64
import ctypes
import glob
import importlib.util
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
IS_FAKE = "fake_cuda" in os.environ.get("LD_LIBRARY_PATH", "")


def load_integration():
    """The conftest.py of tests/integration under a name of its own."""
    spec = importlib.util.spec_from_file_location("integration_conftest", HERE.parent / "integration" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


integration = load_integration()


def why_no_gpu():
    """None where there is a GPU, else what is missing. Does not make a context: children do."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver"
    count = ctypes.c_int()
    if library.cuInit(0) != 0 or library.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "the NVIDIA driver has no device"
    return None


PACKAGES = {"cupy_worker": "cupy", "torch_worker": "torch", "numba_worker": "numba.cuda"}


def worker_command(name):
    package = PACKAGES.get(name)
    if package:
        try:
            found = importlib.util.find_spec(package)
        except Exception as error:  # a package that does not go with what else is installed
            pytest.skip(f"{package} cannot be imported: {error}")
        if not found:
            pytest.skip(f"this Python has no {package}")
    if name == "plain_producer":
        return [build_c("plain_producer.c")]
    return [sys.executable, str(HERE / "workers" / f"{name}.py")]


def driver_path():
    """Where the loader found the driver's library: linking with that file needs no development package."""
    ctypes.CDLL("libcuda.so.1")
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/libcuda.so" in line:
            return line.split(maxsplit=5)[5]
    pytest.skip("the driver's library cannot be found")


def cuda_include():
    nvcc = shutil.which("nvcc")
    places = [pathlib.Path(nvcc).resolve().parent.parent / "include"] if nvcc else []
    places += [pathlib.Path(place) for place in ("/usr/local/cuda/include", *sorted(glob.glob("/usr/local/cuda-*/include"), reverse=True))]
    for place in places:
        if (place / "cuda.h").exists():
            return place
    pytest.skip("there is no cuda.h")


BUILT = {}
BUILD_FOLDER = tempfile.TemporaryDirectory(prefix="gmv-gpu-tests-")


def build_c(name, *flags, link_driver=True):
    """Compiles a C program beside this file with the system's compiler."""
    if name not in BUILT:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if not compiler:
            pytest.skip("there is no C compiler")
        target = f"{BUILD_FOLDER.name}/{pathlib.Path(name).stem}"
        command = [compiler, "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", str(HERE / name), "-o", target, *flags]
        command += [f"-I{cuda_include()}"] + ([driver_path(), "-Wl,--allow-shlib-undefined"] if link_driver else ["-ldl", "-lpthread"])
        # The compiler is the machine's own, and so are its libraries.
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr}"
        BUILT[name] = target
    return BUILT[name]


class WorkerError(RuntimeError):
    """What a worker says went wrong, with its own trace."""


class Worker:
    """worker.make(dtype="<f4") sends {"do": "make", ...} and gives the answer."""

    def __init__(self, command, environment=None):
        self.name = pathlib.Path(command[1] if len(command) > 1 else command[0]).stem
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0,
                                        env={**os.environ, **(environment or {})})
        self.rest = b""
        self.broken = False

    def log_text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")[-3000:]

    def send(self, name, **members):
        self.process.stdin.write(json.dumps({"do": name, **members}).encode() + b"\n")

    def receive(self, timeout=90):
        deadline = time.monotonic() + timeout
        self.broken = True  # until it has answered
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise WorkerError(f"{self.name} did not answer within {timeout} s: {self.log_text()}")
            piece = self.process.stdout.read(1 << 20)
            if not piece:
                raise WorkerError(f"{self.name} is gone, exit code {self.process.wait(10)}: {self.log_text()}")
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        answer = json.loads(line)
        self.broken = False
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def do(**members):
            self.send(name, **members)
            return self.receive()

        return do

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self, timeout=30):
        """End of input: it must leave by itself and well."""
        self.process.stdin.close()
        assert self.process.wait(timeout) == 0, self.log_text()


SHARED = {}


def shared_worker(name):
    """One that tests use after each other, since CUDA and a big package take seconds to start; a new one if it is gone."""
    worker = SHARED.get(name)
    if worker is None or worker.broken or worker.process.poll() is not None:
        if worker:
            worker.kill()
        SHARED[name] = Worker(worker_command(name))
    return SHARED[name]


def end_shared_workers():
    while SHARED:
        SHARED.popitem()[1].kill()


def decode(text):
    return base64.b64decode(text)


def import_body(made, **members):
    told = {name: made[name] for name in ("handle", "base", "nbytes") if made.get(name) is not None}
    return {"cuda_ipc": {**told, **members}}


def import_ipc(client, made, readonly=None, **members):
    body = import_body(made, **members)
    if readonly is not None:
        body["readonly"] = readonly
    return client.post("/v1/buffers/import", body)


def metric(client, name):
    lines = [line for line in client.call("GET", "/metrics").text.splitlines() if line.startswith(name)]
    assert len(lines) == 1, f"{name}: {lines}"
    return int(lines[0].split()[-1])


def mappings(client):
    return metric(client, 'gmvd_import_mappings{mechanism="cuda_ipc"}')


def free_nbytes(client):
    return client.get("/v1/devices")["items"][0]["free_nbytes"]
