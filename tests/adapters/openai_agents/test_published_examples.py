"""Examples as the OpenAI Agents SDK publishes them, in our words and with a scripted model: held, and interrupted."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from agents import (
    Agent,
    FunctionToolResult,
    GuardrailFunctionOutput,
    HandoffInputData,
    ModelSettings,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolsToFinalOutputResult,
    TResponseInputItem,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.extensions import handoff_filters
from pydantic import BaseModel

import midcourse
from midcourse.adapters.openai_agents import wrap
from midcourse.core.events import StepBegun
from midcourse.models.script import Call, Conversation, Text, Wait, replies
from tests.adapters.openai_agents.desk import PATIENCE, Desk, ask_of, failure_of
from tests.promises.harness import Place, history, resumable, until

THINKS = Text("Let me think about it for a while " * 50, every=0.05)
SILENT = Wait(600)
"""A model that is cut before it has said a word: what it had said would be kept, and stand before the rest."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty store, which each "process" of a test opens."""
    return Place("sqlite", tmp_path)


@pytest.fixture
def at(at_responses: Desk) -> Desk:
    """A desk, where the API makes no difference."""
    return at_responses


async def names_of_calls(session: midcourse.SessionHandle[Any]) -> list[str]:
    """The tools that were called, each attempt once."""
    begun = [one.event for one in await history(session)]
    return [event.name for event in begun if isinstance(event, StepBegun) and event.kind == "tool"]


# ---- customer service: agents that hand off in a circle, and a context that they share


class Airline(BaseModel):
    """What the agents of the airline know of the customer."""

    confirmation: str | None = None
    seat: str | None = None
    flight: str | None = None


async def test_customer_service(at: Desk, place: Place) -> None:
    """Each message comes to another process; the flight that a handoff has noted is still known there."""

    @function_tool
    @midcourse.tool(effect="idempotent")
    async def update_seat(ctx: RunContextWrapper[Airline], confirmation: str, seat: str) -> str:
        """Update the seat."""
        ctx.context.confirmation, ctx.context.seat = confirmation, seat
        assert ctx.context.flight is not None, "no flight is known"
        return f"{seat} on {ctx.context.flight} for {confirmation}"

    @function_tool
    @midcourse.tool(effect="read")
    async def faq(question: str) -> str:
        """Look a question up."""
        return "One bag of 50 pounds."

    async def note_flight(ctx: RunContextWrapper[Airline]) -> None:
        ctx.context.flight = "FLT-123"

    def known(ctx: RunContextWrapper[Airline], agent: Agent[Airline]) -> str:
        return f"booking {ctx.context.flight} {ctx.context.seat}"

    answers = at.agent(faq, name="answers")
    booking = at.agent(update_seat, name="booking")
    booking.instructions = known
    triage = at.agent(name="triage", handoffs=[answers, handoff(booking, on_handoff=note_flight)])
    booking.handoffs.append(handoff(triage))
    answers.handoffs.append(handoff(triage))

    def script(heard: Conversation, /) -> Any:
        asks_for_seat = "seat" in heard.user
        if heard.system == "triage":
            return [Call("transfer_to_booking" if asks_for_seat else "transfer_to_answers")]
        if heard.system == "answers":
            found = heard.latest.results("faq")
            return [Text(found[-1])] if found else [Call("faq", {"question": heard.user})]
        if asks_for_seat:
            return [Text("What is your confirmation number?")]
        if "bag" in heard.user:
            return [Call("transfer_to_triage")]
        done = heard.results("update_seat")
        return [Text(done[-1])] if done else [Call("update_seat", {"confirmation": "ABC", "seat": "3A"})]

    def context(run: midcourse.Run) -> Airline:
        return Airline()

    at.provider.script = script
    agent = wrap(triage, name="airline", context=context)
    said: list[object] = []
    async with place.open(agent) as mc:
        session = await mc.start(agent, "I want another seat.")
        said.append(await session.result(PATIENCE))
    for message in ("ABC, and 3A please.", "How big may my bag be?"):
        async with place.open(agent) as mc:
            session = await mc.get(session.id)
            await session.redirect(message)
            said.append(await session.result(PATIENCE))
    assert said == ["What is your confirmation number?", "3A on FLT-123 for ABC", "One bag of 50 pounds."]
    systems = [request.conversation.system for request in at.provider.requests]
    assert systems[1:4] == ["booking FLT-123 None", "booking FLT-123 None", "booking FLT-123 3A"]
    at.assert_that_all_requests_were_valid()


# ---- agents as tools: an orchestrator with translators, and one that puts their work together


async def test_agents_as_tools(at: Desk, place: Place) -> None:
    """The process ends while the second translator speaks: the first is not asked again."""
    slow = [SILENT]
    languages = ("spanish", "french")
    translators = [at.agent(name=language) for language in (*languages, "klingon")]
    orchestrator = at.agent(
        *(one.as_tool(f"to_{one.name}", "", is_enabled=one.name != "klingon") for one in translators), name="chief"
    )
    synthesizer = at.agent(name="synthesizer")

    def script(heard: Conversation, /) -> Any:
        if heard.system == "synthesizer":
            return [Text(heard.user.upper())]
        if heard.system == "chief":
            calls = [[Call(f"to_{one}", {"input": "hello"})] for one in languages]
            return replies(*calls, Text(" / ".join(str(heard.results(f"to_{one}")) for one in languages)))(heard)
        thinks = slow if heard.system == "french" else []
        return [*thinks, Text(f"{heard.user} in {heard.system}")]

    at.provider.script = script
    first, second = wrap(orchestrator), wrap(synthesizer)

    async def translating(run: midcourse.Run) -> str:
        return await run.spawn(second, str(await run.spawn(first, "Translate hello.")))

    agents = (resumable(translating), first, second)
    async with place.open(*agents) as mc:
        session = await mc.start(agents[0], "hello")
        await at.provider.wait_for_request(3, timeout=PATIENCE)
        await session.pause(until="stopped")
    slow.clear()
    async with place.open(*agents) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == "('HELLO IN SPANISH',) / ('HELLO IN FRENCH',)"
    systems = [request.conversation.system for request in at.provider.requests]
    assert systems == ["chief", "spanish", "chief", "french", "french", "chief", "synthesizer"]
    assert b"to_klingon" not in at.provider.requests[0].body


# ---- forcing tool use: what is done with the result of a tool that had to be called


class Weather(BaseModel):
    """The weather."""

    city: str
    sky: str


async def told(ctx: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
    """The answer, made of the first result."""
    weather: Weather = results[0].output
    return ToolsToFinalOutputResult(is_final_output=True, final_output=f"{weather.city} is {weather.sky}.")


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        ("run_llm_again", "As you see."),
        ("stop_on_first_tool", "city='Tokyo' sky='sunny'"),
        (told, "Tokyo is sunny."),
    ],
)
async def test_forced_tool_use(at: Desk, place: Place, behavior: Any, expected: object) -> None:
    """The result is the same if the process ends before the calls of the response have all ended."""
    may_end = asyncio.Event()

    @function_tool
    @midcourse.tool(effect="read")
    def get_weather(city: str) -> Weather:
        """The weather in a city."""
        return Weather(city=city, sky="sunny")

    @function_tool
    @midcourse.tool(effect="read")
    async def listen() -> str:
        """Listen until it may end."""
        await may_end.wait()
        return "rain"

    def script(heard: Conversation, /) -> Any:
        must = json.loads(at.provider.requests[-1].body).get("tool_choice") == "required"
        return [Call("get_weather", {"city": "Tokyo"}), Call("listen")] if must else [Text("As you see.")]

    at.provider.script = script
    settings = ModelSettings(tool_choice="required")
    agent = wrap(at.agent(get_weather, listen, tool_use_behavior=behavior, model_settings=settings), name="weather")
    async with place.open(agent) as mc:
        session = await mc.start(agent, "What is the weather in Tokyo?")
        await until(session, "step.finished", times=2)  # the model's wishes, and the weather
        await session.pause(grace=0, until="stopped")
    may_end.set()
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == expected
        assert await names_of_calls(session) == ["get_weather", "listen", "listen"]


# ---- guardrails: an agent that looks at the question, and a check of the answer


class Homework(BaseModel):
    """What the guardrail's agent says."""

    reasoning: str
    is_homework: bool


async def test_input_guardrails(at: Desk, place: Place) -> None:
    """A question that is refused ends its turn; the next question is answered, in another process."""
    checker = at.agent(name="checker", output_type=Homework)

    @input_guardrail
    async def no_homework(
        ctx: RunContextWrapper[Any], agent: Agent[Any], input: str | list[TResponseInputItem]
    ) -> GuardrailFunctionOutput:
        found = await Runner.run(checker, input, context=ctx.context, run_config=RunConfig(tracing_disabled=True))
        output = found.final_output_as(Homework)
        return GuardrailFunctionOutput(output, tripwire_triggered=output.is_homework)

    def script(heard: Conversation, /) -> Any:
        is_homework = "solve" in heard.user
        if heard.system == "checker":
            return [Text(json.dumps({"reasoning": "I see an x.", "is_homework": is_homework}))]
        return [THINKS] if is_homework else [Text(f"You asked: {heard.user}")]

    at.provider.script = script
    agent = wrap(at.agent(name="support", input_guardrails=[no_homework]))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "What is the capital of California?")
        assert await session.result(PATIENCE) == "You asked: What is the capital of California?"
        await session.redirect("Please solve 2x + 5 = 11.")
        assert "InputGuardrailTripwireTriggered" in await failure_of(session)
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.redirect("And of Texas?")
        assert await session.result(PATIENCE) == "You asked: And of Texas?"
    at.assert_that_all_requests_were_valid()


class Answer(BaseModel):
    """An answer with its reasons."""

    reasoning: str
    response: str


async def test_output_guardrails(at: Desk, place: Place) -> None:
    """An answer that is refused fails the turn, and a resume in another process asks for another one."""

    @output_guardrail
    async def no_phone_number(
        ctx: RunContextWrapper[Any], agent: Agent[Any], output: Answer
    ) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput({"in": "response"}, tripwire_triggered="650" in output.response)

    said = ["It is 650-123-4567.", "I may not say it."]

    def script(heard: Conversation, /) -> Any:
        text = said[len(at.provider.requests) - 1]
        return [Text(json.dumps({"reasoning": "", "response": text}))]

    at.provider.script = script
    agent = wrap(at.agent(name="assistant", output_type=Answer, output_guardrails=[no_phone_number]))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "What is my phone number?")
        assert "OutputGuardrailTripwireTriggered" in await failure_of(session)
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == {"reasoning": "", "response": "I may not say it."}
    assert at.heard == ["user: What is my phone number?"]


# ---- human in the loop: a call that needs approval, by its arguments


@pytest.mark.parametrize("answer", ["yes", "Not in Oakland."])
async def test_human_in_the_loop(at: Desk, place: Place, answer: str) -> None:
    """The person answers when the process that asked has ended."""
    made: list[str] = []

    async def in_oakland(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return "Oakland" in arguments["city"]

    @function_tool(needs_approval=in_oakland)
    @midcourse.tool(effect="read")
    async def temperature(city: str) -> str:
        """The temperature in a city."""
        made.append(city)
        return f"{city}: 20 degrees"

    calls = [Call("temperature", {"city": city}) for city in ("Oakland", "Tokyo")]
    at.provider.script = replies(calls, Text("So it is."))
    agent = wrap(at.agent(temperature, name="weather"))
    async with place.open(agent) as mc:
        session = await mc.start(agent, "How warm is it?")
        assert "Oakland" in (await ask_of(session)).prompt
        while made != ["Tokyo"]:
            await asyncio.sleep(0.01)
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.answer(answer)
        assert await session.result(PATIENCE) == "So it is."
    assert at.heard[-1] == "tool: Tokyo: 20 degrees"
    assert ("Oakland: 20" if answer == "yes" else answer) in at.heard[-2]
    assert sorted(made) == (["Oakland", "Tokyo"] if answer == "yes" else ["Tokyo"])


# ---- a model as judge: two agents in turn, until one is content with the other


@dataclass
class Verdict:
    """What the judge says."""

    feedback: str
    score: Literal["pass", "needs_improvement"]


async def test_a_model_as_judge(at: Desk, place: Place) -> None:
    """The process ends in the second round: the rounds before it are not repeated."""
    slow = [SILENT]

    def script(heard: Conversation, /) -> Any:
        if heard.system == "judge":
            verdict = {"feedback": "More cats.", "score": "pass" if "cats" in heard.user else "needs_improvement"}
            return [Text(json.dumps({"response": verdict}))]
        return [*slow, Text("A story with cats.")] if "More" in heard.user else [Text("A story.")]

    at.provider.script = script
    author, judge = wrap(at.agent(name="author")), wrap(at.agent(name="judge", output_type=Verdict))

    async def writing(run: midcourse.Run) -> str:
        wish, rounds = run.goal, 0
        while True:
            rounds += 1
            outline = str(await run.spawn(author, wish, key=f"author {rounds}"))
            verdict: dict[str, str] = await run.spawn(judge, outline, key=f"judge {rounds}")
            if verdict["score"] == "pass":
                return f"{outline} ({rounds} rounds)"
            wish = f"{run.goal} {verdict['feedback']}"

    agents = (resumable(writing), author, judge)
    async with place.open(*agents) as mc:
        session = await mc.start(agents[0], "Write a story.")
        await at.provider.wait_for_request(2, timeout=PATIENCE)
        await session.pause(until="stopped")
    slow.clear()
    async with place.open(*agents) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == "A story with cats. (2 rounds)"
    systems = [request.conversation.system for request in at.provider.requests]
    assert systems == ["author", "judge", "author", "author", "judge"]


# ---- a filter of messages: what the next agent is handed


async def test_a_filter_of_messages(at: Desk, place: Place) -> None:
    """What a handoff's filter has left out stays out, also where the session is resumed."""
    slow = [SILENT]

    @function_tool
    @midcourse.tool(effect="read")
    def number(most: int) -> int:
        """A number."""
        return 7

    def without_tools(data: HandoffInputData) -> HandoffInputData:
        data = handoff_filters.remove_all_tools(data)
        before = data.input_history
        return data.clone(input_history=before[2:] if isinstance(before, tuple) else before)

    spanish = at.agent(name="spanish")
    assistant = at.agent(number, name="assistant", handoffs=[handoff(spanish, input_filter=without_tools)])

    def script(heard: Conversation, /) -> Any:
        if heard.system == "spanish":
            return [*slow, Text("Vives en Nueva York.")]
        if "español" in heard.user:
            return [Call("transfer_to_spanish")]
        if "number" in heard.user and not heard.results("number"):
            return [Call("number", {"most": 100})]
        return [Text("All right.")]

    at.provider.script = script
    agent = wrap(assistant)
    async with place.open(agent) as mc:
        session = await mc.start(agent, "My name is Sora.")
        await session.result(PATIENCE)
        for message in ("Give me a number.", "I live in New York."):
            await session.redirect(message)
            await session.result(PATIENCE)
        await session.redirect("Habla español.")
        await at.provider.wait_for_request(5, timeout=PATIENCE)
        await session.pause(until="stopped")
    slow.clear()
    filtered = at.heard
    async with place.open(agent) as mc:
        session = await mc.get(session.id)
        await session.resume()
        assert await session.result(PATIENCE) == "Vives en Nueva York."
    assert at.heard == filtered
    assert not [line for line in filtered if "Sora" in line or line.startswith("tool") or "[" in line]
    assert "user: I live in New York." in filtered
    at.assert_that_all_requests_were_valid()


# ---- research: a plan, searches at the same time, a report


class Plan(BaseModel):
    """What to search for."""

    searches: list[str]


async def test_research(at: Desk, place: Place) -> None:
    """A pause reaches all searches that are under way; those that had ended are not made again."""
    slow = [THINKS]

    def script(heard: Conversation, /) -> Any:
        match heard.system:
            case "planner":
                return [Text(json.dumps({"searches": ["bread", "wine", "oil"]}))]
            case "searcher":
                return [*([] if heard.user == "bread" else slow), Text(f"All about {heard.user}.")]
            case _:
                return [Text(f"Report: {heard.user}")]

    at.provider.script = script
    planner = wrap(at.agent(name="planner", output_type=Plan))
    searcher, writer = wrap(at.agent(name="searcher")), wrap(at.agent(name="writer"))

    async def researching(run: midcourse.Run) -> str:
        plan: dict[str, list[str]] = await run.spawn(planner, run.goal)
        found = await asyncio.gather(*(run.spawn(searcher, one, key=one) for one in plan["searches"]))
        return await run.spawn(writer, " ".join(map(str, found)))

    agents = (resumable(researching), planner, searcher, writer)
    async with place.open(*agents) as mc:
        session = await mc.start(agents[0], "What do people eat?")
        await until(session, "step.finished", times=2)  # the plan, and bread
        for request in (2, 3):
            await at.provider.wait_for_request(request, timeout=PATIENCE)
        assert (await session.pause(until="stopped")).running == ()
    slow.clear()
    async with place.open(*agents) as mc:
        session = await mc.get(session.id)
        await session.resume()
        # What was said before the cut is kept, and the searchers continue behind it.
        report: str = await session.result(PATIENCE)
        assert all(f"All about {one}." in report for one in ("bread", "wine", "oil"))
    asked = [one.conversation.user for one in at.provider.requests if one.conversation.system == "searcher"]
    assert asked.count("bread") == 1
