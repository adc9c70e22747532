"""A text that a pause has cut goes on from the cut: not a word is said twice, nor paid twice."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import midcourse
from midcourse.adapters.continuation import Joint, Way, kept, takes_a_prefix
from midcourse.adapters.plain import Api, ModelReply, model_reply
from midcourse.adapters.plain.model_requests import Streamed
from midcourse.core.events import Recorded, SegmentWritten, StepCut, StepFinished
from midcourse.models.script import Call, Piece, Text, replies
from tests.adapters.plain.desk import APIS, Desk, desk, priced_desk
from tests.promises.harness import Place, history, resumable

WORDS = 150
TALE = " ".join(f"word{number}" for number in range(WORDS))
SLOWLY = Text(TALE, every=0.002)
each_api = pytest.mark.parametrize("api", APIS)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("memory", tmp_path)


def talker(ask: object) -> midcourse.Agent[str]:
    """Says what its model says."""
    return resumable(lambda run: run.stream("tell", ask))  # pyright: ignore[reportArgumentType]


async def paused_and_resumed(place: Place, at: Desk, agent: midcourse.Agent[str]) -> tuple[str, list[Recorded]]:
    """What it says in the end, and its journal: it is paused in the middle."""
    async with place.open(agent) as mc:
        session = await mc.start(agent, "Tell me a tale.")
        await at.provider.wait_for_request(0, pieces=20)
        await session.pause(until="stopped")
        await session.resume()
        return await session.result(), await history(session)


def cut_of(events: list[Recorded]) -> StepCut:
    (cut,) = [one.event for one in events if isinstance(one.event, StepCut)]
    return cut


@each_api
async def test_a_text_that_was_cut_goes_on_and_no_word_comes_twice(api: Api, place: Place) -> None:
    async with desk(api, replies(SLOWLY)) as at:
        said, events = await paused_and_resumed(place, at, talker(lambda: at.ask("Tell me a tale.")))
        assert said == TALE
        cut = cut_of(events)
        assert cut.continues == "quote"
        (finished,) = [one.event for one in events if isinstance(one.event, StepFinished)]
        # The word at the cut may be said again, so that words stay whole.
        assert WORDS <= cut.tokens + finished.tokens <= WORDS + 2
        assert finished.tokens < WORDS
        _, second = at.provider.requests
        assert second.conversation.cut[1].startswith("word0 word1")


async def test_a_model_that_takes_a_prefix_is_given_its_own_words(place: Place) -> None:
    async with priced_desk("messages", replies(SLOWLY)) as at:
        said, events = await paused_and_resumed(place, at, talker(lambda: at.ask("Tell me a tale.")))
        assert said == TALE
        assert cut_of(events).continues == "prefix"
        last = json.loads(at.provider.requests[1].body)["messages"][-1]
        assert last["role"] == "assistant"
        assert TALE.startswith(last["content"])


async def test_a_server_that_refuses_the_prefix_is_asked_again_from_the_beginning(place: Place) -> None:
    async with priced_desk("messages", replies(SLOWLY)) as at:
        at.model = "claude-opus-4-6"
        said, events = await paused_and_resumed(place, at, talker(lambda: at.ask("Tell me a tale.", on_cut="prefix")))
        assert said == TALE
        assert [one.status for one in at.provider.requests] == [200, 400, 200]
        assert [one.event.offset for one in events if isinstance(one.event, SegmentWritten)].count(0) == 2


@pytest.mark.parametrize(
    ("api", "options"),
    [
        ("chat.completions", {"response_format": {"type": "json_object"}}),
        ("chat.completions", {"on_cut": "again"}),
        ("responses", {"text": {"format": {"type": "json_object"}}}),
    ],
)
async def test_what_cannot_go_on_begins_again_and_the_cut_says_so(
    api: Api, options: dict[str, object], place: Place
) -> None:
    async with desk(api, replies(SLOWLY)) as at:
        said, events = await paused_and_resumed(place, at, talker(lambda: at.ask("Tell me a tale.", **options)))
        assert said == TALE
        assert cut_of(events).continues == ""
        assert at.provider.requests[1].conversation.cut[1] == ""


@each_api
async def test_after_a_redirect_the_answer_begins_again(api: Api, place: Place) -> None:
    async with desk(api, replies(SLOWLY)) as at:
        agent = resumable(lambda run: run.stream("tell", lambda: at.ask(*(one.text for one in run.messages))))
        async with place.open(agent) as mc:
            session = await mc.start(agent, "Tell me a tale.")
            await at.provider.wait_for_request(0, pieces=20)
            await session.pause(until="stopped")
            state = await session.state()
            assert list(state.cuts.values()) == ["quote"]
            await session.redirect("No: a poem.")
            assert list((await session.state()).cuts.values()) == [""]
            at.provider.script = replies(Text("A poem."))
            await session.resume()
            assert await session.result() == "A poem."
            assert not (await session.state()).cuts


@each_api
async def test_a_tool_call_that_was_half_streamed_begins_again_behind_the_text(api: Api, place: Place) -> None:
    call = Call("look", {"where": "here " * 200}, every=0.005)
    first: tuple[Piece, ...] = (Text("I will look."), call)
    async with desk(api, replies(first)) as at:

        def ask() -> Streamed:
            look = {"type": "object", "properties": {"where": {"type": "string"}}}
            match api:
                case "messages":
                    tools: list[object] = [{"name": "look", "input_schema": look}]
                case "responses":
                    tools = [{"type": "function", "name": "look", "parameters": look}]
                case _:
                    tools = [{"type": "function", "function": {"name": "look", "parameters": look}}]
            return at.ask("Look.", tools=tools)

        replied: list[ModelReply] = []

        async def work(run: midcourse.Run) -> None:
            replied.append(await model_reply(run, "think", ask))

        agent = resumable(work)
        async with place.open(agent) as mc:
            session = await mc.start(agent, "Look.")
            await at.provider.wait_for_request(0, pieces=8)
            await session.pause(until="stopped")
            await session.resume()
            await session.result()
        (reply,) = replied
        assert reply.text == "I will look."
        assert [one.name for one in reply.calls] == ["look"]
        assert reply.calls[0].arguments == {"where": "here " * 200}
        assert at.provider.requests[1].conversation.cut[1] == "I will"
        # What goes into the conversation is one message, with all of its text.
        spelled = json.dumps(reply.messages)
        assert spelled.count("I will look.") == 1


@each_api
async def test_a_text_that_is_cut_twice_goes_on_twice(api: Api, place: Place) -> None:
    async with desk(api, replies(SLOWLY)) as at:
        agent = talker(lambda: at.ask("Tell me a tale."))
        async with place.open(agent) as mc:
            session = await mc.start(agent, "Tell me a tale.")
            for number in range(3):
                await at.provider.wait_for_request(number, pieces=20)
                await session.pause(until="stopped")
                await session.resume()
            assert await session.result() == TALE


# ---- where two texts meet


@pytest.mark.parametrize(
    ("said", "way", "stays"),
    [
        ("One two thr", "quote", "One two "),
        ("One two ", "quote", "One two "),
        ("One", "quote", ""),
        ("  ", "quote", ""),
        ("One two thr", "prefix", "One two thr"),
        ("One two \n", "prefix", "One two"),
        ("One two", "", ""),
    ],
)
def test_what_of_a_text_is_gone_on_from(said: str, way: Way, stays: str) -> None:
    assert kept(said, way) == stays


@pytest.mark.parametrize(
    ("said", "pieces", "joined"),
    [
        ("One two ", ["three", " four"], "One two three four"),
        ("One two ", [" three"], "One two three"),
        ("One two\n", ["    three"], "One two\n    three"),
        ("One two ", ["\n\nThree"], "One two \n\nThree"),
        ("One two ", [], "One two "),
        # It goes back to the beginning of a sentence, of a line, of all.
        (
            "A long way. The old black cat sat on ",
            ["The old black", " cat sat on the mat."],
            "A long way. The old black cat sat on the mat.",
        ),
        ("So:\n- an old black cat sat ", ["- an old black cat", " sat down."], "So:\n- an old black cat sat down."),
        (
            "It was night. The old cat slept. ",
            ["It was night.", " The old cat slept. I, too."],
            "It was night. The old cat slept. I, too.",
        ),
        (
            "It was night. The old cat slept. ",
            ["It was night.", " The old cat slept."],
            "It was night. The old cat slept. ",
        ),
        # It says twice what may well be meant.
        ("ha ha ", ["ha", " ha!"], "ha ha ha ha!"),
        ("la la la la ", ["la la la la"], "la la la la la la la la"),
        ("again and ", ["again and", " again"], "again and again and again"),
        ("| cat | dog | ", ["cat | dog |"], "| cat | dog | cat | dog |"),
        ("| 1 | 2 | 3 | 4 | 5 |\n", ["| 1 | 2 | 3 | 4 | 5 |\n"], "| 1 | 2 | 3 | 4 | 5 |\n| 1 | 2 | 3 | 4 | 5 |\n"),
        ("We sing of a cat alone. ", ["We sing of a cat alone. "], "We sing of a cat alone. We sing of a cat alone. "),
    ],
)
def test_a_model_that_repeats_itself_is_not_heard_twice(said: str, pieces: list[str], joined: str) -> None:
    joint = Joint(said)
    assert said + "".join(joint.take(piece) for piece in pieces) + joint.rest() == joined


WORD_LIST = "the old black cat and a young white dog go to see seven blue ships at sea".split()  # noqa: SIM905


def prose(random_: random.Random) -> str:
    """Sentences and lines of words, each different from every other."""
    units = [
        f"{number}-{' '.join(random_.sample(WORD_LIST, random_.randint(5, 9)))}{random_.choice(['. ', '! ', chr(10)])}"
        for number in range(random_.randint(2, 9))
    ]
    return "".join(units)


def litany(random_: random.Random) -> str:
    """Words, rows and sentences that are said again and again."""
    once = random_.choice(
        [
            f"{random_.choice(['la', 'ha', '| 0', '}'])} ",
            f"{' '.join(random_.sample(WORD_LIST, random_.randint(1, 9)))}{random_.choice(['. ', chr(10)])}",
            f"| {' | '.join(random_.sample(WORD_LIST, random_.randint(2, 8)))} |\n",
        ]
    )
    return prose(random_) * random_.randint(0, 1) + once * random_.randint(2, 9)


def joined(said: str, says: str, random_: random.Random) -> str:
    """What comes of it, whatever pieces it comes in."""
    joint, text = Joint(said), said
    while says:
        size = random_.randint(1, 12)
        text, says = text + joint.take(says[:size]), says[size:]
    return text + joint.rest()


def cut_anywhere(text: str, random_: random.Random) -> str:
    """What is gone on from, of so much of it."""
    return kept(text[: random_.randint(1, len(text) - 1)], "quote")


@pytest.mark.parametrize("write", [prose, litany])
def test_nothing_is_left_out_of_what_a_model_says_that_goes_on_as_it_is_asked(
    write: Callable[[random.Random], str],
) -> None:
    for seed in range(1_000):
        random_ = random.Random(seed)
        text = write(random_)
        said = cut_anywhere(text, random_)
        assert joined(said, text[len(said) :], random_) == text, seed


@pytest.mark.parametrize("back", ["sentence", "two", "all"])
def test_what_a_model_says_again_from_the_beginning_of_a_sentence_or_of_all_is_left_out(back: str) -> None:
    """Where that tells more than a few words, and more than one whole sentence."""
    for seed in range(1_000):
        random_ = random.Random(seed)
        text = prose(random_)
        said = cut_anywhere(text, random_)
        ends = [0, *(found.end() for found in re.finditer(r"[.!] |\n", said))]
        starts = [end for end in ends if end < len(said)]
        if not starts:
            continue
        begins = {"sentence": starts[-1], "two": starts[max(0, len(starts) - 2)], "all": 0}[back]
        again = said[begins:].rstrip()
        is_one_whole = ends[-1] == len(said) and not re.search(r"[.!] |\n", again)
        is_meant = is_one_whole or len(set(re.findall(r"\w+", again))) < 5
        expected = said + text[begins:].lstrip() if is_meant else text
        assert joined(said, text[begins:], random_) == expected, seed


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("claude-3-5-sonnet-20241022", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-opus-4-1", True),
        ("claude-sonnet-4-5-20250929", True),
        ("us.anthropic.claude-haiku-4-5-v1", True),
        ("claude-opus-4-6", False),
        ("anthropic/claude-opus-4.6", False),
        ("anthropic/claude-sonnet-4.5", True),
        ("claude-sonnet-4-10", False),
        ("claude-sonnet-5", False),
        ("m", False),
    ],
)
def test_only_models_up_to_4_5_take_a_prefix(model: str, *, takes: bool) -> None:
    assert takes_a_prefix(model) is takes
