"""The facts a journal is made of: past tense, versioned, never edited. Import them all from here.

The tag of an event is ``{domain}.{action}@{version}``. To change the shape of one, give its class the next version and
register an upcaster from the old one; whatever was ever journaled stays readable.
"""

from midcourse.core.events.asks import *
from midcourse.core.events.calls import *
from midcourse.core.events.cancels import *  # pyright: ignore[reportGeneralTypeIssues] - the same NOTHING
from midcourse.core.events.event import *
from midcourse.core.events.halts import *
from midcourse.core.events.interventions import *
from midcourse.core.events.messages import *
from midcourse.core.events.pauses import *
from midcourse.core.events.records import *
from midcourse.core.events.turns import *  # pyright: ignore[reportGeneralTypeIssues] - the same NOTHING
