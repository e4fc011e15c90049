# SPDX-License-Identifier: Apache-2.0
"""The document takes nothing away from clients of the last published one, and the comparison sees what would."""

import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openapi_check import DOCUMENT
from openapi_compare import breaking_changes

FOLDER = DOCUMENT.parent

def read(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_nothing_is_taken_away_since_the_last_published_document():
    assert breaking_changes(read("baseline.json"), read("gmvd.json")) == []


def drop(path):
    def change(document):
        *way, last = path
        node = document
        for step in way:
            node = node[step]
        del node[last]
    return change


def put(path, value):
    def change(document):
        *way, last = path
        node = document
        for step in way:
            node = node[step]
        node[last] = value
    return change


UPLOAD = ("paths", "/v1/buffers/upload", "post")
VIEW = ("components", "schemas", "View")
CREATE = ("components", "schemas", "CreateBufferRequest")


@pytest.mark.parametrize("change, said", [
    (drop(("paths", "/v1/views/{id}")), "GET /v1/views/{id}: the operation is gone"),
    (put((*UPLOAD, "operationId"), "sendBuffer"), "operationId is sendBuffer, was uploadBuffer"),
    (drop((*UPLOAD, "responses", "201")), "the answer 201 is gone"),
    (put((*UPLOAD, "parameters"), []), "parameter readonly is gone"),
    (drop((*UPLOAD, "requestBody", "content", "application/octet-stream")), "bodies of application/octet-stream are no longer taken"),
    (drop((*UPLOAD, "responses", "201", "headers", "Location")), "the header Location is gone"),
    (drop((*VIEW, "properties", "nbytes")), "nbytes is gone"),
    (put((*VIEW, "properties", "nbytes", "type"), "string"), "the type is string, was integer"),
    (put((*VIEW, "properties", "nbytes", "nullable"), True), "may now be null"),
    (put((*VIEW, "required"), []), "nbytes may now be missing"),
    (put((*CREATE, "required"), ["nbytes", "device"]), "device is now required"),
    (drop((*CREATE, "properties", "readonly")), "readonly is no longer taken"),
    (put((*CREATE, "properties", "nbytes", "minimum"), 1), "minimum is 1, was 0"),
    (put((*CREATE, "properties", "nbytes", "maximum"), 100), "maximum is 100, was open"),
    (put((*CREATE, "properties", "readonly", "nullable"), False), "null is no longer taken"),
    (put(("components", "schemas", "CreateNullMaskRequest", "properties", "state", "enum"), ["ALL_NULL"]), "ALL_VALID is no longer taken"),
    (put(("components", "parameters", "IfHeld", "required"), True), "parameter if_held is now required"),
])
def test_a_breaking_change_is_seen(change, said):
    old = read("gmvd.json")
    new = copy.deepcopy(old)
    change(new)
    assert any(said in line for line in breaking_changes(old, new)), breaking_changes(old, new)


@pytest.mark.parametrize("change", [
    put((*VIEW, "properties", "colour"), {"type": "string"}), put((*CREATE, "properties", "colour"), {"type": "string"}),
    put((*CREATE, "required"), []), put(("paths", "/v1/new"), {"get": {}}), put((*VIEW, "description"), "Another text."),
])
def test_a_compatible_change_is_let_through(change):
    old = read("gmvd.json")
    new = copy.deepcopy(old)
    change(new)
    assert breaking_changes(old, new) == []


def test_the_generators_recommendations_are_followed():
    program = shutil.which("openapi-generator-cli", path=str(Path(sys.executable).parent))
    if not program or not shutil.which("java"):
        pytest.skip("openapi-generator-cli or a Java runtime is missing")
    done = subprocess.run([program, "validate", "--recommend", "-i", FOLDER / "gmvd.yaml"], capture_output=True, text=True)
    assert done.returncode == 0 and "No validation issues detected" in done.stdout, done.stdout + done.stderr


def test_the_document_is_tidy_yaml():
    pytest.importorskip("yamllint", reason="yamllint is not installed")
    rules = "{extends: default, rules: {line-length: {max: 160}, indentation: disable, document-start: disable, braces: {max-spaces-inside: 0}, comments: {min-spaces-from-content: 1}}}"
    done = subprocess.run([sys.executable, "-m", "yamllint", "-d", rules, FOLDER / "gmvd.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[:3000]
