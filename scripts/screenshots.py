"""``make screenshots``: the pictures of README and docs, and one of every page and state, from a real server.

What README and docs show goes to docs/images/, with as few colours as will do; everything else, in light and dark and
at three widths, to build/screenshots/. The fonts are this machine's: with Inter and Noto Sans CJK the pictures look as
they do in the repository.
"""

import argparse
import base64
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
from playwright.sync_api import Browser, Page

from scripts.outages import take_all
from tests.browser.chromium import browsing
from tests.browser.pages import static_files
from tests.examples.demo_server import Served, served

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "images"
REST: Final = ROOT / "build" / "screenshots"
WIDE: Final = (1376, 860)
TALL: Final = (1376, 1076)
PHONE: Final = (390, 844)
PACE: Final = "0.05"
MEMO: Final = (
    "Write a one-page churn memo for the quarterly review: who is likely to leave, why, and what it would cost"
)
FONTS: Final = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<alias binding="strong"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>sans</family><prefer><family>Inter</family></prefer></alias>
</fontconfig>"""


class Desk:
    """A browser before a server, and the sessions it shows."""

    def __init__(self, page: Page, server: Served) -> None:
        self.page = page
        self.server = server
        page.goto(self.call("POST", "/login/codes")["link"])
        page.get_by_role("heading", name="Fleet").wait_for()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One request to the API."""
        headers = {"Authorization": f"Bearer {self.server.token}"}
        answer = httpx2.request(method, f"{self.server.url}/api/v1{path}", json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def start(self, agent: str, goal: str, **more: object) -> str:
        """Start a session; its id."""
        return str(self.call("POST", "/sessions", {"agent": agent, "goal": goal, **more})["id"])

    def until(self, session: str, *statuses: str) -> None:
        """Wait for a status."""
        deadline = time.monotonic() + 60
        while self.call("GET", f"/sessions/{session}")["status"] not in statuses:
            assert time.monotonic() < deadline, f"{session} did not become {statuses}"
            time.sleep(0.1)

    def watch(self, session: str) -> None:
        """Open a session's page."""
        self.page.goto(f"{self.server.url}/?run={session}")
        self.page.get_by_role("region", name="Interrupt handle").wait_for()

    def press(self, name: str) -> None:
        """Press a slot of the handle, once its guard is over."""
        self.page.wait_for_timeout(600)
        self.page.get_by_role("group", name="Controls").get_by_role("button", name=name).click()

    def lamp(self, word: str) -> None:
        """Wait until the lamp says so."""
        self.page.locator(".bar .lamp", has_text=word).wait_for()

    def text(self, words: str) -> None:
        """Wait until the agent has said so."""
        self.page.get_by_text(words).first.wait_for()

    def redirect(self, words: str, level: str) -> None:
        """Fill the composer."""
        self.press("Redirect")
        self.page.get_by_label("What should it do instead?").fill(words)
        self.page.get_by_role("radio", name=level).check()


Scene = Callable[[Desk], object]


@dataclass(frozen=True)
class Picture:
    """A picture of the docs: what must have happened, at which size, in which colours."""

    scene: Scene
    size: tuple[int, int] = WIDE
    theme: str = "light"
    options: tuple[str, ...] = ("--demo",)
    """How its server is started."""


def running(desk: Desk) -> None:
    """The memo, while it tells what it has found."""
    desk.watch(desk.start("churn-memo", MEMO, budget=5))
    desk.text("Kestrel Labs")


def paused(desk: Desk) -> None:
    """Paused in the middle, with a change that waits for the resume."""
    running(desk)
    desk.press("Pause")
    desk.lamp("paused")
    desk.redirect("only customers over $10k", "Step")
    desk.page.keyboard.press("Enter")
    desk.page.locator(".diff").wait_for()


def redirect(desk: Desk) -> None:
    """The composer, over a memo that is being written."""
    running(desk)
    desk.redirect("only customers over $10k", "Step")


def redirected(desk: Desk) -> None:
    """What it makes of it: text cut, and the new course."""
    redirect(desk)
    desk.page.keyboard.press("Enter")
    desk.text("I join them against the MRR table, only")
    desk.page.wait_for_timeout(1500)


def _second_turn(desk: Desk) -> None:
    session = desk.start("churn-memo", MEMO, budget=5)
    desk.until(session, "completed")
    desk.call("POST", f"/sessions/{session}/message", {"text": "Write it again, keep it short"})
    desk.watch(session)
    desk.text("Understood")


def preview(desk: Desk) -> None:
    """What each way to cancel would undo: a memo is written, and a shorter one on its way."""
    _second_turn(desk)
    desk.press("Cancel")
    desk.page.locator(".choices tbody tr").first.wait_for()
    desk.page.get_by_role("radio", name="Undo everything").check()


def receipt(desk: Desk) -> None:
    """What became of each effect."""
    preview(desk)
    desk.press("Cancel run")
    desk.lamp("cancelled")
    desk.page.locator(".receipt li").first.wait_for()


def ask(desk: Desk) -> None:
    """Records that are not deleted before somebody says so."""
    desk.watch(desk.start("records-cleaner", "Clean the contacts, only duplicates"))
    desk.lamp("waiting")
    desk.page.wait_for_timeout(400)


def inbox(desk: Desk) -> None:
    """What several sessions ask, one of them open."""
    for goal in ("Clean the contacts, only duplicates", "Clean the contacts by the retention rule"):
        desk.start("records-cleaner", goal)
    desk.page.goto(f"{desk.server.url}/?inbox")
    desk.page.locator(".detail[data-ready]").wait_for()
    desk.page.locator(".queue .item").nth(1).wait_for()
    desk.page.wait_for_timeout(400)


def pausing(desk: Desk) -> None:
    """A pause that waits for a call, and names it."""
    desk.watch(desk.start("memo", f"{MEMO}, and send it", budget=10))
    desk.page.locator(".call code", has_text="send").wait_for()
    desk.press("Pause")
    desk.lamp("pausing")
    desk.page.wait_for_timeout(1500)


def inspecting(desk: Desk) -> None:
    """A run as it was at an event of its journal."""
    running(desk)
    desk.press("Pause")
    desk.lamp("paused")
    desk.page.goto(f"{desk.page.url}&at=24")
    desk.page.get_by_text("Event 24 of").wait_for()


def fleet(desk: Desk) -> None:
    """Several sessions, one of which needs somebody."""
    for agent, goal, status in (
        ("order-desk", "Order 3 bolts for acme", "completed"),
        ("records-cleaner", "清理联系人 只删除重复的记录", "waiting"),
    ):
        desk.until(desk.start(agent, goal), status)
    desk.start("researcher", "Report on the night bus in 4 sections, focus on money")
    desk.start("churn-memo", MEMO, budget=5)
    desk.page.goto(f"{desk.server.url}/")
    desk.page.get_by_role("link", name="Write a one-page").first.wait_for()
    desk.page.wait_for_timeout(600)


def new_run(desk: Desk) -> None:
    """Any agent, with a goal, a class and a cap."""
    desk.page.goto(f"{desk.server.url}/?new&agent=churn-memo")
    desk.page.get_by_label("Goal").fill(MEMO)


def empty(desk: Desk) -> None:
    """The first thing that `make demo` shows."""
    desk.page.goto(f"{desk.server.url}/")
    desk.page.get_by_role("heading", name="Guided path").wait_for()


def embedded(desk: Desk) -> None:
    """examples/handle: the handle in a page of another origin."""
    page = desk.page
    page.goto(f"{ORIGINS[0]}/index.html")
    page.get_by_label("Server").fill(desk.server.url)
    page.get_by_label("Token").fill(desk.server.token)
    page.get_by_role("button", name="Start churn-memo").click()
    page.get_by_role("region", name="Interrupt handle").wait_for()
    page.wait_for_timeout(1500)
    desk.press("Pause")
    desk.lamp("paused")


ORIGINS: Final[list[str]] = []
PICTURES: Final = {
    "guided-path": Picture(empty),
    "paused": Picture(paused, TALL),
    "paused-dark": Picture(paused, TALL, "dark"),
    "redirect": Picture(redirect),
    "redirected": Picture(redirected),
    "pausing": Picture(pausing, options=("--agents", str(ROOT / "console" / "fixtures" / "agents.py"))),
    "cancel-preview": Picture(preview),
    "receipt": Picture(receipt),
    "ask": Picture(ask),
    "inbox": Picture(inbox),
    "inspecting": Picture(inspecting),
    "new-run": Picture(new_run),
    "fleet": Picture(fleet),
    "phone-paused": Picture(paused, PHONE),
    "phone-cancel": Picture(preview, PHONE, "dark"),
    "embedded": Picture(embedded),
}


def take(browser: Browser, server: Served, name: str, to: Path) -> None:
    """One picture, in a browser that knows nothing of the others."""
    picture = PICTURES[name]
    width, height = picture.size
    context = browser.new_context(color_scheme="light", viewport={"width": width, "height": height})
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.emulate_media(color_scheme=picture.theme)  # type: ignore[arg-type]
    try:
        picture.scene(Desk(page, server))
        page.wait_for_timeout(500)
        page.mouse.move(0, 0)
        shot = page.screenshot()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name}: {wide} px of content in {width} px"
        to.write_bytes(few_colours(context.new_page(), shot))
    finally:
        context.close()


def few_colours(page: Page, shot: bytes) -> bytes:
    """The picture with the 256 colours that matter most in it. A browser knows how to read it."""
    width, height, palette, pixels = page.evaluate(
        """async (shot) => {
            const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${shot}`)).blob());
            const canvas = new OffscreenCanvas(image.width, image.height);
            const context = canvas.getContext("2d");
            context.drawImage(image, 0, 0);
            const seen = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
            const counts = new Map();
            for (const colour of seen) counts.set(colour, (counts.get(colour) ?? 0) + 1);
            const parts = (colour) => [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
            // A small mark in a strong colour means more than many pixels of another grey.
            const strength = (colour) => 1 + ((Math.max(...parts(colour)) - Math.min(...parts(colour))) / 8) ** 2;
            const weighed = [...counts].map(([colour, count]) => [colour, count * strength(colour)]);
            const palette = weighed.sort((a, b) => b[1] - a[1]).slice(0, 256).map(([colour]) => colour);
            const known = palette.map(parts);
            const nearest = new Map(palette.map((colour, index) => [colour, index]));
            for (const colour of counts.keys()) {
                if (nearest.has(colour)) continue;
                const [r, g, b] = parts(colour);
                let best = 0, least = Infinity;
                known.forEach(([x, y, z], index) => {
                    const far = (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
                    if (far < least) { least = far; best = index; }
                });
                nearest.set(colour, best);
            }
            const bytes = Uint8Array.from(seen, (colour) => nearest.get(colour));
            let text = "";
            const piece = (at) => String.fromCharCode(...bytes.subarray(at, at + 32768));
            for (let at = 0; at < bytes.length; at += 32768) text += piece(at);
            return [image.width, image.height, known.flat(), btoa(text)];
        }""",
        base64.b64encode(shot).decode(),
    )
    rows = base64.b64decode(pixels)
    lines = b"".join(b"\0" + rows[row * width : (row + 1) * width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"PLTE", bytes(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks))


def _chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, content = chunk
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def main() -> None:
    """Take them."""
    options = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    options.add_argument("--docs", action="store_true", help="only those of README and docs")
    options.add_argument("--to", type=Path, default=IMAGES, help="where those go")
    options.add_argument("names", nargs="*", help=f"some of those: {', '.join(PICTURES)}")
    given = options.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="midcourse-screenshots-") as place:
        fonts = Path(place) / "fonts.conf"
        fonts.write_text(FONTS, encoding="utf-8")
        os.environ["FONTCONFIG_FILE"] = str(fonts)
        with static_files(ROOT / "examples" / "handle") as origin, browsing() as browser:
            ORIGINS[:] = [origin]
            for name in given.names or PICTURES:
                # A server of its own: no picture shows the sessions of another.
                folder = Path(place) / name
                folder.mkdir()
                options = PICTURES[name].options
                with served(folder, *options, "--allow-origin", origin, MIDCOURSE_SAMPLE_PACE=PACE) as server:
                    take(browser, server, name, given.to / f"{name}.png")
                print(f"{name}.png: {(given.to / f'{name}.png').stat().st_size / 1000:.0f} kB", flush=True)
        if given.docs or given.names:
            return
        folder = Path(place) / "every-state"
        folder.mkdir()
        with served(folder, "--agents", str(ROOT / "console" / "fixtures" / "agents.py")) as server:
            shots = [sys.executable, ROOT / "console" / "shots" / "shots.py", "--out", REST]
            subprocess.run([*shots, "--url", server.url, "--token", server.token], check=True)
        with browsing() as browser:
            take_all(browser, REST)


if __name__ == "__main__":
    main()
