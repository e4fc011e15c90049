# SPDX-License-Identifier: Apache-2.0
"""A gmvd on the GPU, one for each module, and processes beside it that own GPU memory.

Client, Daemon and the fixtures come from tests/integration. Every test has a time limit of its own, and whoever does
not answer in time is named: a hang never looks like anything else.
"""

import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]
os.environ.setdefault("GMVD_BACKEND", "cuda")

import support  # noqa: E402
from support import integration  # noqa: E402

client, own_daemon, control, wait_until = (integration.client, integration.own_daemon, integration.control, integration.wait_until)
TEST_SECONDS = 150


def pytest_collection_modifyitems(items):
    reason = support.why_no_gpu()
    for item in items if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def daemon():
    running = integration.Daemon()
    yield running
    support.end_shared_workers()
    running.stop()


@pytest.fixture(autouse=True)
def time_limit(request):
    def stop(*_):
        raise TimeoutError(f"{request.node.name} did not end within {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def start():
    """start("cupy_worker") runs a worker; all are gone after the test. Skips where its package is missing."""
    started = []

    def go(name, *arguments, environment=None):
        command = support.worker_command(name)
        started.append(support.Worker([*command, *arguments], environment))
        return started[-1]

    yield go
    for worker in started:
        worker.kill()
