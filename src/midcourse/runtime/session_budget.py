"""Track a session's spending, running calls included, and stop it where its budget ends."""

from collections.abc import Callable

from midcourse.core.budget import affords, is_spent, usual_price
from midcourse.core.ids import child_id
from midcourse.errors import InterruptRequested
from midcourse.runtime.calls import CallInFlight
from midcourse.runtime.children import parent_name
from midcourse.runtime.context import SessionTree
from midcourse.runtime.gate import Gate
from midcourse.runtime.journal import Journal


class SessionBudget:
    """The budget of one session, on the agent's loop. What a child wants to spend is its parents' to pay as well."""

    def __init__(
        self,
        journal: Journal,
        gate: Gate,
        tree: SessionTree,
        *,
        at_cap: Callable[[float, float], None],
        with_parent: Callable[[str, str], None],
    ) -> None:
        """``at_cap`` stops the session: for its spending, and for the price of a call that it cannot pay.

        ``with_parent`` stops it for a parent that is being stopped so: given that parent's name, and the reason.
        """
        self._journal = journal
        self._gate = gate
        self._tree = tree
        self._at_cap = at_cap
        self._with_parent = with_parent

    @property
    def spent(self) -> float:
        """Dollars: the journaled ones, and what running calls have reported since."""
        session = self._journal.session
        running = 0.0
        for call in self._gate.begun.values():
            known = session.calls.get(call.step)
            told = call.spent.cost or 0.0
            if call.kind == "child":
                child = self._tree.spent(child_id(session.id, call.step))
                told = told if child is None else child - self._journal.log.steps[call.step].cost
            running += max(0.0, told - (known.spent if known is not None else 0.0))
        return session.cost + running

    def affords(self, price: float) -> bool:
        """Return True if a call of this ``price`` may begin. If not, the session is being paused for it."""
        journal = self._journal
        if journal.session.terms.budget is not None:
            with journal.lock:
                spent = self.spent
                if not affords(journal.session, spent, price):
                    self._at_cap(spent, price)
                    return self._gate.is_open  # it finishes first
        parent = journal.session.parent
        if parent is None or self._tree.affords(parent, price):
            return True
        above = self._tree.look_up_here(parent)
        reason = above.pause.reason if above is not None and above.pause is not None else ""
        with journal.lock:
            self._with_parent(parent_name(parent), reason)
            return self._gate.is_open

    def reserve(self, call: CallInFlight, price: float) -> None:
        """Let a call continue whose request will cost so much.

        Raises:
            InterruptRequested: it is too dear; no request was made, and nothing spent.
        """
        if not self.affords(price):
            call.spent.cost, call.stopped = 0.0, True
            raise InterruptRequested

    def afford_usual(self, call: CallInFlight) -> None:
        """Check the budget for a call with an unknown price, by the cost of the last ones."""
        self.reserve(call, usual_price(self._journal.session))

    def stop_if_spent(self) -> None:
        """Stop the session if it has reached its cap."""
        journal = self._journal
        if journal.session.terms.budget is None:
            return
        with journal.lock:
            spent = self.spent
            if is_spent(journal.session, spent):
                self._at_cap(spent, 0.0)
