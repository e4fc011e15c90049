# SPDX-License-Identifier: Apache-2.0
"""What a newer OpenAPI document takes away from the clients of an older one.

Requests may only become more permissive, answers only richer: what a client of the old document sends must still be
taken, and what it reads must still be there, of the same type. Run as a program: openapi_compare.py OLD NEW.
"""

import json
import pathlib
import sys

from openapi_check import resolve

METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
LOWER_BOUNDS = ("minimum", "minLength", "minItems")
UPPER_BOUNDS = ("maximum", "maxLength", "maxItems")


class Comparison:
    def __init__(self, old, new):
        self.old, self.new = old, new
        self.breaks = []
        self._seen = set()  # schemas may contain themselves

    def say(self, where, what):
        self.breaks.append(f"{where}: {what}")

    def run(self):
        for path, operations in self.old["paths"].items():
            for method in METHODS:
                if method in operations:
                    self._operation(f"{method.upper()} {path}", operations, self.new["paths"].get(path, {}), method)
        return self.breaks

    def _operation(self, where, old_item, new_item, method):
        old, new = old_item[method], new_item.get(method)
        if new is None:
            self.say(where, "the operation is gone")
            return
        if old["operationId"] != new["operationId"]:
            self.say(where, f"operationId is {new['operationId']}, was {old['operationId']}")
        self._parameters(where, self._all_parameters(self.old, old_item, old), self._all_parameters(self.new, new_item, new))
        self._request_body(where, old.get("requestBody"), new.get("requestBody"))
        self._responses(where, old["responses"], new["responses"])

    @staticmethod
    def _all_parameters(document, item, operation):
        listed = [resolve(document, parameter) for parameter in item.get("parameters", []) + operation.get("parameters", [])]
        return {(parameter["in"], parameter["name"]): parameter for parameter in listed}

    def _parameters(self, where, old, new):
        for key, parameter in old.items():
            if key not in new:
                self.say(where, f"parameter {key[1]} is gone")
            else:
                self._request(f"{where} parameter {key[1]}", parameter["schema"], new[key]["schema"])
        for key, parameter in new.items():
            if parameter.get("required") and not old.get(key, {}).get("required"):
                self.say(where, f"parameter {key[1]} is now required")

    def _request_body(self, where, old, new):
        old, new = resolve(self.old, old or {}), resolve(self.new, new or {})
        if new.get("required") and not old.get("required"):
            self.say(where, "a body is now required")
        for media, content in old.get("content", {}).items():
            if media not in new.get("content", {}):
                self.say(where, f"bodies of {media} are no longer taken")
            else:
                self._request(f"{where} body", content["schema"], new["content"][media]["schema"])

    def _responses(self, where, old, new):
        for status, response in old.items():
            if not status.startswith("2"):
                continue
            if status not in new:
                self.say(where, f"the answer {status} is gone")
                continue
            before, after = resolve(self.old, response), resolve(self.new, new[status])
            for media, content in before.get("content", {}).items():
                if media not in after.get("content", {}):
                    self.say(f"{where} {status}", f"answers of {media} are gone")
                else:
                    self._answer(f"{where} {status}", content["schema"], after["content"][media]["schema"])
            for name in before.get("headers", {}):
                if name not in after.get("headers", {}):
                    self.say(f"{where} {status}", f"the header {name} is gone")

    def _resolved(self, kind, old, new):
        """Both schemas, or None if this pair was compared before."""
        key = (kind, old.get("$ref"), new.get("$ref"))
        if key[1] and key[2]:
            if key in self._seen:
                return None
            self._seen.add(key)
        return resolve(self.old, old), resolve(self.new, new)

    def _type(self, where, old, new):
        if "type" in old and old["type"] != new.get("type", old["type"]):
            self.say(where, f"the type is {new['type']}, was {old['type']}")

    def _request(self, where, old, new):
        pair = self._resolved("request", old, new)
        if pair is None:
            return
        old, new = pair
        self._type(where, old, new)
        if old.get("nullable") and not new.get("nullable"):
            self.say(where, "null is no longer taken")
        if "enum" in new and "enum" not in old:
            self.say(where, f"only {', '.join(map(str, new['enum']))} are taken now")
        for value in old.get("enum", []):
            if value not in new.get("enum", [value]):
                self.say(where, f"{value} is no longer taken")
        for bounds, is_narrower in ((LOWER_BOUNDS, lambda was, now: was is None or now > was), (UPPER_BOUNDS, lambda was, now: was is None or now < was)):
            for bound in bounds:
                if bound in new and is_narrower(old.get(bound), new[bound]):
                    self.say(where, f"{bound} is {new[bound]}, was {old.get(bound, 'open')}")
        for name in new.get("required", []):
            if name not in old.get("required", []):
                self.say(where, f"{name} is now required")
        for name, member in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                self.say(where, f"{name} is no longer taken")
            else:
                self._request(f"{where}/{name}", member, new["properties"][name])
        if "items" in old and "items" in new:
            self._request(f"{where}/items", old["items"], new["items"])

    def _answer(self, where, old, new):
        pair = self._resolved("answer", old, new)
        if pair is None:
            return
        old, new = pair
        self._type(where, old, new)
        if new.get("nullable") and not old.get("nullable"):
            self.say(where, "may now be null")
        for name, member in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                self.say(where, f"{name} is gone")
                continue
            # One that may be null is always there, required or not.
            was_there = name in old.get("required", []) or member.get("nullable")
            is_there = name in new.get("required", []) or new["properties"][name].get("nullable")
            if was_there and not is_there:
                self.say(where, f"{name} may now be missing")
            self._answer(f"{where}/{name}", member, new["properties"][name])
        if "items" in old and "items" in new:
            self._answer(f"{where}/items", old["items"], new["items"])


def breaking_changes(old, new):
    return Comparison(old, new).run()


def main():
    old, new = (json.loads(pathlib.Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:])
    breaks = breaking_changes(old, new)
    print("\n".join(breaks) or "nothing is taken away")
    return 1 if breaks else 0


if __name__ == "__main__":
    sys.exit(main())
