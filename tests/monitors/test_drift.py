"""Drift: near 0 for work on the goal, near 1 for work on another, and honest about what it was calibrated for."""

import hashlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import midcourse
from midcourse.core.terms import Terms
from midcourse.errors import InvalidInput
from midcourse.policy.run_activity import Called
from midcourse.policy.signals import drift
from midcourse.policy.signals.drift import (
    ENOUGH,
    WINDOW,
    Drift,
    Scale,
    Worked,
    action_text,
    auc,
    calibrate,
    language_of,
    scale_for,
    shipped,
    text_of,
    words,
)
from midcourse.policy.signals.encoders import Encoder, find_encoder
from midcourse.samples import churn_memo, repo_fixer

TOPICS = (
    "login",
    "pool",
    "orm",
    "invoice",
    "churn",
    "flight",
    "battery",
    "recipe",
    "memory",
    "coupon",
    "report",
    "spam",
)


class Bag:
    """An encoder whose vectors are known: a direction per word, all of them at right angles or nearly."""

    name = "bag"

    def encode(self, text: str) -> Sequence[float]:
        vector = np.zeros(64)
        for word in text.lower().split():
            vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1
        return vector.tolist()


def centre(*numbers: float) -> bytes:
    return np.array(numbers or [0.0] * 64, "<f2").tobytes()


PLAIN = Scale(on=0.8, off=0.2, auc=0.9, runs=20, goals=20, goal_centre=centre(), action_centre=centre())
"""Without anything to take off."""


def plain(goal: str, **more: Any) -> Drift:
    measured = Drift(Bag(), scale=PLAIN, **more)
    measured.goal(goal)
    return measured


def values(measured: Drift, texts: Sequence[str]) -> list[float]:
    found: list[float] = []
    for text in texts:
        measured.act(text)
        value = measured.value()
        if value is not None:
            found.append(value)
    return found


@pytest.fixture
def encoder() -> Encoder:
    found = find_encoder()
    assert found is not None
    return found


# ---- texts


def test_paths_and_names_fall_apart_into_words() -> None:
    assert (
        words('{"path": "src/auth/loginSession.py", "max_age": 5}\\nok')
        == "path src auth login Session py max age 5 ok"
    )


def test_an_action_is_its_arguments_and_text_and_its_name_only_where_these_say_little() -> None:
    assert action_text("read_file", '{"path":"src/orm/mapper.py"}', "rows as objects") == (
        "path src orm mapper py rows as objects"
    )
    assert action_text("fetch_customers", "{}", "412") == "fetch customers 412"
    assert text_of(Called(kind="model", name="model", text="I look at the pool")) == "I look at the pool"


def test_only_the_beginning_of_an_action_is_read() -> None:
    assert len(action_text("bash", "a " * 10_000, "b " * 10_000)) < 600


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Fix the login bug", "latin"),
        ("Corrige l'échec à l'entrée", "latin"),
        ("修复登录页面的 session 错误", "cjk"),
        ("修复登录错误 in src/auth/login", "cjk"),
        ("Read the file 登录.md and tell me what it says", "latin"),
        ("ログインの不具合を直す", "cjk"),
        ("로그인 오류를 고쳐라", "cjk"),
        ("Исправь ошибку входа", "other"),
        ("", "latin"),
        ("2026-09-30", "latin"),
    ],
)
def test_the_language_is_told_by_its_script(text: str, language: str) -> None:
    assert language_of(text) == language


# ---- one run


def test_work_on_the_goal_is_0_and_on_another_is_1() -> None:
    assert values(plain("login"), ["login"] * 5)[-1] == 0
    assert values(plain("login"), [*["login"] * 8, *["orm"] * 20])[-1] == 1


def test_the_value_is_the_place_on_the_scale() -> None:
    """A window of which half is on the goal has a cosine of 0.707 with it; (0.8 - 0.707) / 0.6 is 0.155."""
    measured = plain("login", window=2, lasting=1)
    assert values(measured, ["login", "login", "login", "orm"])[-1] == pytest.approx(0.1548, abs=1e-3)
    assert measured.closeness == pytest.approx(0.7071, abs=1e-4)


def test_nothing_is_said_before_three_actions_without_a_goal_or_without_a_scale() -> None:
    measured = plain("login")
    assert values(measured, ["login"] * (ENOUGH - 1)) == []
    assert values(plain(""), ["login"] * 9) == []
    unknown = Drift(Bag())
    unknown.goal("login")
    assert values(unknown, ["login"] * 9) == []
    assert unknown.alignment("login") is None


def test_actions_without_a_word_are_none() -> None:
    measured = plain("login")
    assert values(measured, ["", "", "", ""]) == []
    assert len(values(measured, ["login", "login", "", "login"])) == 1


def test_a_vector_that_is_not_finite_is_none() -> None:
    class Broken(Bag):
        def encode(self, text: str) -> Sequence[float]:
            return [float("nan")] * 64 if text == "broken" else super().encode(text)

    measured = Drift(Broken(), scale=PLAIN)
    measured.goal("login")
    assert values(measured, ["login", "broken", "broken", "login", "login"]) == [0]


def test_a_new_goal_forgets_what_was_done_for_the_old_one() -> None:
    measured = plain("login")
    assert values(measured, [*["login"] * 8, *["orm"] * 12])[-1] == 1
    measured.goal("orm")
    assert measured.value() is None
    assert values(measured, ["orm"] * 3) == [0]


def test_a_run_that_begins_far_from_its_goal_is_held_to_what_it_has_reached() -> None:
    far = ["login orm pool invoice churn flight battery recipe memory coupon report spam"] * 8
    measured = plain("login")
    assert max(values(measured, far)) < 0.01
    assert values(measured, ["orm"] * 12)[-1] > 0.4


def test_a_run_that_never_came_near_its_goal_is_held_to_the_usual_after_three_windows() -> None:
    found = values(plain("login"), ["orm"] * 30)
    first = next(number for number, value in enumerate(found) if value > 0) + ENOUGH
    assert first == drift.PATIENCE * WINDOW + 1
    assert found[-1] == 1


def test_an_excursion_is_no_course() -> None:
    course = [*["login"] * 8, "orm", "orm", "orm", *["login"] * 8]
    assert max(values(plain("login", window=3, lasting=1), course)) == 1
    assert max(values(plain("login", window=3), course)) < 0.5


def test_alignment_is_the_same_measure_against_the_hypothesis() -> None:
    measured = plain("login")
    values(measured, [*["login"] * 8, *["orm"] * 12])
    assert measured.value() == 1
    assert measured.alignment("orm") == 0
    assert measured.alignment("pool") == 1
    assert measured.alignment("") is None


def test_what_all_have_in_common_is_taken_off() -> None:
    """Every goal and action says "please"; without it, this run is about something else."""
    please = [float(number) for number in Bag().encode("please")]
    half = centre(*(number * 0.7071 for number in please))
    centred = Scale(on=0.8, off=0.2, auc=0.9, runs=20, goals=20, goal_centre=half, action_centre=half)
    course = [*["please login"] * 8, *["please orm"] * 12]
    measured = Drift(Bag(), scale=centred)
    measured.goal("please login")
    assert values(measured, course)[-1] == 1
    assert values(plain("please login"), course)[-1] < 0.6


def test_an_encoder_whose_vectors_do_not_fit_its_scale_is_refused() -> None:
    short = Scale(on=0.8, off=0.2, auc=0.9, runs=9, goals=9, goal_centre=centre(0, 0), action_centre=centre(0, 0))
    measured = Drift(Bag(), scale=short)
    measured.goal("login")
    with pytest.raises(InvalidInput, match="vectors of 64 numbers, and its scale is for 2. Calibrate it again"):
        measured.act("login")


@pytest.mark.parametrize(("window", "lasting"), [(0, 4), (8, 0)])
def test_a_window_of_nothing_is_refused(window: int, lasting: int) -> None:
    with pytest.raises(InvalidInput, match="Take 1 or more"):
        Drift(Bag(), window=window, lasting=lasting)


@given(
    goal=st.sampled_from(TOPICS),
    before=st.lists(st.sampled_from(TOPICS), max_size=40),
    course=st.lists(st.sampled_from((*TOPICS, "")), min_size=1, max_size=40),
)
def test_it_is_from_0_to_1_and_depends_on_nothing_but_goal_and_actions(
    goal: str, before: list[str], course: list[str]
) -> None:
    fresh, used = plain(goal), plain(goal)
    values(used, before)
    used.goal(goal)
    found = values(fresh, course)
    assert values(used, course) == found
    assert all(0 <= value <= 1 for value in found)


@given(st.lists(st.sampled_from(TOPICS), min_size=WINDOW, max_size=WINDOW))
def test_the_window_forgets(last: list[str]) -> None:
    """Two runs that came near their goal and did the same lately are the same."""
    one, other = plain("login", lasting=1), plain("login", lasting=1)
    assert values(one, ["login"] * 3 + last)[-1] == values(other, ["login"] * 3 + ["orm", "pool"] * 15 + last)[-1]


def test_memory_is_bounded() -> None:
    measured = plain("login")

    def size() -> int:
        kept = list[Any](vars(measured).values())
        return sum(
            sys.getsizeof(one) + (sum(map(sys.getsizeof, one)) if hasattr(one, "__iter__") else 0) for one in kept
        )

    values(measured, ["login"] * 20)
    before = size()
    values(measured, [*TOPICS] * 100)
    assert size() == before


# ---- scales


def runs_about(topics: Sequence[str], place: str = "shop") -> list[Worked]:
    return [Worked(f"please {one}", [f"step {one}"] * 6, place) for one in topics]


def test_calibrating_finds_what_is_near_and_what_is_far() -> None:
    scale = calibrate(runs_about(TOPICS), Bag())
    assert scale.on > 0.9
    assert abs(scale.off) < 0.2
    assert scale.auc > 0.95
    assert (scale.runs, scale.goals) == (12, 12)
    measured = Drift(Bag(), scale=scale)
    measured.goal("please login")
    assert values(measured, [*["step login"] * 8, *["step orm"] * 12])[-1] > 0.9


def test_too_few_goals_make_no_scale() -> None:
    with pytest.raises(InvalidInput, match="These runs have 2 different goals with actions. A scale needs 10 or more"):
        calibrate(runs_about(["login", "orm"] * 20), Bag())


def test_runs_that_have_nothing_to_do_with_their_goals_make_no_scale() -> None:
    with pytest.raises(InvalidInput, match="sees no difference") as refused:
        calibrate([Worked(one, ["the same thing"] * 6) for one in TOPICS], Bag())
    assert refused.value.code == "drift_cannot_tell"


def test_goals_of_other_places_do_not_count_as_other_goals() -> None:
    """In each place all say the same; only between places could one tell a difference."""
    here = [Worked(f"login {number}", ["login"] * 6, "here") for number in range(10)]
    there = [Worked(f"orm {number}", ["orm"] * 6, "there") for number in range(10)]
    with pytest.raises(InvalidInput, match="sees no difference"):
        calibrate([*here, *there], Bag())


def test_auc_counts_ties_as_half() -> None:
    assert auc(np.array([1.0, 2.0], np.float32), np.array([0.0, 1.0], np.float32)) == pytest.approx(0.875)


def test_the_package_has_a_scale_for_every_domain_and_says_how_they_were_made(encoder: Encoder) -> None:
    assert "bench.drift_study" in shipped().how
    for domain in drift.DOMAINS:
        scale = scale_for(encoder.name, "latin", domain)
        assert scale is not None
        assert scale is shipped().encoders[encoder.name]["latin"][domain]
        assert scale.off + 0.1 < scale.on
        assert scale.auc > 0.8
        assert len(scale.goal_centre) == len(scale.action_centre) == 2 * 256


@pytest.mark.parametrize(
    ("goal", "domain", "made_for"),
    [
        ("Fix the login bug", "code", ("latin", "code")),
        ("修复登录错误", "code", ("cjk", "general")),
        ("Исправь ошибку входа", "code", ("latin", "general")),
        ("Fix the login bug", "robotics", ("latin", "general")),
    ],
)
def test_what_nobody_calibrated_falls_back_to_general(
    encoder: Encoder, goal: str, domain: str, made_for: tuple[str, str]
) -> None:
    spoken, kind = made_for
    assert scale_for(encoder.name, language_of(goal), domain) is shipped().encoders[encoder.name][spoken][kind]


# ---- the real encoder, on real runs


def test_chinese_work_on_the_goal_and_on_another_are_told_apart(encoder: Encoder) -> None:
    near = Drift(encoder)
    near.goal("修复用户无法登录的问题")
    login = [words(text) for text in ("运行登录测试 用户无法登录", "检查登录代码", "修改用户登录判断", "登录测试通过")]
    trip = [words(text) for text in ("搜索去上海的航班", "比较酒店价格", "预订酒店房间", "打印旅行行程")]
    assert max(values(near, login * 2)) < 0.5
    assert values(near, trip * 4)[-1] > 0.7


@pytest.fixture
async def mc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[midcourse.Midcourse]:
    monkeypatch.setenv("MIDCOURSE_SAMPLES_DIR", str(tmp_path / "work"))
    monkeypatch.setenv("MIDCOURSE_SAMPLE_PACE", "0")
    async with midcourse.open("memory://") as opened:
        yield opened


async def calls_of(mc: midcourse.Midcourse, agent: Any, goal: str) -> list[Called]:
    """Every call of a session, from its journal. No policy watches it: a run that is paused would not show its end."""
    session = await mc.start(agent, goal, terms=Terms(task_class="long"))
    await session.result()
    found: dict[str, Called] = {}
    async for seen in session.watch():
        match seen.event:
            case midcourse.events.StepBegun(step=step, kind="model"):
                found[step] = Called(kind="model", name="model")
            case midcourse.events.StepBegun(step=step, name=name, arguments=arguments):
                found[step] = Called(kind="tool", name=name, arguments=arguments)
            case midcourse.events.SegmentWritten(step=step, text=text):
                call = found[step]
                found[step] = Called(kind=call.kind, name=call.name, text=call.text + text)
            case midcourse.events.StepFinished(step=step, value=value) if found[step].kind == "tool":
                call = found[step]
                told = bytes(value.raw).decode()
                found[step] = Called(kind="tool", name=call.name, arguments=call.arguments, text=told)
            case _:
                pass
    return list(found.values())


def area(call: Called) -> str:
    return next((one for one in ("auth", "pool", "orm") if f"/{one}/" in call.arguments), "")


def drifts(encoder: Encoder, goal: str, calls: Sequence[Called], domain: str) -> list[float]:
    """After each call; 0 before anything can be said."""
    measured = Drift(encoder, domain=domain)
    measured.goal(goal)
    found: list[float] = []
    for call in calls:
        measured.act(text_of(call))
        found.append(measured.value() or 0.0)
    return found


@pytest.mark.parametrize("domain", ["general", "code"])
async def test_the_login_bug_drifts_from_authentication_to_the_orm(
    mc: midcourse.Midcourse, encoder: Encoder, domain: str
) -> None:
    (_, goal) = repo_fixer.GOALS
    calls = await calls_of(mc, repo_fixer.agent, goal)
    for heard in (calls, [call for call in calls if call.kind == "tool"]):
        found = drifts(encoder, goal, heard, domain)
        by_area = {
            name: [value for call, value in zip(heard, found, strict=True) if area(call) == name]
            for name in ("auth", "pool", "orm")
        }
        means = {name: float(np.mean(each)) for name, each in by_area.items()}
        assert by_area["auth"][0] == 0, by_area
        assert means["auth"] < 0.5, means
        assert means["auth"] < means["pool"] < means["orm"], means
        settled = by_area["orm"][WINDOW:]
        assert len(settled) >= WINDOW
        assert min(settled) > 0.5, settled


async def test_in_the_general_scale_the_login_bug_passes_the_standard_limit(
    mc: midcourse.Midcourse, encoder: Encoder
) -> None:
    (_, goal) = repo_fixer.GOALS
    calls = await calls_of(mc, repo_fixer.agent, goal)
    found = drifts(encoder, goal, calls, "general")
    first = next(number for number, value in enumerate(found) if value >= 0.7)
    assert first < next(number for number, call in enumerate(calls) if area(call) == "orm")


@pytest.mark.parametrize("domain", ["general", "code"])
@pytest.mark.parametrize("goal", churn_memo.GOALS)
async def test_the_churn_memo_stays_with_its_goal(
    mc: midcourse.Midcourse, encoder: Encoder, goal: str, domain: str
) -> None:
    calls = await calls_of(mc, churn_memo.agent, goal)
    assert max(drifts(encoder, goal, calls, domain)) < 0.3


@pytest.mark.parametrize("domain", ["general", "code"])
async def test_47_edits_of_one_rename_are_no_drift(mc: midcourse.Midcourse, encoder: Encoder, domain: str) -> None:
    (goal, _) = repo_fixer.GOALS
    calls = await calls_of(mc, repo_fixer.agent, goal)
    assert max(drifts(encoder, goal, calls, domain)) < 0.5
