#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds the OpenAPI document against the route table, both ways: method, path, operationId, query parameters and
# kind of body; and the JSON form against the YAML. Prints TAP.

srcdir=${GMV_SRCDIR:-$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)}
python=${PYTHON:-python3}

if ! "$python" -c '' 2>/dev/null; then
    echo "1..0 # SKIP there is no python3"
    exit 0
fi

exec "$python" - "$srcdir" <<'EOF'
import json
import pathlib
import re
import subprocess
import sys

ROUTE = re.compile(
    r'^GMV_ROUTE\(\s*(?P<method>\w+),\s*"(?P<path>[^"]+)",\s*(?P<id>\w+),\s*\w+,\s*"(?P<query>[^"]*)",'
    r"\s*(?P<body>NONE|JSON|OCTETS),\s*\w+,\s*\w+\s*\)",
    re.MULTILINE,
)
STREAM_ROUTE = re.compile(
    r'^GMV_ROUTE_STREAM\(\s*(?P<method>\w+),\s*"(?P<path>[^"]+)",\s*(?P<id>\w+),\s*\w+,\s*"(?P<query>[^"]*)",'
    r"\s*\w+,\s*\w+\s*\)",
    re.MULTILINE,
)
BODY_OF_MEDIA_TYPE = {"application/json": "JSON", "application/octet-stream": "OCTETS"}


def read_routes(text):
    """{(method, path): (operationId, query names, body kind)}, and complaints about what cannot be read."""
    routes, complaints = {}, []
    rows = [(m, m["body"]) for m in ROUTE.finditer(text)]
    rows += [(m, "OCTETS") for m in STREAM_ROUTE.finditer(text)]
    for row, body in rows:
        key = (row["method"], row["path"])
        if key in routes:
            complaints.append(f"{key[0]} {key[1]} stands there twice")
        routes[key] = (row["id"], frozenset(filter(None, row["query"].split(","))), body)
    lines = len(re.findall(r"^GMV_ROUTE", text, re.MULTILINE))
    if not rows or len(rows) != lines:
        complaints.append(f"{lines} rows, of which {len(rows)} can be read")
    return routes, complaints


def resolve(document, node):
    while "$ref" in node:
        target = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step.replace("~1", "/").replace("~0", "~")]
        node = target
    return node


def read_operations(document):
    operations = {}
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method == "parameters":
                continue
            parameters = [resolve(document, p) for p in shared + operation.get("parameters", [])]
            query = frozenset(p["name"] for p in parameters if p["in"] == "query")
            body = "NONE"
            if "requestBody" in operation:
                media = list(resolve(document, operation["requestBody"])["content"])
                body = BODY_OF_MEDIA_TYPE.get(media[0], media[0]) if len(media) == 1 else str(media)
            operations[(method.upper(), path)] = (operation.get("operationId"), query, body)
    return operations


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = False

    def report(self, name, complaints):
        self.count += 1
        self.failed = self.failed or bool(complaints)
        print(f"{'not ok' if complaints else 'ok'} {self.count} - {name}")
        for complaint in complaints:
            print(f"# {complaint}")

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}")


def show(names):
    return ", ".join(sorted(names)) or "none"


def main():
    root = pathlib.Path(sys.argv[1])
    document = json.loads((root / "openapi/gmvd.json").read_text(encoding="utf-8"))
    routes, complaints = read_routes((root / "src/http/routes.def").read_text(encoding="utf-8"))
    operations = read_operations(document)
    both = sorted(routes.keys() & operations.keys())
    tap = Tap()
    tap.report("the route table can be read", complaints)
    tap.report("every route is in the document",
               [f"{m} {p} is missing" for m, p in sorted(routes.keys() - operations.keys())])
    tap.report("every operation is in the route table",
               [f"{m} {p} has no route" for m, p in sorted(operations.keys() - routes.keys())])
    tap.report("operationIds agree",
               [f"{m} {p}: {routes[m, p][0]} in the table, {operations[m, p][0]} in the document"
                for m, p in both if routes[m, p][0] != operations[m, p][0]])
    tap.report("query parameters agree",
               [f"{m} {p}: {show(routes[m, p][1])} in the table, {show(operations[m, p][1])} in the document"
                for m, p in both if routes[m, p][1] != operations[m, p][1]])
    tap.report("kinds of body agree",
               [f"{m} {p}: {routes[m, p][2]} in the table, {operations[m, p][2]} in the document"
                for m, p in both if routes[m, p][2] != operations[m, p][2]])
    current = subprocess.run([sys.executable, root / "scripts/openapi-json", "--check", "--folder", root / "openapi"],
                             capture_output=True, text=True, check=False)
    name = "gmvd.json is made from gmvd.yaml"
    if current.returncode == 69:
        tap.skip(name, "PyYAML is missing")
    else:
        tap.report(name, current.stderr.splitlines() or ["the check failed"] if current.returncode else [])
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


sys.exit(main())
EOF
