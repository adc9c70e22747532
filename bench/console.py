"""In a browser: how long from a click to "paused" on screen, how big is the console, when is it there, does it stutter?

A real Chromium without a screen, before a server in another process. The page watched shows a model that says 200
tokens a second. "On screen" is the frame in which the lamp says it.
"""

import asyncio
import gzip
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

import midcourse
from bench import web
from bench.harness import Result, ask, folder, median, p99, store_in
from midcourse.server.console_files import BUILT, is_built
from tests.browser.chromium import FLAGS, program

QUESTION: Final = "the console in a browser"
SESSION: Final = "sess_console"
TOKENS_A_SECOND: Final = 200
CLICKS: Final = 30
LOADS: Final = 10
SECONDS: Final = 8
"""How long frames are counted."""
LARGEST: Final = 120.0
"""kB, gzipped."""


# ---- what is watched


async def _tokens() -> AsyncIterator[str]:
    begun = time.perf_counter()
    for number in range(100_000):
        await asyncio.sleep(max(0.0, begun + number / TOKENS_A_SECOND - time.perf_counter()))
        yield f"word{number % 97} "


@midcourse.agent(name="bench-console-talker")
async def talker(run: midcourse.Run) -> str:
    """A model that does not stop by itself."""
    return await run.stream("say", _tokens)


async def serve(store: str) -> None:
    """The child: the server with its console, and one session."""

    async def prepare(mc: midcourse.Midcourse) -> None:
        await mc.start(talker, "Talk", session_id=SESSION)

    await web.serve(store, prepare)


# ---- the browser

_ARM: Final = """([button, lamp]) => {
    window.took = null;
    let pressed = null;
    const press = (event) => { pressed = event.timeStamp; };
    document.querySelector(button).addEventListener("pointerdown", press, { once: true, capture: true });
    const look = (now) => {
        if (pressed !== null && document.querySelector(lamp)) window.took = performance.now() - pressed;
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
_FRAMES: Final = """(seconds) => new Promise((done) => {
    const deltas = [];
    let before = null, begun = null;
    const count = (now) => {
        begun ??= now;
        if (before !== null) deltas.push(now - before);
        before = now;
        if (now - begun < seconds * 1000) requestAnimationFrame(count); else done(deltas);
    };
    requestAnimationFrame(count);
})"""
_PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@asynccontextmanager
async def browsing() -> AsyncGenerator[Browser]:
    """A browser while the block lasts."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program(), args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


async def known(page: Page, expression: str) -> float:
    """The number, once there is one. The page's policy refuses what evaluates strings inside of it."""
    while (found := await page.evaluate(expression)) is None:
        await asyncio.sleep(0.02)
    return float(found)


async def pressed(page: Page, button: str, lamp: str) -> float:
    """Press the button, and tell the milliseconds until the frame in which the lamp is there."""
    await page.evaluate(_ARM, [button, lamp])
    await page.locator(button).first.click()
    return await known(page, "window.took")


async def clicks(page: Page, connection: web.Connection) -> list[float]:
    """Pause by the handle, resume by the API, again and again."""
    took: list[float] = []
    for _ in range(CLICKS):
        await page.locator('.bar .lamp[data-status="running"]').wait_for()
        # A slot whose meaning has just changed takes no press for half a second.
        await page.wait_for_timeout(650)
        took.append(await pressed(page, ".slots .slot", '.bar .lamp[data-status="paused"]'))
        reply = await connection.ask("POST", f"/api/v1/sessions/{SESSION}/resume", {})
        assert reply.get("status") == "running", reply
    return took


async def bare_clicks(page: Page, connection: web.Connection) -> list[float]:
    """The same at a page that has a button and nothing else, and a server that commits a row and cancels a task."""
    await page.evaluate("""() => {
        document.body.innerHTML = "<button>Pause</button><p></p>";
        document.querySelector("button").onpointerdown = async () => {
            document.querySelector("p").className = "";
            await (await fetch("/stop", { method: "POST", body: "{}" })).json();
            document.querySelector("p").className = "paused";
        };
    }""")
    took: list[float] = []
    for _ in range(CLICKS):
        await connection.ask("POST", "/begin", {})
        await page.evaluate("document.querySelector('p').className = ''")
        await page.wait_for_timeout(50)
        took.append(await pressed(page, "button", "p.paused"))
    return took


async def loads(browser: Browser, url: str, token: str = "") -> list[float]:
    """Milliseconds to the first paint of something, each time in a browser that has nothing of it."""
    took: list[float] = []
    for _ in range(LOADS):
        context = await browser.new_context()
        if token:
            # Lets this browser in, and shows nothing.
            await log_in(context, url, token)
        page = await context.new_page()
        await page.goto(f"{url}/" if token else url)
        took.append(await known(page, _PAINTED))
        await context.close()
    return took


async def log_in(context: BrowserContext, url: str, token: str) -> None:
    """Let this browser in, without a page: the cookie comes with the answer, the page key is put where pages look."""
    answer = await context.request.post(f"{url}/api/v1/login", data={"credential": token})
    key = (await answer.json())["page_key"]
    await context.add_init_script(f"localStorage.setItem('midcourse.page:/api/v1', '{key}')")


async def frames(page: Page) -> list[float]:
    """The times between frames."""
    return [float(one) for one in await page.evaluate(_FRAMES, SECONDS)]


# ---- the answers


async def seen() -> list[Result]:
    """What a person sees, beside the least that a browser needs for it."""
    assert is_built(), "the console is not built: run make console"
    with folder() as path:
        async with browsing() as browser:
            async with web.child("web:bare_server", path, 1) as port:
                bare = await browser.new_page()
                await bare.goto(f"http://127.0.0.1:{port}/look")
                bare_frames = await frames(bare)
                async with web.connected(port) as connection:
                    bare_took = await bare_clicks(bare, connection)
                bare_loads = await loads(browser, f"http://127.0.0.1:{port}/look")
            async with web.child("console:serve", store_in(path)) as port:
                url = f"http://127.0.0.1:{port}"
                page_loads = await loads(browser, url, web.TOKEN)
                page = await browser.new_page()
                await log_in(page.context, url, web.TOKEN)
                await page.goto(f"{url}/?run={SESSION}")
                await page.locator('.bar .lamp[data-status="running"]').wait_for()
                page_frames = await frames(page)
                async with web.connected(port) as connection:
                    took = await clicks(page, connection)
    return [
        _result('click → "paused" on screen, p99', took, bare_took, "a page with one button at a bare Starlette"),
        _result("first paint, p99", page_loads, bare_loads, "a page of one line from a bare Starlette"),
        _result(
            f"{TOKENS_A_SECOND} tokens a second: time between frames, p99",
            page_frames,
            bare_frames,
            "a page on which nothing happens",
        ),
    ]


def _result(case: str, ours: list[float], floor: list[float], floor_is: str) -> Result:
    return Result(QUESTION, case, p99(ours), "ms", len(ours), median=median(ours), floor=p99(floor), floor_is=floor_is)


def zipped(*files: Path) -> float:
    """kB of these files as they travel."""
    return sum(len(gzip.compress(one.read_bytes(), 9)) for one in files) / 1000


def sizes() -> list[Result]:
    """What a browser has to load."""
    index = BUILT / "index.html"
    needed = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', index.read_text(encoding="utf-8"))
    console = zipped(index, *(BUILT / one for one in needed))
    element = zipped(BUILT / "midcourse-handle.js")
    return [
        Result(QUESTION, "the console, gzipped", console, "kB", 1, must=LARGEST),
        Result(QUESTION, "`<midcourse-handle>` alone, gzipped", element, "kB", 1, must=LARGEST),
    ]


def answers() -> list[Result]:
    """The table's lines."""
    return [*ask(seen), *sizes()]
