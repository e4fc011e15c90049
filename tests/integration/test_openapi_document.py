# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document by itself: valid, its examples true, and within the rules that generators need."""

import json
import re

import pytest

from openapi_check import DOCUMENT, Contract, Validator, resolve

METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
JSON = "application/json"
PROBLEM = "application/problem+json"
COUNT_MAXIMUM = 2**53 - 1


@pytest.fixture(scope="module")
def document():
    return json.loads(DOCUMENT.read_text(encoding="utf-8"))


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS, f"{path}: {method}"
            yield method, path, operation


def responses(document):
    """(where, status, response) of every operation, references followed."""
    for _, _, operation in operations(document):
        for status, response in operation["responses"].items():
            yield f"{operation['operationId']} {status}", status, resolve(document, response)


def media_types(document):
    """(where, media type object) of every body, both ways."""
    for _, _, operation in operations(document):
        if "requestBody" in operation:
            for name, media in resolve(document, operation["requestBody"])["content"].items():
                yield f"{operation['operationId']} request {name}", media
    for where, _, response in responses(document):
        for name, media in response.get("content", {}).items():
            yield f"{where} {name}", media


def schemas(node, where=""):
    """(where, schema) of everything that stands where a schema may stand."""
    if isinstance(node, list):
        for index, member in enumerate(node):
            yield from schemas(member, f"{where}/{index}")
    elif isinstance(node, dict):
        for key, member in node.items():
            here = f"{where}/{key}"
            if key in ("example", "examples"):
                continue
            if key == "schema" or re.fullmatch(r"/components/schemas/[^/]+", here):
                yield from subschemas(member, here)
            else:
                yield from schemas(member, here)


def subschemas(schema, where):
    yield where, schema
    for name, member in schema.get("properties", {}).items():
        yield from subschemas(member, f"{where}/properties/{name}")
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield from subschemas(schema[keyword], f"{where}/{keyword}")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, member in enumerate(schema.get(keyword, [])):
            yield from subschemas(member, f"{where}/{keyword}/{index}")


def reachable(document, roots):
    """Names of the components that these schemas lead to."""
    found, pending = set(), list(roots)
    while pending:
        for _, schema in subschemas(pending.pop(), ""):
            if "$ref" in schema:
                name = schema["$ref"].rsplit("/", 1)[1]
                if name not in found:
                    found.add(name)
                    pending.append(document["components"]["schemas"][name])
    return found


def request_schemas(document):
    roots = [media["schema"] for where, media in media_types(document) if f" request {JSON}" in where]
    return {name: document["components"]["schemas"][name] for name in reachable(document, roots)}


def answer_schemas(document):
    roots = [media["schema"] for where, media in media_types(document) if " request " not in where]
    return {name: document["components"]["schemas"][name] for name in reachable(document, roots)}


def test_document_is_valid_openapi(document):
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(document)
    assert document["openapi"] == "3.0.3"


def test_json_is_made_from_the_yaml(document):
    yaml = pytest.importorskip("yaml")
    source = DOCUMENT.with_suffix(".yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(source) == document, "run scripts/openapi-json"


def test_every_example_fits_its_schema(document):
    validator = Validator(document)
    checked = 0
    for where, media in media_types(document):
        values = [media["example"]] if "example" in media else [
            resolve(document, e)["value"] for e in media.get("examples", {}).values()]
        assert values, f"{where} has no example"
        for value in values:
            assert not validator.complaints(media["schema"], value), f"{where}: {validator.complaints(media['schema'], value)}"
            checked += 1
    for where, parameter in parameters(document):
        if "example" in parameter:
            assert not validator.complaints(parameter["schema"], parameter["example"]), where
    for name, header in document["components"]["headers"].items():
        assert not validator.complaints(header["schema"], header["example"]), name
    assert checked > 100


def test_every_default_fits_its_schema(document):
    validator = Validator(document)
    for where, schema in schemas(document):
        if "default" in schema:
            assert not validator.complaints(schema, schema["default"]), where


def test_examples_of_problems_carry_the_status_they_stand_under(document):
    for where, status, response in responses(document):
        media = response.get("content", {}).get(PROBLEM)
        if media is None:
            continue
        values = [media["example"]] if "example" in media else [e["value"] for e in media["examples"].values()]
        for value in values:
            assert status in ("default", str(value["status"])), where


def test_operation_ids_differ_without_case_and_underscore(document):
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len({re.sub("[_-]", "", i).lower() for i in ids}) == len(ids)
    for name in ids:
        assert re.fullmatch(r"[a-z][a-z]*([A-Z][a-z]*)*", name), name


def test_each_operation_has_one_success_and_one_media_type(document):
    for _, path, operation in operations(document):
        successes = {s for s in operation["responses"] if s.startswith("2")} - {"206"}
        assert len(successes) == 1, path
    for where, status, response in responses(document):
        if status == "304":
            assert "content" not in response, where
        else:
            several = {"multipart/byteranges"} if status == "206" else set()
            assert len(response["content"].keys() - several) == 1, where
        if status == "default" or int(status) >= 400:
            assert response["content"][PROBLEM]["schema"] == {"$ref": "#/components/schemas/Problem"}, where


def test_each_operation_is_described(document):
    tags = {tag["name"] for tag in document["tags"]}
    for method, path, operation in operations(document):
        assert operation["summary"] and operation["description"].endswith("."), path
        assert len(operation["tags"]) == 1 and set(operation["tags"]) <= tags, path
        assert "default" in operation["responses"] and "400" in operation["responses"], path
        assert method not in ("head", "options"), path
        if "requestBody" in operation:
            assert "415" in operation["responses"], path
    for where, parameter in parameters(document):
        assert parameter["description"].endswith("."), where


def parameters(document):
    for _, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            parameter = resolve(document, parameter)
            yield f"{operation['operationId']} {parameter['name']}", parameter


def test_path_parameters_are_those_of_the_template(document):
    for _, path, operation in operations(document):
        named = {p["name"] for w, p in parameters(document) if w.split()[0] == operation["operationId"] and p["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path)), path
        if named:
            assert {"404", "410"} <= operation["responses"].keys(), path


def test_bodies_are_objects_with_named_parts(document):
    for where, media in media_types(document):
        schema = resolve(document, media["schema"])
        binary = where.endswith(("octet-stream", "multipart/byteranges"))
        text = where.endswith(("text/plain", "text/html", "text/event-stream"))
        assert schema["type"] == ("string" if binary or text else "object"), where
        if binary:
            assert schema["format"] == "binary", where


def test_free_objects_are_no_maps(document):
    """An object of any members says nothing of them: with additionalProperties it would become a map of one type."""
    for where, schema in schemas(document):
        if schema.get("type") == "object" and "properties" not in schema:
            assert schema.get("additionalProperties") is not True, where


def test_no_alternatives_and_no_discriminators(document):
    for where, schema in schemas(document):
        assert not {"oneOf", "anyOf", "allOf", "not", "discriminator"} & schema.keys(), where


def test_what_every_call_takes_is_said_of_every_call(document):
    """A session can be borne by each call under /v1, and each JSON POST can be sent again under its key."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not path.startswith("/v1"):
                continue
            listed = {parameter.get("$ref", "").rpartition("/")[2] for parameter in operation.get("parameters", [])}
            is_json_post = method == "post" and "application/json" in operation.get("requestBody", {}).get("content", {})
            assert "GmvSession" in listed, f"{method} {path}"
            assert {"404", "410"} <= operation["responses"].keys(), f"{method} {path}"
            assert not is_json_post or ("IdempotencyKey" in listed and "409" in operation["responses"]), f"{method} {path}"


def test_nullable_stands_beside_a_type_only(document):
    for where, schema in schemas(document):
        if "nullable" in schema:
            assert "type" in schema and "$ref" not in schema, where
        if "$ref" in schema:
            assert schema.keys() == {"$ref"}, where


def test_requests_refuse_unknown_members(document):
    found = request_schemas(document)
    assert len(found) > 20
    for name, component in found.items():
        for where, schema in subschemas(component, name):
            if schema.get("type") == "object":
                free = where.endswith("/cuda_array_interface") or where == "BatchOperationRequest/properties/body"
                assert schema.get("additionalProperties", True) is free, where


def test_answers_require_every_member_that_is_never_null_and_stay_open(document):
    sometimes = {"Health": {"checks"}, "Problem": {"pointer", "parameter", "id", "alive", "reason", "dependents", "dependents_count", "operation"}}
    for name, component in answer_schemas(document).items():
        for where, schema in subschemas(component, name):
            if schema.get("type") != "object":
                continue
            assert schema.get("additionalProperties") is not False, where
            members = {name for name, member in schema.get("properties", {}).items() if not member.get("nullable")}
            assert set(schema.get("required", [])) == members - sometimes.get(where, set()), where


def test_enumerations_stand_in_requests_only(document):
    for name, component in answer_schemas(document).items():
        for where, schema in subschemas(component, name):
            assert "enum" not in schema, where


def test_sizes_in_answers_are_safe_for_doubles(document):
    """int64 in answers: 2^53 - 1 at most, addresses, strides and limits excepted."""
    wide = re.compile(r"(/ptr|/exporter_base|DlpackTensor/properties/data|/strides/items|/limits/additionalProperties)\Z")
    for name, component in answer_schemas(document).items():
        for where, schema in subschemas(component, name):
            if schema.get("format") != "int64":
                continue
            if wide.search(where):
                assert "maximum" not in schema, where
            else:
                assert schema["maximum"] == COUNT_MAXIMUM and schema["minimum"] in (0, -1), where


def test_integers_in_requests_end_where_their_type_does(document):
    for name, component in request_schemas(document).items():
        for where, schema in subschemas(component, name):
            if schema.get("type") == "integer":
                assert "maximum" not in schema, where
                assert schema.get("format") or name == "ByteSliceRequest", where


def test_every_component_is_used(document):
    text = json.dumps(document)
    for group, members in document["components"].items():
        for name in members:
            assert f'"#/components/{group}/{name}"' in text, f"{group}/{name}"


@pytest.fixture(scope="module")
def contract():
    return Contract()


def example(contract, name):
    return contract.document["components"]["examples"][name]["value"]


GOOD_HEADERS = {"X-Request-Id": "r1", "Content-Type": "application/json"}


def test_contract_takes_what_the_document_promises(contract):
    body = json.dumps(example(contract, "View")).encode()
    contract.check("POST", "/v1/views", 201, {**GOOD_HEADERS, "Location": "/v1/views/view_x"}, body)
    contract.check("get", "/v1/views/view_x?", 200, {**GOOD_HEADERS, "etag": '"x"'}, body)
    contract.check("HEAD", "/v1/views/view_x", 200, {**GOOD_HEADERS, "ETag": '"x"'}, b"")
    contract.check("GET", "/v1/views/view_x", 304, {"X-Request-Id": "r1", "ETag": '"x"'}, b"")


def test_contract_prefers_fixed_segments(contract):
    assert contract.find("/v1/buffers/upload?label=a") == "/v1/buffers/upload"
    assert contract.find("/v1/buffers/buf_1") == "/v1/buffers/{id}"
    assert contract.find("/v1/buffers/buf_1/none") is None


@pytest.mark.parametrize("status, headers, change, message", [
    (200, {}, {}, "the status is not listed"),
    (500, {}, {}, "internal error"),
    (201, {"Location": None}, {}, "the header Location is missing"),
    (201, {"X-Request-Id": None}, {}, "the header X-Request-Id is missing"),
    (201, {"Content-Type": "text/html"}, {}, "Content-Type is text/html"),
    (201, {}, {"nbytes": "40"}, "/nbytes"),
    (201, {}, {"nbytes": 2**53}, "/nbytes"),
    (201, {}, {"nbytes": None}, "/nbytes"),
    (201, {}, {"label": ...}, "'label' is a required property"),
    (201, {}, {"owners": [1]}, "/owners/0"),
])
def test_contract_refuses(contract, status, headers, change, message):
    members = {**example(contract, "View"), **change}
    body = json.dumps({k: v for k, v in members.items() if v is not ...}).encode()
    sent = {**GOOD_HEADERS, "Location": "/v1/views/view_x", **headers}
    with pytest.raises(AssertionError, match=re.escape(message)):
        contract.check("POST", "/v1/views", status, {k: v for k, v in sent.items() if v is not None}, body)


@pytest.mark.parametrize("body", [b"", b"{", b'{"count": 1, "count": 1}', b'{"count": NaN}', b"\xff", b"[1]"])
def test_contract_refuses_bodies_that_are_not_the_promised_json(contract, body):
    with pytest.raises(AssertionError):
        contract.check("POST", "/v1/kernels/null_count", 200, GOOD_HEADERS, body)


def problem(status, code):
    return json.dumps({"type": "about:blank", "title": "t", "status": status, "code": code, "detail": "d", "request_id": "r1"}).encode()


def test_contract_knows_what_is_due_without_an_operation(contract):
    headers = {"X-Request-Id": "r1", "Content-Type": PROBLEM}
    contract.check("GET", "/v1/none", 404, headers, problem(404, "route_unknown"))
    contract.check("PATCH", "/v1/views", 405, {**headers, "Allow": "GET, HEAD, POST"}, problem(405, "method_not_allowed"))
    with pytest.raises(AssertionError, match="Allow"):
        contract.check("PATCH", "/v1/views/view_x", 405, {**headers, "Allow": "GET"}, problem(405, "method_not_allowed"))
    with pytest.raises(AssertionError, match="405 is due"):
        contract.check("PATCH", "/v1/views", 404, headers, problem(404, "route_unknown"))
