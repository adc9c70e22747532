"""A store with a session in each state a person may find one in."""

import asyncio
from pathlib import Path

import midcourse
from tests.promises.harness import until, until_asks

UMLAUT = "Die Rechnungen für März löschen? 🗑"
EVIL = "mail \x1b[31mred\x1b[0m \u202egnp.exe [bold]not markup[/bold]\nsecond line"


@midcourse.tool(effect="read")
async def tick(number: int) -> int:
    await asyncio.sleep(0.005)
    return number


async def remove(args: object, result: object, key: str) -> None:
    """Undo of put."""


@midcourse.tool(effect="write", undo=remove)
async def put(name: str) -> str:
    return f"put {name}"


@midcourse.tool(effect="write")
async def send_mail(to: str) -> str:
    return f"sent to {to}"


@midcourse.tool(effect="write")
async def slow_mail(to: str) -> str:
    await asyncio.sleep(3600)
    return f"sent to {to}"


@midcourse.agent(name="told-ticker")
async def ticker(run: midcourse.Run) -> dict[str, int]:
    run.plan.set("count", "report")
    run.plan.start("count")
    for number in range(100_000):
        await run.step("tick", tick, number)
    return {"ticks": 100_000}


@midcourse.agent(name="told-asker")
async def asker(run: midcourse.Run) -> object:
    return await run.ask(run.goal, options=("yes", "no"))


@midcourse.agent(name="told-asker-of-two")
async def asker_of_two(run: midcourse.Run) -> object:
    return await asyncio.gather(run.ask("The first?", key="1"), run.ask("The second?", key="2"))


@midcourse.agent(name="told-writer")
async def writer(run: midcourse.Run) -> None:
    await run.step("put", put, "a")
    await run.step("send_mail", send_mail, "ada@example.org")
    await run.ask("Go on?")


@midcourse.agent(name="told-slow-mailer")
async def slow_mailer(run: midcourse.Run) -> None:
    await run.step("slow_mail", slow_mail, "ada@example.org")


@midcourse.agent(name="told-doer")
async def doer(run: midcourse.Run) -> dict[str, object]:
    return {"goal": run.goal, "rows": [1, None]}


@midcourse.agent(name="told-failer")
async def failer(run: midcourse.Run) -> None:
    raise ValueError("no such file: täglich.csv")


async def tell(store: Path) -> None:
    """Make the store."""
    async with midcourse.open(f"sqlite:///{store}", durability="process") as mc:
        paused = await mc.start(ticker, "count", session_id="sess_paused")
        await until(paused, "step.begun")
        await paused.pause("let me read", until="stopped", by="ada")
        for name, agent, goal in (
            ("sess_waiting", asker, UMLAUT),
            ("sess_two", asker_of_two, "two things"),
            ("sess_written", writer, EVIL),
        ):
            session = await mc.start(agent, goal, session_id=name)
            await session.next_ask(timeout=10)
        two = await mc.get("sess_two")
        await until_asks(two, 2)
        cancelled = await mc.start(writer, "to be cancelled", session_id="sess_cancelled")
        await cancelled.next_ask(timeout=10)
        await cancelled.cancel("wrong customer", until="stopped")
        done = await mc.start(doer, "do it", session_id="sess_done")
        await done.result(timeout=10)
        failed = await mc.start(failer, "fail", session_id="sess_failed")
        async for _ in failed.watch():
            pass
