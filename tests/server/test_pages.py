"""The console's files beside the API."""

from pathlib import Path

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from midcourse.server.console_files import Console


async def test_the_pages_answer_for_no_address_of_the_api(tmp_path: Path) -> None:
    """A method that an address does not take is 405 with those it takes; an address that is none is 404."""
    (tmp_path / "index.html").write_text("<title>console</title>", encoding="utf-8")

    async def sessions(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("sessions")

    app = Starlette(routes=[Route("/api/v1/sessions", sessions, methods=["POST"]), Console(tmp_path)])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as browser:
        refused = await browser.put("/api/v1/sessions")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert (await browser.post("/api/v1/nothing")).status_code == 404
        assert "console" in (await browser.get("/")).text
