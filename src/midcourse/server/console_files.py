"""The console's files, as they were built into the package."""

from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from midcourse.server.conventions import path_in

BUILT: Final = Path(__file__).parent.parent / "console"
"""The folder that the package's build hook, or `make console`, fills."""
_NOT_BUILT: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Midcourse</title></head>
<body><h1>Midcourse</h1>
<p>The interrupt handle for AI agents. The console was not built into this installation: run <code>make console</code>
in the project's folder, or install a released wheel.</p>
<ul><li><a href="api/v1/sessions">Sessions</a></li><li><a href="api/v1/agents">Agents</a></li>
<li><a href="api/v1/openapi.json">The API's addresses (OpenAPI)</a></li></ul>
<p>In a terminal: <code>midcourse ps</code>, <code>midcourse show</code>, <code>midcourse pause</code> and more; see
<code>midcourse --help</code>.</p></body></html>
"""


def is_built(folder: Path = BUILT) -> bool:
    """Return True if there is a console to serve."""
    return (folder / "index.html").is_file()


class Pages(StaticFiles):
    """The files of the console. Those whose name holds a digest of what they are may be kept for ever."""

    def __init__(self, folder: Path = BUILT) -> None:
        super().__init__(directory=folder, html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, with how long it may be kept."""
        answer = await super().get_response(path, scope)
        is_named_by_content = path.startswith("assets/")
        answer.headers["Cache-Control"] = "public, max-age=31536000, immutable" if is_named_by_content else "no-cache"
        return answer


class Console(Mount):
    """The pages, at every address but the API's: those tell themselves which methods they take, and what is none."""

    def __init__(self, folder: Path = BUILT) -> None:
        super().__init__("/", Pages(folder), name="console")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the request is for a page."""
        if path_in(scope).startswith("/api/"):
            return Match.NONE, {}
        return super().matches(scope)


async def login_page(_request: Request) -> Response:
    """Return the login page of browsers: the console, which reads the code after the address's ``#`` itself."""
    if not is_built():
        return HTMLResponse(_NOT_BUILT)
    return HTMLResponse((BUILT / "index.html").read_bytes(), headers={"Cache-Control": "no-store"})


async def not_built(_request: Request) -> Response:
    """Return the page for a browser where there is no console."""
    return HTMLResponse(_NOT_BUILT)
