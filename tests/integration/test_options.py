# SPDX-License-Identifier: Apache-2.0
"""The command line: options, environment, file, exit codes, health check."""

import os
import subprocess

import pytest

from conftest import BACKEND, GMVD, PATIENCE, SOURCE


def run(*arguments, environment=None, timeout=PATIENCE):
    return subprocess.run([GMVD, *arguments], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(environment or {})})


def test_help_and_version():
    helped = run("--help")
    assert helped.returncode == 0 and "--listen" in helped.stdout and "--max-device-nbytes" in helped.stdout
    assert run("--version").stdout.startswith("gmvd ")


def test_the_contract_can_be_printed():
    assert run("--print-openapi").stdout == (SOURCE / "openapi" / "gmvd.yaml").read_text()


def test_mistakes_are_usage_errors_in_one_line():
    for arguments in (["--no-such-option"], ["--listen"], ["--listen", "nonsense"], ["--listen", "127.0.0.1:99999"], ["--threads", "x"], ["--threads", "-1"],
                      ["--backend", "opencl"], ["--log-format", "xml"], ["--idle-timeout", ""], ["surplus"]):
        failed = run(*arguments)
        assert failed.returncode == 64, (arguments, failed)
        assert len(failed.stderr.strip().splitlines()) <= 2 and failed.stderr


@pytest.mark.skipif(BACKEND == "cuda", reason="there is a CUDA device here")
def test_cuda_where_there_is_none_is_said_in_one_line():
    failed = run("--backend", "cuda", "--listen", "127.0.0.1:0")
    assert failed.returncode == 69 and "cuda" in failed.stderr.lower()


def test_listening_elsewhere_needs_a_word(tmp_path):
    failed = run("--backend", "host", "--listen", "0.0.0.0:0")
    assert failed.returncode in (64, 78) and "insecure" in failed.stderr


def test_a_checked_address_is_one_that_can_be_listened_on():
    for address in ("", ":0", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http", "256.0.0.1:0", "0.0.0.0:0", "[::]:0"):
        failed = run("--check-config", "--listen", address)
        assert failed.returncode == 64 and len(failed.stderr.splitlines()) == 1, (address, failed)
    for address in ("127.0.0.1:0", "localhost:8080", "[::1]:65535"):
        assert run("--check-config", "--listen", address).returncode == 0
    assert run("--check-config", "--insecure", "--listen", "0.0.0.0:8080").returncode == 0


def test_every_address_of_the_loopback_is_answered_under_its_own_name(own_daemon):
    for address in ("127.0.0.2:0", "localhost:0"):
        assert own_daemon("--listen", address).client.get("/v1/server")["name"] == "gmvd"


def test_flag_beats_environment_beats_file(tmp_path):
    config = tmp_path / "gmvd.conf"
    config.write_text("# a comment\nmax-handles = 1\nlog-format = json\n\nmax-json-nbytes = 2000\n")
    checked = run("--config", str(config), "--check-config", "--max-json-nbytes", "4000", environment={"GMVD_MAX_HANDLES": "2", "GMVD_MAX_JSON_NBYTES": "3000"})
    assert checked.returncode == 0, checked.stderr
    bad = tmp_path / "bad.conf"
    for text in ("no-such-key = 1\n", "max-handles\n", "max-handles = x\n"):
        bad.write_text(text)
        failed = run("--config", str(bad), "--check-config")
        assert failed.returncode == 78 and str(bad) in failed.stderr, failed
    assert run("--config", str(tmp_path / "absent"), "--check-config").returncode in (66, 78)


def test_a_failed_health_check_names_the_address():
    failed = run("healthcheck", "--listen", "127.0.0.1:1")
    assert failed.returncode == 1 and "127.0.0.1:1" in failed.stderr


def test_limits_from_the_environment_count(own_daemon):
    client = own_daemon(environment={"GMVD_MAX_HANDLES": "1"}).client
    client.post("/v1/buffers", {"nbytes": 0})
    assert client.call("POST", "/v1/buffers", json={"nbytes": 0}).status_code == 429


def test_an_address_in_use(daemon):
    failed = run("--backend", "host", "--listen", f"127.0.0.1:{daemon.port}")
    assert failed.returncode not in (0, -6, -11) and "use" in failed.stderr


def test_health_check(daemon):
    healthy = run("healthcheck", "--listen", f"127.0.0.1:{daemon.port}")
    assert healthy.returncode == 0, healthy.stderr
    assert run("healthcheck", "--listen", "127.0.0.1:1").returncode == 1
