"""Has a child do a step: creates it, sets it going, passes its asks on, and takes its result and its cost."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from midcourse.core import events as ev
from midcourse.core.ids import child_id
from midcourse.core.session import ENDED, Session, Status
from midcourse.runtime.agents import Agent
from midcourse.runtime.calls import CallEnd, CallInFlight
from midcourse.runtime.children import parent_name
from midcourse.runtime.context import RuntimeContext
from midcourse.runtime.gate import LETS_RUN
from midcourse.runtime.journal import Journal
from midcourse.runtime.session_budget import SessionBudget
from midcourse.runtime.session_loader import content_of


class ChildError(Exception):
    """A child ended without a result. The agent sees it as a ``StepError`` of this kind."""


class ChildStep:
    """The children of one session while their parent waits for them, on the agent's loop."""

    def __init__(
        self,
        journal: Journal,
        ctx: RuntimeContext,
        *,
        moved: Callable[[], None],
        purse: SessionBudget,
    ) -> None:
        self._journal = journal
        self._ctx = ctx
        self._moved = moved
        self._session_budget = purse

    async def run(self, call: CallInFlight, ended: CallEnd, agent: Agent[object], goal: str) -> None:
        """Have the child that ``call`` spawns do ``goal``, from its creation or from wherever it stands, to its end."""
        journal, tree = self._journal, self._ctx.tree
        parent, child = journal.session.id, child_id(journal.session.id, call.step)
        with self._starting_child(call):
            await tree.create_child(child, agent, goal, parent)
        again = journal.log.steps[call.step].again
        with self._ctx.fanout.watching(child) as watcher:
            with self._starting_child(call):
                await tree.start_child(child, parent, again=again)
            while True:
                session = await tree.look_up(child)
                self._session_budget.count_child(child, await tree.cost(child))
                # Queued: whoever had it was just letting it go. Stopped by this parent, which goes on: that was lifted
                # before it had reached the child, or it asks for more than this session seems to have.
                if session.status is Status.QUEUED or (self._pause_still_holds(session) and self._affords(session)):
                    with self._starting_child(call):
                        await tree.start_child(child, parent, again=again)
                self._pass_on_asks(session)
                if session.status in ENDED:
                    break
                call.spent.cost = max(0.0, session.cost - journal.log.steps[call.step].cost) or None
                await watcher.wait(1.0)
        record = journal.log.steps[call.step]
        spent = session.cost - record.cost
        ended.cost = None if session.unpriced and not spent else spent
        ended.tokens = session.tokens - record.tokens
        if session.status is not Status.COMPLETED or session.result is None:
            why = session.failure.message if session.failure else "it was cancelled"
            raise ChildError(f"child '{child}' ended as {session.status}: {why}")
        ended.content = await content_of(self._ctx.store, session.result)

    def _pause_still_holds(self, child: Session) -> bool:
        """Return True if an earlier pause of this session still holds the child."""
        mine, by = self._journal.session, parent_name(self._journal.session.id)
        if mine.status not in LETS_RUN:
            return False
        if child.pause is not None:
            return child.pause.of(by) is not None
        return child.finishing is not None and child.finishing.stop == "pause" and child.finishing.by == by

    def _affords(self, child: Session) -> bool:
        """Return whether there is enough left for what the child wants, if it waits for that."""
        held = child.pause.of(parent_name(self._journal.session.id)) if child.pause is not None else None
        return held is None or held.wants is None or self._session_budget.affords_child(child.id, held.wants)

    @contextmanager
    def _starting_child(self, call: CallInFlight) -> Generator[None]:
        """Meanwhile the parent's stop waits to be passed on: it would be taken for an old one, and lifted."""
        call.is_setting_going = True
        try:
            yield
        finally:
            call.is_setting_going = False
            self._moved()

    def _pass_on_asks(self, child: Session) -> None:
        """Show a child's asks to this session's people: its own and those of its children."""
        journal = self._journal
        asked = {(child.id, ask.id): (ask.reason, ask.prompt) for ask in child.asks}
        asked |= {(ask.child, ask.ask): (ask.reason, ask.prompt) for ask in child.child_asks}
        with journal.lock:
            known = {
                (ask.child, ask.ask) for ask in journal.session.child_asks if f"{ask.child}.".startswith(f"{child.id}.")
            }
            for owner, ask in sorted(known - set(asked)):
                journal.note(ev.ChildAskClosed(child=owner, ask=ask))
            for owner, ask in sorted(set(asked) - known):
                reason, prompt = asked[owner, ask]
                journal.note(ev.ChildAsked(child=owner, ask=ask, reason=reason, prompt=prompt))
