#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP figures as ratios within one run: build folder given, wrk and (for one row) nginx on the path.

    make -C build gmvd bench/bare_mhd bench/paced && python3 bench/bench_http.py build [--rounds 9] [--seconds 2]

The server has one thread pinned to core 0, the client core 1. Rounds alternate between the programs that
are compared; medians are printed.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request


class Gmvd:
    def __init__(self, build, *arguments, core="0"):
        command = ["taskset", "-c", core, f"{build}/gmvd", "--listen", "127.0.0.1:0", "--backend", "host", "--log-level", "warning", *arguments]
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


def wrk(url, seconds):
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c32", f"-d{seconds}s", url], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1))


def paced(build, port, seconds, *request, rate=2000):
    out = subprocess.run([f"{build}/bench/paced", str(port), str(rate), str(seconds), *request], capture_output=True, text=True, check=True).stdout
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
        bare = subprocess.Popen(["taskset", "-c", "0", f"{build}/bench/bare_mhd", str(bare_port), f"{folder}/body"], stdout=subprocess.PIPE, text=True)
        bare.stdout.readline()
        targets = {"gmvd": gmvd.url + path, "bare libmicrohttpd": f"http://127.0.0.1:{bare_port}/"}
        nginx = None
        if shutil.which("nginx"):
            nginx_port = bare_port + 1
            text = body.decode().replace("\\", "\\\\").replace("'", "\\'").replace("$", "")
            (pathlib.Path(folder) / "nginx.conf").write_text(f"""
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{ access_log off; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{nginx_port}; location / {{ default_type application/json; return 200 '{text}'; }} }} }}""")
            nginx = subprocess.Popen(["taskset", "-c", "0", "nginx", "-c", f"{folder}/nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
            targets["nginx return"] = f"http://127.0.0.1:{nginx_port}/"
            time.sleep(1)
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
            nginx.terminate()
            nginx.wait()
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
                out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c32", f"-d{seconds}s", "-s", gmvd.script, gmvd.url], capture_output=True, text=True, check=True).stdout
                rates[gmvd].append(float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)))
    ratio = median(b / a for a, b in zip(rates[few], rates[many]))
    print(f"GET view at {count} handles / at 1000: {ratio:.3f} ({median(rates[many]):.0f} and {median(rates[few]):.0f} requests/s)")
    few.stop()
    many.stop()


def latency(build, rounds, seconds):
    gmvd = Gmvd(build, core="0,1")
    view = gmvd.view(40)
    get = ("GET", f"/v1/views/{view['id']}")
    small = gmvd.view(4096)
    kernel = ("POST", "/v1/kernels/null_count", json.dumps({"bitmask": small["id"], "begin_bit": 0, "end_bit": 32768}))
    big = gmvd.view(1 << 30)
    column = gmvd.json("POST", "/v1/columns", {"type": {"name": "INT8"}, "size": 1 << 30, "data": big["id"]})
    table = gmvd.json("POST", "/v1/tables", {"columns": [column["id"]]})
    stop = threading.Event()

    def pack():
        while not stop.is_set():
            packed = gmvd.json("POST", f"/v1/tables/{table['id']}/pack", {})
            gmvd.call("DELETE", f"/v1/packed/{packed['id']}")

    def download():
        while not stop.is_set():
            subprocess.run(["curl", "-s", "-o", "/dev/null", f"{gmvd.url}/v1/views/{big['id']}/data"], check=True)

    def beside(works):
        stop.clear()
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        found = paced(build, gmvd.port, seconds, *get)
        stop.set()
        for thread in threads:
            thread.join()
        return found

    rows = {"idle": [], "beside 1 GiB packs": [], "beside 4 downloads of 1 GiB": [], "4 KiB kernel, idle": []}
    for _ in range(rounds):
        rows["idle"].append(paced(build, gmvd.port, seconds, *get))
        rows["4 KiB kernel, idle"].append(paced(build, gmvd.port, seconds, *kernel))
        rows["beside 1 GiB packs"].append(beside([pack]))
        rows["beside 4 downloads of 1 GiB"].append(beside([download] * 4))
    for name, found in rows.items():
        p50, p99 = (median(row[key] for row in found) for key in ("p50", "p99"))
        ratio = median(row["p99"] / idle["p99"] for row, idle in zip(found, rows["idle"]))
        print(f"paced GET, {name:28} p50 {p50:7.1f} us  p99 {p99:7.1f} us   p99/idle {ratio:.2f}")
    difference = median(row["p50"] - idle["p50"] for row, idle in zip(rows["4 KiB kernel, idle"], rows["idle"]))
    print(f"4 KiB kernel over that GET, p50: {difference:.1f} us more")
    gmvd.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--handles", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["throughput", "handles", "latency"])
    options = parser.parse_args()
    if options.only in (None, "throughput"):
        throughput(options.build, options.rounds, options.seconds)
    if options.only in (None, "latency"):
        latency(options.build, options.rounds, options.seconds)
    if options.only in (None, "handles"):
        many_handles(options.build, options.rounds, options.seconds, options.handles)
