# SPDX-License-Identifier: Apache-2.0
"""Holds answers of a daemon against the OpenAPI document: status, headers, media type and the shape of the body."""

import json
import pathlib
import re
import urllib.parse

import jsonschema

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "openapi" / "gmvd.json"

# What `default` stands for: errors that any call may answer with. Every other status must be listed by the operation.
UNLISTED_STATUSES = frozenset((401, 403, 408, 411, 412, 414, 417, 431, 501, 505))

# Refused by the HTTP engine before a path is known: these may come without a problem document.
ENGINE_STATUSES = frozenset((400, 413, 414, 431, 501, 505))

# Keywords of OpenAPI that JSON Schema does not have.
ANNOTATIONS = frozenset(("nullable", "example", "xml", "externalDocs", "discriminator", "deprecated"))


def resolve(document, node):
    """The node that a chain of $ref leads to."""
    while "$ref" in node:
        target = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def json_schema(schema):
    """An OpenAPI 3.0 schema as JSON Schema: null beside the type where `nullable` says so."""
    if not isinstance(schema, dict):
        return schema
    result = {}
    for keyword, value in schema.items():
        if keyword in ANNOTATIONS:
            continue
        if keyword == "properties":
            result[keyword] = {name: json_schema(member) for name, member in value.items()}
        elif keyword in ("allOf", "anyOf", "oneOf"):
            result[keyword] = [json_schema(member) for member in value]
        else:
            result[keyword] = json_schema(value)
    if schema.get("nullable"):
        result["type"] = [schema["type"], "null"]
        if "enum" in schema:
            result["enum"] = [*schema["enum"], None]
    return result


def require_nullable_members(schema):
    """An answer's schema with the members that may be null required as well.

    The document leaves them out of `required` for the sake of generated C clients, which take a null there for a
    missing member; the daemon always writes them.
    """
    if isinstance(schema, list):
        return [require_nullable_members(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {keyword: require_nullable_members(value) for keyword, value in schema.items()}
    members = schema.get("properties")
    if isinstance(members, dict) and schema.get("type") == "object":
        nullable = [name for name, member in members.items() if member.get("nullable")]
        if nullable:
            result["required"] = [*schema.get("required", []), *nullable]
    return result


class Validator:
    """Checks values against schemas of one document. Schemas called ...Request are requests, all others answers."""

    def __init__(self, document):
        self._components = {"schemas": {}}
        for name, schema in document["components"]["schemas"].items():
            is_whole = not name.endswith("Request") and name not in ("Health", "Problem")  # these say what applies only
            whole = require_nullable_members(schema) if is_whole else schema
            self._components["schemas"][name] = json_schema(whole)

    def complaints(self, schema, value):
        whole = {"allOf": [json_schema(schema)], "components": self._components}
        validator = jsonschema.Draft202012Validator(whole)
        return [f"{'/' + '/'.join(map(str, e.path)) if e.path else 'body'}: {e.message}"
                for e in sorted(validator.iter_errors(value), key=lambda e: list(map(str, e.path)))]


def reject_duplicates(pairs):
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member occurs twice")
    return members


def reject_constant(name):
    raise ValueError(f"{name} is not JSON")


class Contract:
    """The document, and `check`, which raises AssertionError with what an answer breaks."""

    def __init__(self, path=DOCUMENT):
        self.document = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self._validator = Validator(self.document)
        # Fixed segments win over {id}: fewer braces first.
        templates = sorted(self.document["paths"], key=lambda template: template.count("{"))
        self._templates = [(re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(t)) + r"\Z"), t) for t in templates]

    def find(self, path):
        """The path template that serves `path` (a query is ignored), or None."""
        bare = urllib.parse.urlsplit(path).path
        return next((template for pattern, template in self._templates if pattern.match(bare)), None)

    def operation(self, method, path):
        """The operation of a request, or None. HEAD is served by GET."""
        template = self.find(path)
        if template is None:
            return None
        wanted = "get" if method.upper() == "HEAD" else method.lower()
        return self.document["paths"][template].get(wanted)

    def check(self, method, path, status, headers, body_bytes):
        """Raises AssertionError if this answer is not one that the document promises."""
        method, status = method.upper(), int(status)
        headers = {name.lower(): value for name, value in dict(headers).items()}
        body_bytes = body_bytes or b""
        where = f"{method} {path} -> {status}"
        operation = self.operation(method, path)
        if operation is None:
            self._check_without_operation(where, path, status, headers, body_bytes, method)
            return
        where = f"{operation['operationId']} ({where})"
        response = self._response(where, operation, status)
        if status in ENGINE_STATUSES and "x-request-id" not in headers:
            return
        self._check_headers(where, response, headers)
        if method == "HEAD":
            assert not body_bytes, f"{where}: an answer to HEAD has a body of {len(body_bytes)} bytes"
            return
        self._check_body(where, response, headers, body_bytes)

    def _response(self, where, operation, status):
        assert status != 500, f"{where}: internal error, which is a bug"
        listed = operation["responses"]
        if str(status) in listed:
            return resolve(self.document, listed[str(status)])
        assert status in UNLISTED_STATUSES and "default" in listed, (
            f"{where}: the status is not listed, only {', '.join(sorted(listed))}")
        return resolve(self.document, listed["default"])

    def _check_without_operation(self, where, path, status, headers, body_bytes, method):
        """An unknown path must be 404, a method that the path does not take 405 with Allow."""
        template = self.find(path)
        if status in ENGINE_STATUSES or status in UNLISTED_STATUSES or status == 503:
            return
        expected = 404 if template is None else 405
        assert status == expected, f"{where}: {expected} is due for a path or method that the document does not have"
        if expected == 405:
            allowed = {name.strip() for name in headers.get("allow", "").split(",") if name.strip()}
            due = {name.upper() for name in self.document["paths"][template]}
            due |= {"HEAD"} if "GET" in due else set()
            assert allowed == due, f"{where}: Allow is {sorted(allowed)}, not {sorted(due)}"
        response = resolve(self.document, {"$ref": "#/components/responses/Error"})
        self._check_headers(where, response, headers)
        if method != "HEAD":
            self._check_body(where, response, headers, body_bytes)

    def _check_headers(self, where, response, headers):
        for name, header in response.get("headers", {}).items():
            header = resolve(self.document, header)
            value = headers.get(name.lower())
            if value is None:
                assert not header.get("required"), f"{where}: the header {name} is missing"
                continue
            if header["schema"].get("type") == "integer":
                assert re.fullmatch(r"-?\d+", value), f"{where}: the header {name} is {value!r}, not an integer"
                value = int(value)
            complaints = self._validator.complaints(header["schema"], value)
            assert not complaints, f"{where}: the header {name} is {value!r}: {complaints[0]}"

    def _check_body(self, where, response, headers, body_bytes):
        content = response.get("content")
        if content is None:
            assert not body_bytes, f"{where}: a body of {len(body_bytes)} bytes where there is none"
            return
        media_type = headers.get("content-type", "").split(";")[0].strip().lower()
        assert media_type in content, f"{where}: Content-Type is {media_type or 'missing'}, not {' or '.join(content)}"
        if not (media_type == "application/json" or media_type.endswith("+json")):
            return
        try:
            value = json.loads(body_bytes.decode("utf-8"), object_pairs_hook=reject_duplicates,
                               parse_constant=reject_constant)
        except ValueError as error:
            raise AssertionError(f"{where}: the body is not JSON: {error}: {body_bytes[:200]!r}") from error
        complaints = self._validator.complaints(content[media_type]["schema"], value)
        assert not complaints, f"{where}: {'; '.join(complaints[:5])} in {body_bytes[:600]!r}"
