"""Availability traces of real satellites, for training that is interrupted by predictable gaps.

>>> from orbittrace_data import load_trace
>>> iss = load_trace("leo-25544")
>>> iss.regime, iss.span_ms
('leo', 1209600000)
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from .energy import energy_trace
    from .loader import load_table, load_trace, load_traces
    from .plan import Plan
    from .power_model import PowerModel
    from .schedules import duty_cycle_trace, periodic_pause_trace, power_cap_trace
    from .trace import Trace
    from .trace_spec import resolve_trace

__all__ = [
    "Plan",
    "PowerModel",
    "Trace",
    "__version__",
    "duty_cycle_trace",
    "energy_trace",
    "load_table",
    "load_trace",
    "load_traces",
    "periodic_pause_trace",
    "power_cap_trace",
    "resolve_trace",
]

# In a checkout, builders/, trainers/ and tle_snapshots/ lie beside this folder and not inside it.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "pyproject.toml").is_file() and (_checkout / "builders").is_dir():
    __path__.append(str(_checkout))

# Names are imported when they are first used: `import orbittrace_data` stays far under 0.2 s.
_HOME = {
    "Plan": "plan",
    "PowerModel": "power_model",
    "Trace": "trace",
    "duty_cycle_trace": "schedules",
    "energy_trace": "energy",
    "load_table": "loader",
    "load_trace": "loader",
    "load_traces": "loader",
    "periodic_pause_trace": "schedules",
    "power_cap_trace": "schedules",
    "resolve_trace": "trace_spec",
}


def __getattr__(name: str):
    """Import a public name from its module (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    """List the public names for completion."""
    return sorted(__all__)
