r"""From element sets to traces: reading, SGP4, Sun and Moon, shadow, contacts, releases.

>>> from orbittrace_data.builders import read_element_sets, trace_from_elements
>>> reading = read_element_sets(
...     b"1 25544U 98067A   24266.39798760  .00041594  00000+0  74589-3 0  9997\n"
...     b"2 25544  51.6398 193.8799 0007144  19.4394  84.7888 15.49480284473626\n"
... )
>>> trace_from_elements(reading.element_sets[0], days=1).gap_count
16
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gp import read_element_sets
    from .satellite_trace import trace_from_elements
    from .snapshot import read_snapshot

__all__ = ["read_element_sets", "read_snapshot", "trace_from_elements"]

# Imported when first used: reading needs no SGP4, and a trace's reader none of it.
_HOME = {
    "read_element_sets": "gp",
    "read_snapshot": "snapshot",
    "trace_from_elements": "satellite_trace",
}


def __getattr__(name: str):
    """Import a public name from its module (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
