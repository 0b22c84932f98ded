"""Power systems: one panel, one battery, one payload; a few spacecraft ship as TOML with their sources."""

import tomllib
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from .errors import InputError


class PowerModelError(InputError):
    """What was given is no power system."""


@dataclass(frozen=True)
class PowerModel:
    """A power system: one panel, one battery, one payload that can be switched off.

    Parameters
    ----------
    panel_w : float
        Panel output in full sunlight at normal incidence [W].
    battery_wh : float
        Battery capacity [Wh]; 0 for none.
    load_w : float
        All that is drawn while the payload runs, bus included [W].
    idle_w : float
        What is drawn while it does not: the bus alone [W].
    charge_efficiency : float
        Share of a surplus that arrives in the battery, (0, 1]; discharging is counted as lossless, so
        give the round trip here.
    min_soc : float
        State of charge below which the payload is switched off, [0, 1].
    resume_soc : float
        State of charge at which it is switched on again, (min_soc, 1].
    initial_soc : float
        State of charge at the trace's start, [0, 1]; the payload starts running where it is at least min_soc.
    sun_angle_deg : float
        Constant angle between the Sun and a fixed panel's normal [deg], [0, 90); 0 for a panel that follows.
    name : str
        For people and for the trace's id.

    Raises
    ------
    PowerModelError

    Examples
    --------
    >>> PowerModel(panel_w=44, battery_wh=40, load_w=33, idle_w=8).resume_soc
    0.9
    """

    panel_w: float
    battery_wh: float
    load_w: float
    idle_w: float
    charge_efficiency: float = 0.9
    min_soc: float = 0.7
    resume_soc: float = 0.9
    initial_soc: float = 1.0
    sun_angle_deg: float = 0.0
    name: str = "power"

    def __post_init__(self):
        for column in fields(self):
            value = getattr(self, column.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if column.name != "name" and not (number and -1e300 < value < 1e300):
                raise PowerModelError(f"{column.name} must be a finite number, got {value!r}")
        if not (isinstance(self.name, str) and self.name and self.name.isprintable()):
            raise PowerModelError(f"name must be printable text, got {self.name!r}: rename the file")
        ranges = {
            "panel_w": (0 < self.panel_w <= 1e9, "(0, 1e9] W"),
            "battery_wh": (0 <= self.battery_wh <= 1e9, "[0, 1e9] Wh, 0 for no battery"),
            "load_w": (0 < self.load_w <= 1e9, "(0, 1e9] W"),
            "idle_w": (0 <= self.idle_w < self.load_w, f"[0, load_w = {self.load_w}) W"),
            "charge_efficiency": (0 < self.charge_efficiency <= 1, "(0, 1]"),
            "min_soc": (0 <= self.min_soc <= 1, "[0, 1]"),
            "resume_soc": (0 <= self.resume_soc <= 1, "[0, 1]"),
            "initial_soc": (0 <= self.initial_soc <= 1, "[0, 1]"),
            "sun_angle_deg": (0 <= self.sun_angle_deg < 90, "[0, 90) degrees"),
        }
        for name, (holds, allowed) in ranges.items():
            if not holds:
                raise PowerModelError(f"{name} must lie in {allowed}, got {getattr(self, name)}")
        if self.battery_wh > 0 and self.resume_soc <= self.min_soc:
            raise PowerModelError(
                f"resume_soc must lie in (min_soc = {self.min_soc}, 1], got {self.resume_soc}: raise resume_soc, or lower "
                "min_soc"
            )
        band_s = (self.resume_soc - self.min_soc) * self.battery_wh * 3600 / self.load_w
        if self.battery_wh > 0 and band_s < 1:
            raise PowerModelError(
                f"between min_soc {self.min_soc} and resume_soc {self.resume_soc} the battery feeds the load "
                f"for {band_s:.3g} s; allowed is 1 s or more: raise resume_soc, or the payload would "
                "switch all the time (battery_wh = 0 means no battery)"
            )

    @classmethod
    def read(cls, source: str | Path) -> "PowerModel":
        """Read a power system from a TOML file, or one that ships with the package by its name.

        Parameters
        ----------
        source : str or Path
            A file whose table ``[power]`` holds the parameters, or ``cubesat-6u``, ``smallsat-500w`` or
            ``compute-2kw``.

        Returns
        -------
        PowerModel

        Raises
        ------
        PowerModelError
            If there is no such file or name, or a parameter is missing, unknown or out of range.

        Examples
        --------
        >>> PowerModel.read("cubesat-6u").panel_w
        44.0
        """
        path: Any = Path(source)
        shipped = shipped_spacecraft()
        if str(source) in shipped:
            path = files("orbittrace_data").joinpath("spacecraft", f"{source}.toml")
        try:
            if not path.is_file():  # a pipe or a device might never end
                raise FileNotFoundError
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError:
            raise PowerModelError(
                f"{str(source)!r} is neither a readable file nor a spacecraft that ships here: "
                f"give a TOML file or one of {', '.join(shipped)}"
            ) from None
        except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
            raise PowerModelError(f"{source} is no TOML file: {error}") from None
        except RecursionError:
            raise PowerModelError(f"{source} is no power system: its tables are nested too deeply") from None
        table = document.get("power")
        names = [column.name for column in fields(cls) if column.name != "name"]
        required = ["panel_w", "battery_wh", "load_w", "idle_w"]
        if not isinstance(table, dict):
            raise PowerModelError(f"{source} has no table [power]: give one with {', '.join(required)}")
        odd = [f"{name} is missing" for name in required if name not in table]
        odd += [f"{name!r} is unknown" for name in table if name not in names]
        if odd:
            raise PowerModelError(
                f"{source}: {', '.join(odd)}; a table [power] has {', '.join(required)} and any of "
                f"{', '.join(name for name in names if name not in required)}"
            )
        try:
            return cls(**table, name=path.name.removesuffix(".toml"))
        except PowerModelError as error:
            raise PowerModelError(f"{source}: {error}") from None


def shipped_spacecraft() -> list[str]:
    """List the names of the spacecraft that ship with the package.

    Examples
    --------
    >>> shipped_spacecraft()
    ['compute-2kw', 'cubesat-6u', 'smallsat-500w']
    """
    names = [entry.name for entry in files("orbittrace_data").joinpath("spacecraft").iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))
