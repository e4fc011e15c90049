# SPDX-License-Identifier: Apache-2.0
"""One daemon over HTTP: JSON in and out, problem documents as exceptions."""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.parse
from typing import Any, Dict, Mapping, Optional

DEFAULT_URL = os.environ.get("GMVD_URL", "http://127.0.0.1:8080")
TIMEOUT_SECONDS = 300

Json = Dict[str, Any]


class GmvError(Exception):
    """What gmvd refused: `problem` is its whole answer, `code` the stable name of the reason."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        self.status = int(problem.get("status", 0))
        self.code = str(problem.get("code", "unknown"))
        self.pointer: Optional[str] = problem.get("pointer")
        place = f" ({self.pointer})" if self.pointer else ""
        super().__init__(f"{self.code}: {problem.get('detail', problem.get('title', ''))}{place}")


class GmvTypeError(GmvError, TypeError):
    """Where pylibcudf raises TypeError."""


class GmvIndexError(GmvError, IndexError):
    """Where pylibcudf raises IndexError."""


class GmvValueError(GmvError, ValueError):
    """Every other argument that gmvd cannot take (status 422)."""


def problem_error(status: int, content: bytes) -> GmvError:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"status": status, "code": "unknown", "detail": content[:200].decode("utf-8", "replace")}
    code = problem.get("code")
    if code == "type_error":
        return GmvTypeError(problem)
    if code == "index_error":
        return GmvIndexError(problem)
    return GmvValueError(problem) if status == 422 else GmvError(problem)


class Connection:
    """A kept-alive connection; threads take turns."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the URL of a gmvd looks like http://127.0.0.1:8080, not {url!r}")
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._http = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
        self._lock = threading.Lock()

    def _send(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str]) -> tuple[int, bytes]:
        self._http.request(method, self._path + path, body, headers)
        answer = self._http.getresponse()
        return answer.status, answer.read()

    def call(self, method: str, path: str, *, json_body: Optional[Mapping[str, Any]] = None, body: Optional[bytes] = None,
             query: Optional[Mapping[str, Any]] = None) -> bytes:
        headers = {}
        if json_body is not None:
            body, headers["Content-Type"] = json.dumps(json_body).encode(), "application/json"
        elif body is not None:
            headers["Content-Type"] = "application/octet-stream"
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            path += "?" + urllib.parse.urlencode(given)
        with self._lock:
            was_open = self._http.sock is not None
            try:
                try:
                    status, content = self._send(method, path, body, headers)
                except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                    # gmvd closes idle connections: what was sent into one of those never reached it.
                    self._http.close()
                    if not was_open:
                        raise
                    status, content = self._send(method, path, body, headers)
            except ConnectionRefusedError as error:
                raise ConnectionRefusedError(error.errno, f"no gmvd answers at {self.url}") from None
            except BaseException:
                self._http.close()
                raise
        if status >= 400:
            raise problem_error(status, content)
        return content

    def json(self, method: str, path: str, **options: Any) -> Json:
        answer = json.loads(self.call(method, path, **options))
        assert isinstance(answer, dict)
        return answer

    def post(self, path: str, body: Mapping[str, Any]) -> Json:
        """Members that are None are left out."""
        return self.json("POST", path, json_body={name: value for name, value in body.items() if value is not None})

    def get(self, path: str, **query: Any) -> Json:
        return self.json("GET", path, query=query)

    def delete(self, path: str, **query: Any) -> Json:
        return self.json("DELETE", path, query=query)
