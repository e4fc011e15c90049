# SPDX-License-Identifier: Apache-2.0
"""schemathesis against a daemon of its own: requests made from the document, good and bad, single and in sequence.

All of its checks are on; schemathesis.toml names what it must be told to allow, with the reason. GMV_CONFORMANCE_EXAMPLES
sets how many requests each operation gets in each phase (8 here; 200 and more for a long run), GMV_CONFORMANCE_SEED what
they are (1 here, so that a run tells of the daemon and not of luck).
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import SOURCE

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = os.environ.get("GMV_CONFORMANCE_EXAMPLES", "8")
SEED = os.environ.get("GMV_CONFORMANCE_SEED", "1")


def test_every_answer_is_what_the_document_promises(own_daemon, tmp_path):
    if not importlib.util.find_spec("schemathesis"):
        pytest.skip("schemathesis is not installed")
    daemon = own_daemon()
    program = shutil.which("schemathesis", path=str(pathlib.Path(sys.executable).parent)) or "schemathesis"
    done = subprocess.run([program, "--config-file", HERE / "schemathesis.toml", "run", SOURCE / "openapi" / "gmvd.json", "--url", daemon.url,
                           "--max-examples", EXAMPLES, "--seed", SEED, "--workers", "1", "--continue-on-failure", "--no-color"],
                          capture_output=True, text=True, cwd=tmp_path, timeout=3000)
    failures = done.stdout.partition("= FAILURES =")[2] or done.stdout
    assert done.returncode == 0, failures[:8000] + done.stderr[-2000:]
    generated = int(re.search(r"(\d+) generated", done.stdout).group(1))
    assert generated > 1000, "nothing was sent"
    assert daemon.alive()
