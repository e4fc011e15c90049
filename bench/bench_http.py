#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP figures as ratios within one run: build folder given, wrk and (for one row) nginx on the path.

    make -C build gmvd bench/bare_mhd bench/paced && python3 bench/bench_http.py build [--rounds 9] [--seconds 2] [--backend cuda]

The server has one thread pinned to core 0, the client core 1. Rounds alternate between the programs that
are compared; medians are printed. Transfers pin nothing: there it is memory and copies that count.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request


BACKEND = "host"
GIB = 1 << 30


def program(build, name):
    """Where a program is: in a build folder, or in a bundle with all programs in one place."""
    for path in (f"{build}/{name}", f"{build}/bin/{pathlib.Path(name).name}"):
        if pathlib.Path(path).exists():
            return path
    raise SystemExit(f"{build} has no {name}")


def pinned(core):
    return ["taskset", "-c", core] if core and shutil.which("taskset") else []


class Gmvd:
    def __init__(self, build, *arguments, core="0"):
        command = [*pinned(core), program(build, "gmvd"), "--listen", "127.0.0.1:0", "--backend", BACKEND, "--log-level", "warning", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline()).group(0).rstrip("/")
        self.port = int(self.url.rsplit(":", 1)[1])

    def call(self, method, path, body=None, content_type="application/json"):
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": content_type} if data is not None else {}, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def json(self, *arguments, **options):
        return json.loads(self.call(*arguments, **options))

    def view(self, nbytes):
        buffer = self.json("POST", "/v1/buffers", {"nbytes": nbytes})
        return self.json("POST", f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [nbytes]})

    def stop(self):
        self.process.terminate()
        assert self.process.wait(60) == 0


class Nginx:
    """One worker that serves what `location` says."""

    def __init__(self, folder, port, location, core):
        temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        user = "user root; " if os.geteuid() == 0 else ""
        self.url = f"http://127.0.0.1:{port}"
        (pathlib.Path(folder) / "nginx.conf").write_text(f"""
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{ access_log off; {temporary}keepalive_requests 1000000000; server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }} }}""")
        self.process = subprocess.Popen([*pinned(core), "nginx", "-c", f"{folder}/nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
        time.sleep(1)
        if self.process.poll() is not None:
            raise SystemExit(f"nginx did not start: {(pathlib.Path(folder) / 'error.log').read_text()}")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def wrk(url, seconds):
    out = subprocess.run([*pinned("1"), "wrk", "-t1", "-c32", f"-d{seconds}s", url], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def paced(build, port, seconds, *request, rate=2000):
    out = subprocess.run([program(build, "bench/paced"), str(port), str(rate), str(seconds), *request], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def median(values):
    return statistics.median(values)


def throughput(build, rounds, seconds):
    gmvd = Gmvd(build, "--threads", "1")
    view = gmvd.view(40)
    path = f"/v1/views/{view['id']}"
    body = gmvd.call("GET", path)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "body").write_bytes(body)
        bare_port = gmvd.port % 20000 + 20011
        bare = subprocess.Popen([*pinned("0"), program(build, "bench/bare_mhd"), str(bare_port), f"{folder}/body"], stdout=subprocess.PIPE, text=True)
        bare.stdout.readline()
        targets = {"gmvd": gmvd.url + path, "bare libmicrohttpd": f"http://127.0.0.1:{bare_port}/"}
        nginx = None
        if shutil.which("nginx"):
            text = body.decode().replace("\\", "\\\\").replace("'", "\\'").replace("$", "")
            nginx = Nginx(folder, bare_port + 1, f"default_type application/json; return 200 '{text}';", "0")
            targets["nginx return"] = f"{nginx.url}/"
        rates = {name: [] for name in targets}
        for _ in range(rounds):
            for name, url in targets.items():
                rates[name].append(wrk(url, seconds))
        for name, values in rates.items():
            ratio = median(mine / other for mine, other in zip(rates["gmvd"], values))
            print(f"GET view, {name:20} {median(values):10.0f} requests/s   gmvd/this {ratio:.3f}")
        bare.terminate()
        bare.wait()
        if nginx:
            nginx.stop()
    gmvd.stop()


def many_handles(build, rounds, seconds, count):
    few, many = Gmvd(build, "--threads", "1"), Gmvd(build, "--threads", "1")
    for gmvd, handles in ((few, 1000), (many, count)):
        gmvd.paths = []
        view = gmvd.view(64)
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", gmvd.port)
        for _ in range(handles):
            connection.request("POST", f"/v1/views/{view['id']}/byte_slice", b"{}", {"Content-Type": "application/json"})
            made = json.loads(connection.getresponse().read())
            gmvd.paths.append(f"/v1/views/{made['id']}")
        connection.close()
    with tempfile.TemporaryDirectory() as folder:
        rates = {few: [], many: []}
        for gmvd in rates:
            sample = gmvd.paths[:: max(1, len(gmvd.paths) // 50_000)]
            script = pathlib.Path(folder) / f"{gmvd.port}.lua"
            script.write_text("local paths = {" + ",".join(f'"{path}"' for path in sample) + "}\nlocal i = 0\n"
                              "request = function() i = i % #paths + 1; return wrk.format('GET', paths[i]) end\n")
            gmvd.script = str(script)
        for _ in range(rounds):
            for gmvd in rates:
                out = subprocess.run([*pinned("1"), "wrk", "-t1", "-c32", f"-d{seconds}s", "-s", gmvd.script, gmvd.url], capture_output=True, text=True, check=True).stdout
                rates[gmvd].append(float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)))
    ratio = median(b / a for a, b in zip(rates[few], rates[many]))
    print(f"GET view at {count} handles / at 1000: {ratio:.3f} ({median(rates[many]):.0f} and {median(rates[few]):.0f} requests/s)")
    few.stop()
    many.stop()


def latency(build, rounds, seconds):
    gmvd = Gmvd(build, core="0,1" if BACKEND == "host" or (os.cpu_count() or 1) < 8 else "0-3")
    view = gmvd.view(40)
    get = ("GET", f"/v1/views/{view['id']}")
    small = gmvd.view(4096)
    kernel = ("POST", "/v1/kernels/null_count", json.dumps({"bitmask": small["id"], "begin_bit": 0, "end_bit": 32768}))
    big = gmvd.view(GIB)
    pack_gib = 4 if BACKEND == "cuda" else 1
    packed_view = gmvd.view(pack_gib * GIB) if pack_gib > 1 else big
    column = gmvd.json("POST", "/v1/columns", {"type": {"name": "INT64"}, "size": pack_gib * GIB // 8, "data": packed_view["id"]})
    table = gmvd.json("POST", "/v1/tables", {"columns": [column["id"]]})
    stop = threading.Event()

    def pack():
        while not stop.is_set():
            packed = gmvd.json("POST", f"/v1/tables/{table['id']}/pack", {})
            gmvd.call("DELETE", f"/v1/packed/{packed['id']}")

    def downloads_of(url):
        def download():
            while not stop.is_set():
                subprocess.run(["curl", "-s", "-o", "/dev/null", url], check=True)

        return download

    def beside(works, port=gmvd.port, request=get):
        stop.clear()
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        found = paced(build, port, seconds, *request)
        stop.set()
        for thread in threads:
            thread.join()
        return found

    rows = {"idle": [], f"beside {pack_gib} GiB packs": [], "beside 4 downloads of 1 GiB": [], "beside 8 downloads of 1 GiB": [], "4 KiB kernel, idle": []}
    for _ in range(rounds):
        rows["idle"].append(paced(build, gmvd.port, seconds, *get))
        rows["4 KiB kernel, idle"].append(paced(build, gmvd.port, seconds, *kernel))
        rows[f"beside {pack_gib} GiB packs"].append(beside([pack]))
        for count in (4, 8):
            rows[f"beside {count} downloads of 1 GiB"].append(beside([downloads_of(f"{gmvd.url}/v1/views/{big['id']}/data")] * count))
    for name, found in rows.items():
        p50, p99 = (median(row[key] for row in found) for key in ("p50", "p99"))
        ratio = median(row["p99"] / idle["p99"] for row, idle in zip(found, rows["idle"]))
        print(f"paced GET, {name:28} p50 {p50:7.1f} us  p99 {p99:7.1f} us   p99/idle {ratio:.2f}")
    difference = median(row["p50"] - idle["p50"] for row, idle in zip(rows["4 KiB kernel, idle"], rows["idle"]))
    print(f"4 KiB kernel over that GET, p50: {difference:.1f} us more")
    if shutil.which("nginx") and BACKEND == "host":
        latency_of_nginx(rounds, beside, gmvd.port, downloads_of)
    gmvd.stop()


def latency_of_nginx(rounds, beside, port, downloads_of):
    """What the same downloads cost where nginx sends them: to its own small answers, and to those of a gmvd that is idle beside it."""
    with tempfile.TemporaryDirectory(dir=roomy_folder(GIB)) as folder:
        for name, nbytes in (("small", 700), ("file", GIB)):
            with open(pathlib.Path(folder) / name, "wb") as out:
                os.posix_fallocate(out.fileno(), 0, nbytes)
        nginx = Nginx(folder, port % 20000 + 20013, f"root {folder}; sendfile on;", "0,1")
        own, small = int(nginx.url.rsplit(":", 1)[1]), ("GET", "/small")
        load = [downloads_of(f"{nginx.url}/file")] * 8
        rows = {"nginx, idle": [], "nginx, beside its 8 downloads": [], "gmvd, beside nginx's 8 downloads": []}
        for _ in range(rounds):
            rows["nginx, idle"].append(beside([], own, small))
            rows["nginx, beside its 8 downloads"].append(beside(load, own, small))
            rows["gmvd, beside nginx's 8 downloads"].append(beside(load))
        nginx.stop()
    for name, found in rows.items():
        p50, p99 = (median(row[key] for row in found) for key in ("p50", "p99"))
        print(f"paced GET, {name:34} p50 {p50:7.1f} us  p99 {p99:7.1f} us")


def pinned_copies(nbytes, rounds):
    """Bytes per second that the driver copies to and from pinned memory: what no transfer can beat."""
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        result = getattr(driver, name)(*arguments)
        if result:
            raise SystemExit(f"{name}: {result}")

    context, host, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxPushCurrent_v2", context)
    call("cuMemAllocHost_v2", ctypes.byref(host), ctypes.c_size_t(nbytes))
    call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(nbytes))
    rates = {"upload": [], "download": []}
    for _ in range(rounds + 1):
        for name, copy, target, source in (("upload", "cuMemcpyHtoD_v2", device, host), ("download", "cuMemcpyDtoH_v2", host, device)):
            begin = time.perf_counter()
            call(copy, target, source, ctypes.c_size_t(nbytes))
            call("cuCtxSynchronize")
            rates[name].append(nbytes / (time.perf_counter() - begin))
    call("cuMemFree_v2", device)
    call("cuMemFreeHost", host)
    call("cuDevicePrimaryCtxRelease_v2", 0)
    return {name: median(values[1:]) for name, values in rates.items()}


def curls(direction, url, file, count):
    """The same of so many at once, together."""
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda _: curl(direction, url, file), range(count)))
    return count * GIB / (time.perf_counter() - begin)


def curl(direction, url, file):
    """Bytes per second as curl counts them."""
    arguments = {"download": ["-o", "/dev/null"], "upload": ["-o", "/dev/null", "-T", file, "-H", "Content-Type: application/octet-stream",
                                                             "-H", "Expect:"]}[direction]
    out = subprocess.run(["curl", "-sS", "-f", "-w", f"%{{time_total}} %{{size_{direction}}}", *arguments, url], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    seconds, nbytes = out.stdout.split()
    return float(nbytes) / float(seconds)


def roomy_folder(nbytes):
    """A folder in memory with room for that, or else the usual place for temporary files."""
    state = os.statvfs("/dev/shm")
    return "/dev/shm" if state.f_bavail * state.f_frsize > nbytes * 5 // 4 else None


def transfer(build, rounds):
    """1 GiB each way through the data path, beside nginx that sends the same bytes from a file."""
    place = roomy_folder(GIB)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        file = pathlib.Path(folder) / "file"
        with open(file, "wb") as out:
            block = os.urandom(1 << 20)
            for _ in range(GIB >> 20):
                out.write(block)
        gmvd = Gmvd(build, core=None)
        view = gmvd.view(GIB)
        url = f"{gmvd.url}/v1/buffers/{view['buffer']}/data"
        bare_port = gmvd.port % 20000 + 20011
        bare = subprocess.Popen([program(build, "bench/bare_mhd"), str(bare_port), "/dev/null"], stdout=subprocess.PIPE, text=True)
        bare.stdout.readline()
        rates = {("gmvd", "upload"): [], ("gmvd", "download"): [], ("gmvd", "8 downloads"): [], ("sink", "upload"): []}
        urls = {"gmvd": url, "sink": f"http://127.0.0.1:{bare_port}/"}
        nginx = None
        if shutil.which("nginx"):
            nginx = Nginx(folder, gmvd.port % 20000 + 20013, f"root {folder}; sendfile on;", None)
            rates["nginx", "download"], rates["nginx", "8 downloads"], urls["nginx"] = [], [], f"{nginx.url}/file"
        for turn in range(rounds + 1):
            for (who, direction), found in rates.items():
                many = direction == "8 downloads"
                rate = curls("download", urls[who], str(file), 8) if many else curl(direction, urls[who], str(file))
                if turn:
                    found.append(rate)
        last = subprocess.run(["curl", "-sS", "-r", f"{GIB - (1 << 20)}-", url], capture_output=True, check=True).stdout
        assert last == block, "the download is not what was uploaded"
        if nginx:
            nginx.stop()
        bare.terminate()
        bare.wait()
        gmvd.stop()
    limits = pinned_copies(GIB, rounds) if BACKEND == "cuda" else {}
    for (who, direction), found in rates.items():
        line = f"1 GiB {direction:11} {who:5} {median(found) / 1e9:6.2f} GB/s"
        if who == "gmvd" and direction in limits:
            line += f"   pinned copy {limits[direction] / 1e9:6.2f} GB/s   of that {median(found) / limits[direction]:.2f}"
        for other in ("nginx", "sink"):
            if who == "gmvd" and (other, direction) in rates:
                line += f"   gmvd/{other} {median(mine / theirs for mine, theirs in zip(found, rates[other, direction])):.3f}"
        print(line + ("" if place else "   (the file is not in memory)"), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--handles", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["throughput", "handles", "latency", "transfer"])
    parser.add_argument("--backend", choices=["host", "cuda"], default="host")
    options = parser.parse_args()
    BACKEND = options.backend
    if options.only in (None, "throughput"):
        throughput(options.build, options.rounds, options.seconds)
    if options.only in (None, "latency"):
        latency(options.build, options.rounds, options.seconds)
    if options.only in (None, "transfer"):
        transfer(options.build, options.rounds)
    if options.only in (None, "handles"):
        many_handles(options.build, options.rounds, options.seconds, options.handles)
