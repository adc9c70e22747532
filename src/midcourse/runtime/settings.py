"""The numbers a runtime can be given, with what each means."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from midcourse.core.prices import Price, Prices, check_prices
from midcourse.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The times of everything. The defaults suit a person who watches."""

    park_after: float = 60.0
    """Seconds a session stays warm in memory while it is paused or waits for a person."""
    cleanup: float = 5.0
    """Seconds an agent's own cleanup may take after a stop, before its task is cancelled."""
    silent_after: float = 30.0
    """Seconds without a ``run.*`` call after which an agent is named as not pausable there."""
    unreachable_after: float = 1.0
    """Seconds after which an owner that does not decide a command is called not reachable."""
    poll: float = 0.5
    """Seconds between two looks for what a lost wake-up would have told."""
    blocked_after: float = 1.0
    """Seconds that code may hold the event loop before the session it belongs to is named."""
    max_running: int | None = None
    """Sessions that may run at once in this process; the others wait in a queue. None: as many as come."""
    undo_timeout: float = 60.0
    """Seconds an undo, a probe or a release may take, if its tool declares no ``timeout``."""
    world_timeout: float = 5.0
    """Seconds to check one thing that tools had observed, before a session continues."""
    world_after: float = 10.0
    """Seconds of rest after which a warm session checks what its tools had observed before it continues.

    A session rests while it is paused or halted, or waits for a person. 0: after every rest. Cold, it always checks.
    """
    approve_prod: bool = True
    """Ask a person before a call that changes something in the environment ``prod``."""
    approve_paid: bool = True
    """Ask a person before a call of a tool that declares a ``cost``."""
    require_environment: bool = False
    """Count a tool that names no environment as one of ``prod``."""
    policy: str = ""
    """The policy of sessions whose agent names none. Empty: they have none."""
    risk_model: str = ""
    """The file of the combined risk, for policies that use one. Empty: the one that comes with the package."""
    prices: Prices = field(default_factory=dict[str, Price])
    """The prices of models that are on no price list, by the name with which they answer; they override a list."""
    keep_for: float | None = None
    """Days after its end for which a session keeps what was said in it; a server erases it then. None: for good."""
    segment_tokens: int | None = None
    """Streamed pieces after which a durable segment is written, whatever policies say: the finer of the two.

    None: as the policy of a session says for its class, and 100 where it says nothing.
    """
    segment_seconds: float = 0.25
    """Seconds after which a durable segment is written, however short."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, str) or one.name == "prices":
                continue
            least = 1 if one.name in ("max_running", "segment_tokens") else 0
            if value is not None and not value >= least:
                raise InvalidInput(f"{one.name} is {value}; it is a number, {least} or more.", field=one.name)
        if not isinstance(self.prices, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInput("prices is a dict: the name of each model with its midcourse.Price.", field="prices")
        check_prices(self.prices)
        if self.poll == 0 or self.unreachable_after == 0:
            raise InvalidInput("poll and unreachable_after are seconds above 0.", field="poll")
