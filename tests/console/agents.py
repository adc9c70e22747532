"""Agents that a browser test holds and lets go: nothing of them ends by time, each waits for its gate."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import midcourse
from tests.console.hostile import HOSTILE, LONG_WORD

_numbers = itertools.count(1)


def goal(words: str) -> str:
    """A goal that no other session has: a test finds its own in a list."""
    return f"{words} {next(_numbers)}"


class Gates:
    """What an agent waits for, by its session and a word. The agent's loop is in another thread."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._over = False

    def end(self) -> None:
        """Let everybody go: the server ends, and is not to wait for them."""
        self._over = True

    def begin(self) -> None:
        """The gates are shut again, for the next server."""
        self._over = False

    def open(self, session: str, what: str) -> None:
        """Let go whoever waits for that."""
        self._open.add(f"{session} {what}")

    def is_open(self, session: str, what: str) -> bool:
        """Whether it was."""
        return self._over or f"{session} {what}" in self._open

    async def passed(self, session: str, what: str) -> None:
        """Until it is; the test's own timeout is the guard."""
        while not self.is_open(session, what):
            await asyncio.sleep(0.02)


GATES = Gates()


async def _drop(arguments: object, result: object, key: str) -> None: ...


async def _free(name: str) -> None: ...


@midcourse.tool(effect="read")
async def fetch_customers(segment: str) -> dict[str, object]:
    """A read."""
    return {"accounts": 412, "segment": segment}


@midcourse.tool(effect="write", undo=_drop, local=True)
async def create_table(name: str) -> str:
    """Can be undone."""
    return f"{name}: 97 rows"


@midcourse.tool(effect="write", undo=_drop, local=True)
async def write_draft(path: str, order: str) -> str:
    """Can be undone, and torn."""
    await GATES.passed(order, "draft")
    return "written"


@midcourse.tool(effect="write")
async def send_report(to: str, order: str) -> str:
    """Cannot be torn."""
    await GATES.passed(order, "send")
    return "sent"


@midcourse.tool(effect="write", environment="prod")
async def delete_records(table: str, ids: list[int]) -> str:
    """In prod: a person is asked."""
    return f"{len(ids)} rows deleted from {table}"


async def speak(run: midcourse.Run) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model: what it was told last, then words until its gate is open."""
    session = str(run.session_id)
    told = run.messages[1:]
    yield f"Told: {told[-1].text}. " if told else "Scoring all 412 accounts. "
    for number in itertools.count(1):
        if GATES.is_open(session, "words"):
            break
        yield f"word {number} "
        await asyncio.sleep(0.2)
    yield midcourse.StreamEnd(cost=0.8, tokens=40)


async def say(text: str, cost: float | None = 0.0) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model that says one thing, for nothing; without a cost nobody knows its price."""
    yield text
    yield midcourse.StreamEnd(cost=cost, tokens=len(text))


@midcourse.agent(name="memo", version="1")
async def memo(run: midcourse.Run) -> str:
    """Reads, writes, speaks; words such as ``draft`` in its first goal say what it does before it speaks."""
    wanted = run.messages[0].text
    order = str(run.session_id)
    run.plan.set("Fetch customers", "Score churn risk", "Write the memo")
    run.plan.start("Fetch customers")
    await run.step("fetch_customers", fetch_customers, "all")
    run.plan.done("Fetch customers")
    run.plan.start("Score churn risk")
    await run.hold("snapshot", _free, "snapshot")
    await run.step("create_table", create_table, "scratch.scores")
    if "draft" in wanted:
        await run.step("write_draft", write_draft, "memo.md", order)
    if "send" in wanted:
        await run.step("send_report", send_report, "finance@example.com", order)
    if "costly" in wanted:
        await run.stream("think", lambda: say("This costs. ", 2.5))
    if "unpriced" in wanted:
        await run.stream("think", lambda: say("Nobody knows what this costs. ", None))
    await run.stream("score", lambda: speak(run))
    run.plan.done("Score churn risk")
    return "memo.md, 1,204 words"


async def write_lines(run: midcourse.Run) -> AsyncIterator[str]:
    """A model: 400 lines at once, then nothing until its gate is open."""
    yield "".join(f"line {number} of the page\n" for number in range(1, 401))
    await GATES.passed(str(run.session_id), "words")
    yield "line 401, the last"


@midcourse.agent(name="writer", version="1", goals=("Write about tides", "Write about <b>moons</b>"))
async def writer(run: midcourse.Run) -> str:
    """Writes a long page."""
    return await run.stream("write", lambda: write_lines(run))


async def count_as_it_comes(run: midcourse.Run, price: float) -> AsyncIterator[str | midcourse.StreamEnd]:
    """A model that tells what it has cost so far: ``price`` for each of three pieces, 100 tokens each."""
    for number in range(1, 4):
        midcourse.current_call().spend(price * number, 100 * number)
        yield f"piece {number} "
    await GATES.passed(str(run.session_id), "words")
    yield midcourse.StreamEnd(cost=5 * price, tokens=430)


@midcourse.agent(name="metered", version="1")
async def metered(run: midcourse.Run) -> str:
    """Writes, and counts; its goal may say that it is free."""
    price = 0.0 if "free" in run.messages[0].text else 0.01
    return await run.stream("count", lambda: count_as_it_comes(run, price))


@midcourse.agent(name="quick", version="1")
async def quick(run: midcourse.Run) -> str:
    """Done at once."""
    return f"done: {run.goal}"


@midcourse.agent(name="maker", version="1")
async def maker(run: midcourse.Run) -> str:
    """Makes something, and says nothing of what it is."""
    run.report(artifact="<b>notes</b>.md")
    return "made"


@midcourse.agent(name="cleaner", version="1")
async def cleaner(run: midcourse.Run) -> str:
    """Asks before it deletes in prod."""
    run.plan.set("Find", "Delete")
    run.plan.start("Delete")
    await run.stream("think", lambda: say("Nobody has written to these 38 contacts since 2020. "))
    return str(await run.step("delete_records", delete_records, "crm.contacts", list(range(38))))


@midcourse.agent(name="chooser", version="1")
async def chooser(run: midcourse.Run) -> str:
    """Asks with choices and a deadline, then in words."""
    which = await run.ask("Which first?", options=("login bug", "replace the ORM"), expires=600)
    return str(await run.ask(f"{which}: what is the branch called?"))


@midcourse.agent(name="hurried", version="1")
async def hurried(run: midcourse.Run) -> object:
    """Asks, and cannot wait as long as people may take."""
    return await run.ask("Now or never?", options=("now", "never"), expires=120)


@midcourse.agent(name="both", version="1")
async def both(run: midcourse.Run) -> str:
    """Asks two things at once."""
    return " ".join(map(str, await asyncio.gather(run.ask("This one?", key="1"), run.ask("That one?", key="2"))))


@midcourse.agent(name="breaks", version="1")
async def breaks(run: midcourse.Run) -> str:
    """Fails."""
    await run.step("create_table", create_table, "scratch.join")
    raise LookupError("table mrr has no column acct_id")


@midcourse.agent(name="parent", version="1")
async def parent(run: midcourse.Run) -> str:
    """Has a child that waits for a person."""
    return str(await run.spawn(chooser, run.goal, key="one"))


@midcourse.agent(name="family", version="1")
async def family(run: midcourse.Run) -> str:
    """Has a child that cannot be torn, one that can, and one that is soon done."""
    goals = {"sender": "send", "speaker": "speak"}
    waits = [run.spawn(memo, words, key=key) for key, words in goals.items()]
    return " ".join(map(str, await asyncio.gather(*waits, run.spawn(quick, "soon", key="soon"))))


@midcourse.tool(effect="read", name=HOSTILE.replace("\n", " ")[:120])
async def look_at(name: str, more: dict[str, str]) -> dict[str, object]:
    """Its name, arguments and result are hostile."""
    return {HOSTILE: HOSTILE, "files": ["../../etc/passwd", "<svg onload=steal()>.txt"], "word": LONG_WORD}


@midcourse.agent(name='<img src=x onerror="steal()">', version="1")
async def hostile(run: midcourse.Run) -> str:
    """Markup, addresses and control characters everywhere: text is text."""
    run.plan.set(HOSTILE, LONG_WORD)
    run.plan.start(HOSTILE)
    run.report(hypothesis=HOSTILE, artifact="<iframe src=https://evil.example></iframe>.pdf", message=HOSTILE)
    await run.step("look", look_at, HOSTILE, {"<b>file</b>": HOSTILE})
    await run.stream("say", lambda: say(f"{HOSTILE}\n{LONG_WORD}\n{HOSTILE}"))
    return str(await run.ask(HOSTILE + LONG_WORD[:2000], options=(HOSTILE[:60].strip(), "no")))


class Ahead:
    """Seconds that a server's clock is ahead, where a test lets it be: what pretends to take long puts it forward."""

    seconds = 0.0


WATCHED = midcourse.Terms(task_class="long", policy="standard")


@midcourse.tool(effect="read")
async def search(text: str) -> str:
    """Takes half a minute, and finds nothing."""
    Ahead.seconds += 30
    await asyncio.sleep(0.05)
    return f"nothing about {text}"


@midcourse.tool(effect="read")
async def read_page(number: int) -> str:
    """Fails."""
    await asyncio.sleep(0.05)
    raise ValueError(f"page {number} is empty")


@midcourse.tool(effect="read")
async def wait(number: int) -> int:
    """A pause need not wait long for it."""
    await asyncio.sleep(0.1)
    return number


async def _until_its_end(run: midcourse.Run) -> None:
    for number in itertools.count():
        if GATES.is_open(str(run.session_id), "end"):
            return
        await run.step("wait", wait, number)


@midcourse.agent(name="searcher", version="1", terms=WATCHED)
async def searcher(run: midcourse.Run) -> str:
    """Goes round, so that its policy warns, asks for its plan and pauses it."""
    await run.step("create_table", create_table, "scratch.found")
    for _ in range(9):
        await run.step("search", search, "the login bug")
    await _until_its_end(run)
    told = [message.text for message in run.messages[1:] if message.level == "step"]
    return f"told: {told[-1]}" if told else "found nothing"


@midcourse.agent(name="stumbler", version="1", terms=WATCHED)
async def stumbler(run: midcourse.Run) -> str:
    """Fails five times in a row, so that its policy stops it."""
    for number in range(5):
        with contextlib.suppress(midcourse.StepError):
            await run.step("read_page", read_page, number)
    await _until_its_end(run)
    return "read nothing"


AGENTS = (
    memo,
    writer,
    metered,
    quick,
    cleaner,
    chooser,
    hurried,
    both,
    breaks,
    parent,
    family,
    hostile,
    searcher,
    stumbler,
    maker,
)
