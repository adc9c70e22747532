"""Midcourse, the interrupt handle for AI agents: pause, resume, redirect, cancel or answer any of them, durably."""

from importlib import import_module
from typing import TYPE_CHECKING

from midcourse._version import __version__ as __version__

if TYPE_CHECKING:
    from midcourse._public import *  # noqa: F403
    from midcourse._public import __all__ as __all__
else:

    def __getattr__(name):
        """Return a public name. The first one that is used imports what they are made of."""
        if not name.startswith("_") or name == "__all__":
            public = vars(import_module("midcourse._public"))
            if name in public["__all__"] or name == "__all__":
                return globals().setdefault(name, public[name])
        raise AttributeError(f"module 'midcourse' has no attribute '{name}'", name=name, obj=import_module(__name__))

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
