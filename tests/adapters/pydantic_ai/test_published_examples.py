"""Eight examples as Pydantic AI publishes them, in our words, with a script for the model: held, and interrupted."""

import asyncio
import datetime
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fastmcp.client.transports import StdioTransport
from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolDenied,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.usage import UsageLimits

import midcourse
from midcourse.adapters.pydantic_ai import wrap
from midcourse.adapters.pydantic_ai.scripted import scripted
from midcourse.core.events import ReportMade
from midcourse.models.script import Call, Conversation, Script, Text, replies
from tests.adapters.pydantic_ai.desk import PATIENCE, Desk, effects
from tests.promises.harness import Place, history, resumable, until, until_asks

THINKS = Text("Let me think about it for a while " * 50, every=0.02)


async def open_asks(session: midcourse.SessionHandle[Any], count: int = 1) -> dict[str, str]:
    """What a session asks, by its prompt, once it asks that much."""
    return {ask.prompt: ask.id for ask in await until_asks(session, count)}


def asked_about(asks: dict[str, str], words: str) -> str:
    """The id of the one ask that is about this."""
    (found,) = (ask for prompt, ask in asks.items() if words in prompt)
    return found


# ---- bank support: dependencies with a database, dynamic instructions, a typed answer


@dataclass
class Bank:
    """What the tools of the bank's agent need."""

    customer: int
    rows: sqlite3.Connection

    def of_customer(self, column: str) -> Any:
        found = self.rows.execute(f"SELECT {column} FROM customers WHERE id = ?", (self.customer,)).fetchone()
        return found[0]


class Advice(BaseModel):
    """What the bank's agent answers."""

    advice: str
    block_card: bool
    risk: int = Field(ge=0, le=10)


async def test_bank_support(place: Place, tmp_path: Path) -> None:
    """Paused in its answer, it continues in another process with a new connection; a later turn knows the first."""
    with sqlite3.connect(tmp_path / "bank.db") as rows:
        rows.execute("CREATE TABLE customers (id, name, balance)")
        rows.execute("INSERT INTO customers VALUES (123, 'Ada', 123.45)")
    rows.close()
    connections: list[sqlite3.Connection] = []
    thinking = [THINKS]

    def script(heard: Conversation, /) -> Any:
        if "lost my card" in heard.user:
            return [Call("final_result", {"advice": "We block it.", "block_card": True, "risk": 8})]
        if not heard.calls:
            return [Call("balance", {"pending": True})]
        said = {"advice": f"You have {heard.results('balance')[0]}.", "block_card": False, "risk": 1}
        return [*thinking, Call("final_result", said)]

    desk = Desk(script, deps_type=Bank, output_type=Advice)

    @desk.agent.instructions
    async def name(ctx: RunContext[Bank]) -> str:
        return f"The customer's name is {ctx.deps.of_customer('name')}."

    @desk.agent.tool
    @midcourse.tool(effect="read")
    async def balance(ctx: RunContext[Bank], pending: bool) -> str:
        """The balance of the customer's account."""
        desk.done.append(pending)
        return f"${ctx.deps.of_customer('balance'):.2f}"

    def deps(run: midcourse.Run) -> Bank:
        connections.append(sqlite3.connect(tmp_path / "bank.db"))
        return Bank(123, connections[-1])

    agent = desk.held(deps=deps)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "What is my balance?")
        await until(session, "segment.written")
        await session.pause(until="stopped")
    thinking.clear()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == {"advice": "You have $123.45.", "block_card": False, "risk": 1}
        await session.redirect("I have lost my card!")
        assert (await session.result(PATIENCE))["block_card"]
        reports = [one.event for one in await history(session) if isinstance(one.event, ReportMade)]
    assert desk.done == [True]
    assert {heard.system for heard in desk.heard} == {"The customer's name is Ada."}
    assert [said.text for said in desk.heard[-1] if said.role == "user"] == [
        "What is my balance?",
        "I have lost my card!",
    ]
    assert len(connections) == 3
    assert reports == [], "a connection that was made again is no change of the run's"
    for connection in connections:
        connection.close()


# ---- flight booking: an agent that uses another, a validator, people between two agents


class Flight(BaseModel):
    """A flight."""

    number: str
    price: int
    origin: str
    destination: str
    date: datetime.date


class NoFlight(BaseModel):
    """There is none."""


class Seat(BaseModel):
    """A seat."""

    row: int = Field(ge=1, le=30)
    seat: Literal["A", "B", "C", "D", "E", "F"]


@dataclass
class Wish:
    """What the passenger wants."""

    page: str
    origin: str
    destination: str


def flight(number: str, destination: str, price: int) -> dict[str, object]:
    """A flight as a model writes it."""
    day = {"origin": "SFO", "destination": destination, "date": "2025-01-10"}
    return {"number": number, "price": price, **day}


async def test_flight_booking(place: Place) -> None:
    """A wrong flight goes back to the model, a person decides in another process, and the ticket is bought once."""
    page = [flight("AK1", "ANC", 350), flight("AK2", "FAI", 100)]
    asked_inside: list[str] = []
    bought: list[str] = []

    def extracting(heard: Conversation, /) -> Any:
        asked_inside.append(heard.user)
        return [Call("final_result", {"response": page})]

    extractor = Agent(scripted(extracting), output_type=list[Flight])

    def searching(heard: Conversation, /) -> Any:
        if not heard.calls:
            return [Call("extract_flights")]
        wrong = "Not to FAI" not in str([said.text for said in heard])
        return [Call("final_result_Flight", page[1] if wrong else page[0])]

    desk = Desk(searching, deps_type=Wish, output_type=Flight | NoFlight, retries=4)

    @desk.agent.tool
    @midcourse.tool(effect="read")
    async def extract_flights(ctx: RunContext[Wish]) -> list[Flight]:
        """Get details of all flights."""
        return (await extractor.run(ctx.deps.page, usage=ctx.usage)).output

    @desk.agent.output_validator
    def check(ctx: RunContext[Wish], output: Flight | NoFlight) -> Flight | NoFlight:
        if isinstance(output, Flight) and output.destination != ctx.deps.destination:
            raise ModelRetry(f"Not to {output.destination}, to {ctx.deps.destination}.")
        return output

    def deps(run: midcourse.Run) -> Wish:
        return Wish("1. AK1 … 2. AK2 …", "SFO", "ANC")

    search = desk.held(deps=deps, usage_limits=UsageLimits(request_limit=15))
    seats = Desk(replies(Call("final_result", {"row": 1, "seat": "A"})), output_type=Seat).held()

    @midcourse.tool(effect="write")
    async def buy(number: str, seat: str) -> str:
        bought.append(f"{number} {seat}")
        return f"{number} {seat}"

    async def booking(run: midcourse.Run) -> str:
        found: dict[str, Any] = await run.spawn(search, "Find me a flight to Anchorage")
        if await run.ask(f"Buy {found['number']} for ${found['price']}?", options=("buy", "no")) != "buy":
            return "Not bought."
        wanted = await run.ask("Which seat would you like?")
        seat: dict[str, Any] = await run.spawn(seats, str(wanted))
        return await run.step("buy", buy, str(found["number"]), f"{seat['row']}{seat['seat']}")

    office = resumable(booking)
    agents = (office, search, seats)
    async with place.open(*agents) as mc:
        session = await mc.start(office, "Go to Anchorage.")
        assert list(await open_asks(session)) == ["Buy AK1 for $350?"]
    async with place.open(*agents) as mc:
        session = await mc.get(session.id)
        await session.answer("buy")
        assert list(await open_asks(session)) == ["Which seat would you like?"]
        await session.answer("by the window, in front")
        assert await session.result(PATIENCE) == "AK1 1A"
    assert bought == ["AK1 1A"]
    assert asked_inside == ["1. AK1 … 2. AK2 …"], "the answer of the agent inside is the result of a call"
    assert len(desk.heard) == 3


# ---- deferred tools: approvals, results from elsewhere, and a handler of one's own


def file_tools(desk: Desk) -> None:
    """Deletions need approval, and so do updates of a protected file; a calculation is done elsewhere."""

    @desk.agent.tool
    @midcourse.tool(effect="idempotent")
    def update_file(ctx: RunContext[Any], path: str, content: str) -> str:
        """Update a file."""
        if path == ".env" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "protected"})
        desk.done.append(f"update {path}")
        return f"{path} is updated: {content!r}"

    @desk.agent.tool_plain(requires_approval=True)
    @midcourse.tool(effect="idempotent")
    def delete_file(path: str) -> str:
        """Delete a file."""
        desk.done.append(f"delete {path}")
        return f"{path} is deleted"

    @desk.agent.tool_plain
    async def calculate(question: str) -> str:
        """Have it calculated elsewhere."""
        raise CallDeferred(metadata={"task": "t1"})


WISHES = [
    Call("delete_file", {"path": "__init__.py"}),
    Call("update_file", {"path": "README.md", "content": "Hello"}),
    Call("update_file", {"path": ".env", "content": ""}),
    Call("calculate", {"question": "the answer"}),
]


async def test_deferred_tools(place: Place) -> None:
    """People answer in another process than the one that asked; a refusal goes to the model."""
    desk = Desk(replies(WISHES, Text("Done.")), output_type=[str, DeferredToolRequests])
    file_tools(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Tidy up.")
        await open_asks(session)
        await session.pause(until="stopped")
    assert desk.done == ["update README.md"]
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        asks = await open_asks(session)
        while "calculate" not in str(asks):  # results from elsewhere are asked for first, one by one
            asks = await open_asks(session)
        await session.answer(42, ask=asked_about(asks, "calculate"))
        asks = await open_asks(session, 2)
        assert "protected" in str(asks)
        await session.answer("No: keep it.", ask=asked_about(asks, "delete_file"))
        await session.answer("yes", ask=asked_about(asks, ".env"))
        assert await session.result(PATIENCE) == "Done."
    assert sorted(desk.done) == ["update .env", "update README.md"]
    told = "\n".join(desk.results)
    assert "No: keep it." in told
    assert ".env is updated: ''" in told
    assert "42" in told


async def test_deferred_tools_that_a_handler_of_the_agent_decides_are_not_asked_about(place: Place) -> None:
    async def decide(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        denied = {call.tool_call_id: ToolDenied("Never.") for call in requests.approvals if "del" in call.tool_name}
        calls = {call.tool_call_id: "42" for call in requests.calls}
        return requests.build_results(approvals=denied, calls=calls, approve_all=True)

    desk = Desk(replies(WISHES, Text("Done.")), capabilities=[HandleDeferredToolCalls(handler=decide)])
    file_tools(desk)
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Tidy up.")
        assert await session.result(PATIENCE) == "Done."
        assert "ask.opened" not in [one.type for one in await history(session)]
    assert desk.done == ["update README.md", "update .env"]
    assert "Never." in "\n".join(desk.results)


# ---- MCP: the tools of a server that runs beside the agent


async def test_mcp(place: Place) -> None:
    """A call of a server's tool that had ended is not made again by the process that starts the server anew."""
    shop = StdioTransport(sys.executable, [str(Path(__file__).with_name("shop.py"))], keep_alive=False)
    slow = [THINKS]

    def script(heard: Conversation, /) -> Any:
        if not heard.calls:
            return [Call("price", {"item": "tea"}), Call("reserve", {"item": "tea"})]
        return [Text("Done.")] if heard.results("order") else [*slow, Call("order", {"item": "tea"})]

    desk = Desk(script, toolsets=[MCPToolset(shop, id="shop")])
    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Buy tea.")
        await until(session, "segment.written")
        await session.pause(until="stopped")
    slow.clear()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(2 * PATIENCE) == "Done."
        assert await effects(session) == {"price": "read", "reserve": "idempotent", "order": "irreversible"}
        begun = [one for one in await history(session) if one.type == "step.begun"]
    assert len(begun) == 3 + 3 + 1, "three calls, three requests, one of them twice"
    assert desk.results == ["tea costs 3", "tea is reserved", "tea is on its way"]


# ---- SQL: a union of outputs, checked by the database


class Query(BaseModel):
    """A query that can be run."""

    sql: str = Field(min_length=1)
    explanation: str = ""


class Unclear(BaseModel):
    """What was asked is not enough for a query."""

    why: str


async def test_sql_generation(place: Place, tmp_path: Path) -> None:
    """What the database refuses goes back to the model; a redirect in between changes what is asked for."""

    def script(heard: Conversation, /) -> Any:
        if heard.user == "only errors":
            good = {"sql": "SELECT * FROM records WHERE level = 'error'", "explanation": "All errors."}
            return [Call("final_result_Query", good)]
        if not heard.calls:
            return [Call("final_result_Query", {"sql": "DROP TABLE records"})]
        if len(heard.calls) == 1:
            return [Call("final_result_Query", {"sql": "SELECT wrong FROM records"})]
        return [THINKS]

    desk = Desk(script, deps_type=sqlite3.Connection, output_type=Query | Unclear, retries=5)

    @desk.agent.system_prompt
    async def schema() -> str:
        return "CREATE TABLE records (level, message)"

    @desk.agent.output_validator
    async def check(ctx: RunContext[sqlite3.Connection], output: Query | Unclear) -> Query | Unclear:
        if isinstance(output, Unclear):
            return output
        if not output.sql.upper().startswith("SELECT"):
            raise ModelRetry("Write a SELECT.")
        try:
            ctx.deps.execute(f"EXPLAIN {output.sql}")
        except sqlite3.Error as error:
            raise ModelRetry(f"Invalid: {error}") from error
        return output

    rows = sqlite3.connect(":memory:")
    rows.execute("CREATE TABLE records (level, message)")

    def deps(run: midcourse.Run) -> sqlite3.Connection:
        return rows

    agent = desk.held(deps=deps)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "logs of yesterday")
        await until(session, "segment.written")
        assert [said.text for said in desk.heard[-1] if said.role == "system"] == [
            "CREATE TABLE records (level, message)"
        ]
        assert "no such column: wrong" in str(desk.heard[-1])
        await session.redirect("only errors")
        found = await session.result(PATIENCE)
    assert found == {"sql": "SELECT * FROM records WHERE level = 'error'", "explanation": "All errors."}
    rows.close()


# ---- weather: two tools in turn, for two places at once


class Place2D(BaseModel):
    """Where something is."""

    lat: float
    lng: float


async def test_weather(place: Place) -> None:
    """A redirect while one of two calls is under way: its result is kept, and the new place is asked for."""
    found = {"London": Place2D(lat=51.5, lng=0), "Rome": Place2D(lat=41.9, lng=12.5)}

    def script(heard: Conversation, /) -> Any:
        places = ["Rome"] if "Rome" in heard.user else ["London", "Atlantis"]
        here = heard.latest
        if not here.calls:
            return [Call("where", {"place": one}) for one in places]
        if not here.results("weather"):
            return [Call("weather", {"lat": 41.9, "lng": 12.5})]
        return [Text(f"It is {here.results('weather')[-1]}.")]

    desk = Desk(script, retries=2)

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def where(place: str) -> Place2D:
        """Where a place is."""
        if place not in found:
            await asyncio.sleep(600)
        desk.done.append(place)
        return found[place]

    @desk.agent.tool_plain
    @midcourse.tool(effect="read")
    async def weather(lat: float, lng: float) -> dict[str, str]:
        """The weather at a place."""
        return {"temperature": "21 °C", "sky": "clear"}

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "How is the weather in London and in Atlantis?")
        await until(session, "step.finished", times=2)  # the wishes, and London
        await session.redirect("In Rome, I mean.", grace=0)
        assert "clear" in str(await session.result(PATIENCE))
    assert desk.done == ["London", "Rome"]
    told = [said.text for said in desk.heard[1] if said.role == "tool"]
    assert told[0] == '{"lat":51.5,"lng":0.0}'
    assert "Interrupted by the user" in told[1]


# ---- data analyst: results are kept in the dependencies, and the model has names for them


class Notebook(BaseModel):
    """What was computed, by the name the model has for it."""

    outputs: dict[str, list[int]] = {}

    def store(self, values: list[int]) -> str:
        name = f"Out[{len(self.outputs) + 1}]"
        self.outputs[name] = values
        return name

    def get(self, name: str) -> list[int]:
        if name not in self.outputs:
            raise ModelRetry(f"{name} is no variable.")
        return self.outputs[name]


async def test_data_analyst(place: Place) -> None:
    """A name that the model has been told means the same in the process that continues."""
    slow = [THINKS]

    def script(heard: Conversation, /) -> Any:
        match len(heard.calls):
            case 0:
                return [Call("load", {"path": "reviews"})]
            case 1:
                return [Call("keep_above", {"name": "Out[1]", "limit": 2})]
            case 2:
                return [*slow, Call("display", {"name": "Out[2]"})]
            case _:
                return [Text(heard.results("display")[-1])]

    desk = Desk(script, deps_type=Notebook)

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def load(ctx: RunContext[Notebook], path: str) -> str:
        """Load a data set."""
        desk.done.append(path)
        return f"Loaded as {ctx.deps.store([1, 2, 3, 4])}"

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def keep_above(ctx: RunContext[Notebook], name: str, limit: int) -> str:
        """Keep what is above a limit."""
        return f"Kept as {ctx.deps.store([one for one in ctx.deps.get(name) if one > limit])}"

    @desk.agent.tool
    @midcourse.tool(effect="read")
    def display(ctx: RunContext[Notebook], name: str) -> str:
        """Show a variable."""
        return str(ctx.deps.get(name))

    def deps(run: midcourse.Run) -> Notebook:
        return Notebook()

    agent = desk.held(deps=deps)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "How many are above 2?")
        await until(session, "segment.written")
        await session.pause(until="stopped")
    slow.clear()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == "[3, 4]"
    assert desk.done == ["reviews"]


# ---- delegation: a triage agent whose tools are other agents, held as sessions of their own


class Report(BaseModel):
    """What a specialist says."""

    diagnosis: list[str]
    minutes: int


async def test_delegation(place: Place) -> None:
    """Each specialist is asked once, although the process ends while the second one thinks."""
    slow = [THINKS]
    asked: list[str] = []

    def specialist(name: str) -> Script:
        def script(heard: Conversation, /) -> Any:
            asked.append(name)
            thinks = slow if name == "neurology" else []
            return [*thinks, Call("final_result", {"diagnosis": [f"{name}: fine"], "minutes": 5})]

        return script

    names = ("cardiology", "neurology")
    specialists = {
        name: Agent(scripted(specialist(name)), name=name, output_type=Report, instructions=name) for name in names
    }

    def triage(heard: Conversation, /) -> Any:
        at = len(heard.calls)
        if at < len(names):
            return [Call("consult", {"specialty": names[at], "complaint": "dizzy"})]
        return [Text("; ".join(heard.results("consult")))]

    desk = Desk(triage)

    @desk.agent.tool
    @midcourse.tool(effect="read")
    async def consult(ctx: RunContext[Any], specialty: Literal["cardiology", "neurology"], complaint: str) -> Report:
        """Consult a specialist."""
        return (await specialists[specialty].run(complaint, usage=ctx.usage)).output

    agent = desk.held()
    async with place.open(agent) as mc:
        session = await mc.start(agent, "I feel dizzy.")
        while asked != list(names):
            await asyncio.sleep(0.01)
        assert (await session.pause(grace=0, until="stopped")).running == ()
    slow.clear()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        said = str(await session.result(PATIENCE))
    assert "cardiology: fine" in said
    assert "neurology: fine" in said
    assert asked == ["cardiology", "neurology", "neurology"], "only the one that was interrupted is asked again"


# ---- chat: a conversation whose history outlives the program


async def test_chat(place: Place) -> None:
    """Each turn is a program of its own, and hears all that was said."""

    def script(heard: Conversation, /) -> Any:
        return [Text(f"You have said {sum(said.role == 'user' for said in heard)} things.")]

    desk = Desk(script, instructions="Be brief.")
    agent = wrap(desk.agent)
    answers: list[object] = []
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Hello.")
        answers.append(await session.result(PATIENCE))
    for text in ("How are you?", "Good bye."):
        async with place.open(agent) as mc:
            session = await mc.get(session.id)
            await session.redirect(text)
            answers.append(await session.result(PATIENCE))
    assert answers == [f"You have said {count} things." for count in (1, 2, 3)]
    assert [said.text for said in desk.heard[-1] if said.role == "user"] == ["Hello.", "How are you?", "Good bye."]
