"""Which satellites a release holds: the benchmark's fifty, read from ``selection.toml``, or one's own."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError

BENCHMARK_SELECTION = Path(__file__).with_name("selection.toml")


class SelectionError(InputError):
    """A selection file that cannot be used."""


@dataclass(frozen=True)
class Selected:
    """One satellite of a selection; ``regime`` is checked against its elements when it is built."""

    catalog_number: int
    split: str
    regime: str | None = None
    reason: str = ""


def read_selection(path: str | Path = BENCHMARK_SELECTION) -> tuple[Selected, ...]:
    """Read a selection file, in its order.

    Parameters
    ----------
    path : str or Path
        TOML with one ``[[satellite]]`` table each: ``catalog_number``, and optionally ``split`` (``dev``
        or ``test``), ``regime`` and ``reason``.

    Returns
    -------
    tuple of Selected

    Raises
    ------
    SelectionError
        Naming the entry that does not hold.

    Examples
    --------
    >>> fifty = read_selection()
    >>> len(fifty), sum(s.split == "dev" for s in fifty)
    (50, 10)
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SelectionError(f"selection {path} cannot be read: {error}") from None
    entries = content.get("satellite")
    if not isinstance(entries, list) or not entries:
        raise SelectionError(f"selection {path} needs at least one [[satellite]] table")
    selected = tuple(_entry(entry, number, path) for number, entry in enumerate(entries, 1))
    numbers = [s.catalog_number for s in selected]
    for number in numbers:
        if numbers.count(number) > 1:
            raise SelectionError(f"selection {path} names catalogue number {number} more than once")
    return selected


def _entry(entry: object, number: int, path: str | Path) -> Selected:
    where = f"selection {path}, satellite {number}"
    if not isinstance(entry, dict):
        raise SelectionError(f"{where} is not a table")
    unknown = set(entry) - {"catalog_number", "split", "regime", "reason"}
    if unknown:
        raise SelectionError(
            f"{where} has the unknown key {sorted(unknown)[0]!r}; known are catalog_number, split, regime, reason"
        )
    catalog_number = entry.get("catalog_number")
    if type(catalog_number) is not int or not 0 < catalog_number <= 999_999_999:
        raise SelectionError(f"{where}: catalog_number must be 1 to 999999999, got {catalog_number!r}")
    split = entry.get("split", "test")
    if split not in ("dev", "test"):
        raise SelectionError(f"{where}: split must be dev or test, got {split!r}")
    regime = entry.get("regime")
    if regime not in (None, "leo", "meo", "geo", "heo", "other"):
        raise SelectionError(f"{where}: regime must be leo, meo, geo, heo or other, got {regime!r}")
    return Selected(catalog_number, split, regime, str(entry.get("reason", "")))
