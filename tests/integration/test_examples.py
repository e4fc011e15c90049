# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ run, and say the truth."""

import subprocess
import sys

from conftest import SOURCE


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_penguins_survive_the_journey(daemon, client, host_memory):
    done = run(sys.executable, str(SOURCE / "examples" / "penguins.py"), daemon.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok: ") == 12 and "WRONG" not in done.stdout
    assert client.handles() == []


def test_the_tour_of_the_quickstart(daemon, client):
    done = run("bash", str(SOURCE / "examples" / "tour.sh"), daemon.url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"null_count": 2' in done.stdout and "handle_deleted" in done.stdout and "rows of the parts: 152 68 124" in done.stdout
