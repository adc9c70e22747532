"""Track a session's spending, running calls included, and stop it where its budget ends."""

from collections.abc import Callable
from contextlib import suppress

from midcourse.core.budget import Outlay, above, affords, is_spent, is_within, usual_price
from midcourse.core.ids import SessionId
from midcourse.core.money import money
from midcourse.core.pauses import finishes_first
from midcourse.errors import Damaged, InterruptRequested, SessionNotFound, StoreError
from midcourse.runtime.calls import CallInFlight
from midcourse.runtime.children import parent_name
from midcourse.runtime.context import SessionTree
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal


class SessionBudget:
    """The budget of one session, on the agent's loop. What a child wants to spend is its parents' to pay as well.

    A call keeps what it was priced at from its start to its end. Who asks and who keeps do so without an await in
    between, so that calls side by side, here or in children, never count on the same dollars.
    """

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        tree: SessionTree,
        *,
        at_cap: Callable[[Outlay, float], None],
        with_parent: Callable[[str, str, float], None],
    ) -> None:
        """``at_cap`` stops the session: for its spending, and for the price of a call that it cannot pay.

        ``with_parent`` stops it for a parent that is being stopped so: given that parent's name, the reason, and what
        this session would have spent in all, which the parent decides on if another process drives it.
        """
        self._journal = journal
        self._gate = gate
        self._tree = tree
        self._at_cap = at_cap
        self._with_parent = with_parent
        self._children: dict[SessionId, float] = {}
        self._limit: float | None = None

    @property
    def so_far(self) -> Outlay:
        """Return the journaled cost, that reported by running calls since, and that they may still add."""
        session = self._journal.session
        spent, kept = session.cost, 0.0
        for call in (*self._gate.begun.values(), *self._gate.on_the_way.values()):
            known = session.calls.get(call.step)
            told = call.spent.cost or 0.0
            if call.kind != "child":
                spent += max(0.0, told - (known.spent if known is not None else 0.0))
                kept += max(0.0, call.foreseen - told)
        for step, child in session.children.items():
            below = self._tree.outlay(child) or Outlay(self._children.get(child, 0.0))
            record = self._journal.log.steps.get(step)
            spent += max(0.0, below.spent - (record.cost if record is not None else 0.0))
            kept += below.kept
        return Outlay(spent, kept)

    def affords(self, price: float) -> bool:
        """Return True if a call of this ``price`` may begin. If not, the session is being paused for it."""
        journal = self._journal
        if journal.session.terms.budget is not None:
            with journal.lock:
                so_far = self.so_far
                if not affords(journal.session, so_far, price):
                    self._at_cap(so_far, price)
                    return finishes_first(journal.session)
        parent = journal.session.parent
        may = self._limit is None or is_within(self._limit, self.so_far, price)
        if parent is None or (may and self._tree.affords(parent, price)):
            return True
        paying = self._tree.look_up_here(parent)
        with journal.lock:
            so_far = self.so_far
            wants = so_far.spent + so_far.kept + price
            if paying is not None and paying.pause is not None:
                reason = paying.pause.reason
            else:
                least = "" if self._limit is None else f" by {money(above(max(wants - self._limit, 0.0)))} or more"
                who = f"The budget of its {parent_name(parent)}"
                reason = f"{who} does not cover its next call. Raise that{least}, then resume."
            self._with_parent(parent_name(parent), reason, wants)
            return finishes_first(journal.session)

    def reserve(self, call: CallInFlight, price: float) -> None:
        """Let a call go on whose request is going to cost so much, which is kept for it until it ends.

        Raises:
            InterruptRequested: it is too dear; no request was made, and nothing spent.
        """
        told, call.foreseen = call.spent.cost or 0.0, 0.0
        if not self.affords(price):
            call.spent.cost, call.stopped = told, True
            raise InterruptRequested
        call.foreseen = told + price

    def afford_usual(self, call: CallInFlight) -> None:
        """As ``reserve``, for a call that nothing is known of but what the last ones cost."""
        self.reserve(call, usual_price(self._journal.session))

    async def look_above(self) -> None:
        """Find out what those above it that other processes drive can still pay: they cannot be asked at once."""
        if self._journal.session.parent is not None:
            with suppress(StoreError):  # what was known before holds; the journal is about to hear of it
                left = await self._tree.left_above(self._journal.session)
                self._limit = None if left is None else self.so_far.spent + left

    async def look_below(self) -> None:
        """Take in what the children have spent that a stop or another process had left unfinished."""
        for child in self._journal.session.children.values():
            with suppress(SessionNotFound, Damaged, StoreError):
                self.count_child(child, await self._tree.cost(child))

    def affords_child(self, child: SessionId, wants: float) -> bool:
        """Return whether a child may have spent so much in all. If not, the session is being paused for it."""
        return self.affords(max(0.0, wants - self._children[child]))

    def count_child(self, child: SessionId, dollars: float) -> None:
        """Take in what a child has spent in all, and stop the session if that reaches its cap."""
        self._children[child] = max(dollars, self._children.get(child, 0.0))
        self.stop_if_spent()

    def stop_if_spent(self) -> None:
        """Stop the session if it has reached its cap."""
        journal = self._journal
        if journal.session.terms.budget is None:
            return
        with journal.lock:
            so_far = self.so_far
            if is_spent(journal.session, so_far.spent):
                self._at_cap(so_far, 0.0)
