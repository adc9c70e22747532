"""Every problem that a server in a test answers with must be in its OpenAPI document, at that address."""

import json
import re
from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.routing import compile_path
from starlette.types import Message, Receive, Scope, Send

from midcourse.server import Server

OPEN = {500, 503, 507}
"""Statuses with codes beyond those that are named: a store has many ways to fail."""
OF_NO_ADDRESS = {"not_found", "method_not_allowed", "unreadable_body", "too_many_requests", "body_too_large"}
"""Codes of requests that reach no address, or of what stands before all of them."""


@cache
def document() -> dict[str, Any]:
    """The document of every server: all have the same addresses."""
    return Server(store="memory://", token="a-token-for-the-document", agents={}).app.openapi()


@cache
def addresses() -> tuple[tuple[re.Pattern[str], str, dict[int, set[str]]], ...]:
    """Each address, its method and the codes of each status it may answer."""
    found = list[tuple[re.Pattern[str], str, dict[int, set[str]]]]()
    shared = document()["components"]["responses"]
    # An address without a part that varies comes before one with it.
    for place, methods in sorted(document()["paths"].items(), key=lambda one: one[0].count("{")):
        for verb, operation in methods.items():
            answers = dict[int, set[str]]()
            for status, one in operation["responses"].items():
                told = shared[one["$ref"].rpartition("/")[2]] if "$ref" in one else one
                answers[int(status)] = set(told.get("x-codes", ()))
            found.append((compile_path(place)[0], verb.upper(), answers))
    return tuple(found)


class Documented:
    """An application, and what it answered that its document does not tell of."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self.undocumented: set[str] = set()

    def _codes(self, method: str, path: str) -> dict[int, set[str]] | None:
        wanted = "GET" if method == "HEAD" else method
        return next((codes for pattern, verb, codes in addresses() if verb == wanted and pattern.match(path)), None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status, content, is_problem = 0, b"", False

        async def say(message: Message) -> None:
            nonlocal status, content, is_problem
            if message["type"] == "http.response.start":
                status = message["status"]
                is_problem = (b"content-type", b"application/problem+json") in message["headers"]
            elif is_problem:
                content += message.get("body", b"")
            await send(message)

        try:
            await self._app(scope, receive, say)
        finally:
            if is_problem and content:
                self._check(scope["method"], scope["path"], status, json.loads(content)["code"])

    def _check(self, method: str, path: str, status: int, code: str) -> None:
        codes = self._codes(method, path)
        if codes is None or status in OPEN or code in OF_NO_ADDRESS:
            return
        if code not in codes.get(status, ()):
            self.undocumented.add(f"{method} {path}: {status} {code}")
