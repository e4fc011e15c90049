# SPDX-License-Identifier: Apache-2.0
"""Clients generated from the document, compiled, and the scenario of clients/scenario run with each against the daemon.

What a machine has no tools for is skipped; scripts/check-clients installs them and runs this file.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import SOURCE

CHECK = SOURCE / "clients" / "check"
PATH = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.environ["PATH"]))


def has(*programs):
    return all(shutil.which(program, path=PATH) for program in programs)


def has_curl():
    done = subprocess.run(["cc", "-E", "-x", "c", "-"], input=b"#include <curl/curl.h>\n", capture_output=True) if has("cc") else None
    return done is not None and done.returncode == 0


GENERATOR = has("openapi-generator-cli", "java")
TOOLS = {
    "c": GENERATOR and has_curl(),
    "go": GENERATOR and has("go"),
    "typescript": GENERATOR and has("node") and ("TSC" in os.environ or has("tsc")),
    "python": GENERATOR and all(importlib.util.find_spec(name) for name in ("pydantic", "urllib3", "dateutil")),
    "openapi-python-client": has("openapi-python-client"),
}


@pytest.mark.parametrize("language", TOOLS)
def test_a_generated_client_does_the_scenario(client, tmp_path, language):
    if not TOOLS[language]:
        pytest.skip(f"the tools for a {language} client are not there")
    done = subprocess.run([CHECK, language, client.url, tmp_path / "client"], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "PATH": PATH})
    assert done.returncode == 0 and done.stdout.endswith("well\n"), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert client.handles() == [], "the end of the session deletes every name"
