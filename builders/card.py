"""The dataset card, generated from the manifest: YAML for the Hub, Markdown for people.

The card states the sha256 of the manifest, of the files that go with it, and of itself, so that
`check_card` notices any byte that was changed.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..manifest import CARD_NAME, Manifest, ReleaseError, file_sha256
from ..trace import DAY_MS
from .croissant import CROISSANT_NAME

PICTURE_NAME = "timeline.png"
COMPANIONS = (CROISSANT_NAME, PICTURE_NAME)
_OWN_DIGEST = re.compile(r"^orbittrace_card_sha256: ([0-9a-f]{64})$", re.MULTILINE)
_COMPANION_DIGEST = re.compile(r"^  (\S+): ([0-9a-f]{64})$", re.MULTILINE)
_UNSEALED = "f" * 64  # YAML would quote zeros

CITATION_KEY = "orbittrace"
PAPER = "arXiv:2609.22087"

COLUMN_MEANING = {
    "trace_id": "regime and catalogue number",
    "name": "the satellite's name in the element sets",
    "regime": "`leo`, `meo`, `geo`, `heo` or `other`",
    "orbit_class": "kind of orbit within the regime, from the elements",
    "catalog_number": "NORAD catalogue number, up to nine digits",
    "object_id": "international designator (COSPAR)",
    "epoch": "of the element set, UTC",
    "start": "the instant of an interval's start, or of t = 0 in `traces`, UTC",
    "stop": "the instant of an interval's end, UTC",
    "span_ms": "length of the trace [ms]",
    "element_age_ms": "start less epoch [ms]",
    "inclination_deg": "[deg]",
    "eccentricity": "[1]",
    "period_s": "from the Kozai mean motion [s]",
    "perigee_km": "mean elements, above 6378.137 km [km]",
    "apogee_km": "mean elements, above 6378.137 km [km]",
    "beta_min_deg": "least beta angle in the span, signed towards r x v [deg]",
    "beta_max_deg": "greatest beta angle in the span [deg]",
    "duty_cycle": "available time over span [1]",
    "gap_count": "number of gaps",
    "longest_gap_ms": "[ms]",
    "gap_start_ms": "gaps' starts [ms from t = 0]",
    "gap_stop_ms": "gaps' ends [ms from t = 0]",
    "available": "whether the interval is a window (true) or a gap (false)",
    "start_ms": "start [ms from t = 0]",
    "stop_ms": "end, exclusive [ms from t = 0]",
    "occluder": "`earth` or `moon`",
    "depth": "`penumbra`, `half` (half of the disc hidden) or `umbra`",
    "cut_start": "whether the span's start cut the interval",
    "cut_stop": "whether the span's end cut the interval",
    "max_obscuration": "greatest hidden share of the solar disc, on penumbra rows [1]",
    "mean_motion_rev_per_day": "Kozai [rev/d]",
    "ra_of_asc_node_deg": "TEME [deg]",
    "arg_of_pericenter_deg": "[deg]",
    "mean_anomaly_deg": "[deg]",
    "ephemeris_type": "as in OMM",
    "classification_type": "as in OMM",
    "element_set_no": "as in OMM",
    "rev_at_epoch": "as in OMM",
    "bstar_per_earth_radius": "SGP4 drag term [1/Earth radius]",
    "mean_motion_dot_rev_per_day2": "half the first derivative [rev/d^2]",
    "mean_motion_ddot_rev_per_day3": "a sixth of the second derivative [rev/d^3]",
    "line1": "the TLE as read, null where a TLE cannot hold the object",
    "line2": "the TLE as read, null where a TLE cannot hold the object",
}

CONFIG_MEANING = {
    "traces": "one row a satellite: the facts and the gaps; the one that a trainer reads",
    "intervals": "windows and gaps of every trace in the order of time, one row each",
    "shadows": "every interval inside penumbra, half shadow and umbra of the Earth and of the Moon",
    "elements": "the element set that each trace was made from",
}


def render_card(
    manifest: Manifest, manifest_sha256: str, traces: pa.Table, companions: Mapping[str, str] | None = None
) -> str:
    """Write the card of a release.

    Parameters
    ----------
    manifest : Manifest
    manifest_sha256 : str
        Of the manifest's bytes; the card states it.
    traces : pyarrow.Table
        The rows of the ``traces`` config.
    companions : mapping of str to str, optional
        sha256 of each of the `COMPANIONS` that the release has; the card states them and shows the picture.

    Returns
    -------
    str
        Markdown with a YAML head.
    """
    companions = dict(companions or {})
    head = _yaml(_metadata(manifest, manifest_sha256, companions))
    sections = [
        _introduction(manifest, traces),
        _meaning(manifest),
        _structure(manifest),
        _traces(manifest, traces),
        _physics(manifest),
        _error_budget(manifest),
        _provenance(manifest),
        _limits(),
        _citation(manifest),
    ]
    return _sealed(f"---\n{head}---\n\n" + "\n".join(sections))


def check_card(folder: str | Path) -> None:
    """Check a card against its own digest, and the files that go with it against the card.

    Raises
    ------
    ReleaseError
        Naming the file that was changed or is missing.
    """
    path = Path(folder, CARD_NAME)
    card = path.read_text(encoding="utf-8", errors="surrogateescape")
    if not _OWN_DIGEST.search(card) or card != _sealed(card):
        raise ReleaseError(
            f"{path} was changed: it is not the card that this release was made with, get it again"
        )
    head = card[4 : card.index("\n---\n", 4)]
    for name, digest in _COMPANION_DIGEST.findall(head):
        companion = Path(folder, name)
        if name not in COMPANIONS or not companion.is_file() or file_sha256(companion) != digest:
            raise ReleaseError(f"{companion} is missing or was changed: get the release again")


def _sealed(card: str) -> str:
    """Return a card with the sha256 of its text in it, taken with zeros in that place."""
    blank = _OWN_DIGEST.sub(f"orbittrace_card_sha256: {_UNSEALED}", card, count=1)
    digest = hashlib.sha256(blank.encode("utf-8", errors="surrogateescape")).hexdigest()
    return blank.replace(f"orbittrace_card_sha256: {_UNSEALED}", f"orbittrace_card_sha256: {digest}", 1)


def _metadata(manifest: Manifest, manifest_sha256: str, companions: dict[str, str]) -> dict[str, Any]:
    configs, infos = [], []
    for config, columns in manifest.schema.items():
        files = manifest.files_of(config)
        splits = list(dict.fromkeys(file.split for file in files))
        # Both keys enter the name of the cache folder of `datasets`: without them a rebuilt folder
        # would silently give its old rows.
        configs.append(
            {
                "config_name": config,
                **({"default": True} if config == "traces" else {}),
                "version": manifest.version,
                "description": f"content sha256 {manifest.content_digest}",
                "data_files": [{"split": s, "path": f"data/{config}/{s}-*.parquet"} for s in splits],
            }
        )
        infos.append(
            {
                "config_name": config,
                "features": [_feature(column) for column in columns],
                "splits": [
                    {
                        "name": split,
                        "num_bytes": sum(f.bytes for f in files if f.split == split),
                        "num_examples": sum(f.rows for f in files if f.split == split),
                    }
                    for split in splits
                ],
                "download_size": sum(f.bytes for f in files),
                "dataset_size": sum(f.bytes for f in files),
            }
        )
    return {
        "pretty_name": "OrbitTrace" if manifest.kind == "benchmark" else f"OrbitTrace ({manifest.label})",
        "license": "other",
        "license_name": "usspacecom-basic-ssa-data",
        "license_link": "https://www.space-track.org/documentation#/user_agree",
        "language": ["en"],
        "tags": ["satellite", "orbit", "eclipse", "availability", "intermittent-training", "checkpointing"],
        "task_categories": ["time-series-forecasting", "other"],
        "size_categories": [
            _size_category(max(sum(f.rows for f in manifest.files_of(c)) for c in manifest.schema))
        ],
        "orbittrace_manifest_sha256": manifest_sha256,
        "orbittrace_card_sha256": _UNSEALED,
        **({"orbittrace_companions_sha256": companions} if companions else {}),
        "configs": configs,
        "dataset_info": infos,
    }


def _feature(column: dict[str, Any]) -> dict[str, Any]:
    kind = column["type"]
    if kind.startswith("list"):
        return {"name": column["name"], "list": "int64"}
    return {"name": column["name"], "dtype": {"double": "float64"}.get(kind, kind)}


def _size_category(rows: int) -> str:
    for limit, name in ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M")):
        if rows < limit:
            return name
    return "1M<n<10M" if rows < 10**7 else "10M<n<100M"


def _yaml(metadata: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=1000)


def _introduction(manifest: Manifest, traces: pa.Table) -> str:
    what = (
        f"{manifest.trace_count} availability traces of real satellites"
        if manifest.kind == "benchmark"
        else f"{manifest.trace_count} availability traces, **derived: this is not the OrbitTrace benchmark**"
    )
    counts = {row["values"]: row["counts"] for row in pc.value_counts(traces["regime"]).to_pylist()}
    regimes = ", ".join(f"{count} {regime.upper()}" for regime, count in counts.items())
    return f"""# OrbitTrace {manifest.label}

{what} ({regimes}): when each is in sunlight, and so able to compute, over {_days(manifest)} from
{_instant(manifest.start_ms)}. They were computed with SGP4 from the frozen element sets
`{manifest.snapshot["name"]}` and are reproducible to the row: `orbittrace verify` rebuilds them.

They are for research on training that is interrupted by *predictable* gaps ({PAPER}).

```python
from datasets import load_dataset

traces = load_dataset("orbittrace", split="test")  # the folder, or NAMESPACE/orbittrace on the Hub
```
"""


def _meaning(manifest: Manifest) -> str:
    share = manifest.model["min_sunlight"]
    return f"""## What the numbers mean

- **t = 0** is {_instant(manifest.start_ms)}, the start of every trace. Times `*_ms` are whole milliseconds from it (int64).
- **Intervals** are half-open: [start, stop). Windows and gaps tile the span without overlap.
- **Available** means: neither the Earth nor the Moon hides more than {1 - share:.0%} of the Sun's disc. It is direct
  sunlight at the satellite, *not* the state of its battery, and nobody's operations.
- A **gap** is the union of the Earth's and the Moon's intervals beyond that limit.
- The schedule is **computed, not observed**: no sampling, contacts are found to 1e-9 s and rounded to 1 ms, half to even.
"""


def _structure(manifest: Manifest) -> str:
    parts = ["## Structure\n", "| config | split | rows | what |", "|---|---|---|---|"]
    for file in _by_config_and_split(manifest):
        parts.append(f"| `{file[0]}` | `{file[1]}` | {file[2]:,} | {CONFIG_MEANING[file[0]]} |")
    if manifest.kind == "benchmark":
        parts.append("\n`dev` is for tuning, `test` for reporting; both hold every regime.\n")
    for config, columns in manifest.schema.items():
        parts += [
            f"\n<details><summary>Columns of <code>{config}</code></summary>\n",
            "| column | type | what |",
            "|---|---|---|",
        ]
        parts += [f"| `{c['name']}` | {c['type']} | {COLUMN_MEANING[c['name']]} |" for c in columns]
        parts.append("\n</details>\n")
    return "\n".join(parts)


def _by_config_and_split(manifest: Manifest) -> list[tuple[str, str, int]]:
    rows: dict[tuple[str, str], int] = {}
    for file in manifest.files:
        key = (file.config, file.split)
        rows[key] = rows.get(key, 0) + file.rows
    return [(config, split, count) for (config, split), count in rows.items()]


def _traces(manifest: Manifest, traces: pa.Table) -> str:
    if traces.num_rows > 200:
        return ""
    return "## The traces\n\n" + traces_markdown(traces)


def traces_markdown(traces: pa.Table) -> str:
    """Write the table of the traces in Markdown.

    Examples
    --------
    >>> from orbittrace_data import load_table
    >>> print(traces_markdown(load_table("traces").slice(0, 1)).splitlines()[0])
    | trace | satellite | orbit | perigee x apogee | inclination | beta | duty cycle | gaps | longest |
    """
    lines = [
        "| trace | satellite | orbit | perigee x apogee | inclination | beta | duty cycle | gaps | longest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in traces.to_pylist():
        gaps = f"{row['gap_count']}" if row["gap_count"] else "none: control"
        lines.append(
            f"| `{row['trace_id']}` | {row['name']} | {row['orbit_class']} | "
            f"{row['perigee_km']:,.0f} x {row['apogee_km']:,.0f} km | {row['inclination_deg']:.1f} deg | "
            f"{row['beta_min_deg']:.0f} to {row['beta_max_deg']:.0f} deg | {row['duty_cycle']:.4f} | {gaps} | "
            f"{row['longest_gap_ms'] / 60_000:.1f} min |"
        )
    return "\n".join(lines) + "\n"


def _physics(manifest: Manifest) -> str:
    model = manifest.model
    earth = "WGS84 ellipsoid by axis scaling" if model["earth"] == "oblate" else "sphere"
    return f"""## How the numbers were made

- **Positions**: SGP4 (WGS72, improved mode) from the element sets in `elements`, in TEME.
- **Sun and Moon**: apparent, with light-time, from ERFA (`epv00` with annual aberration; `moon98`), rotated to TEME by IAU 2006/2000A
  precession-nutation and the equation of the equinoxes. No Earth-orientation table and no network.
- **Shadow**: {model["cone"]} of an Earth of {model["earth_radius_km"]} km ({earth}), opaque atmosphere
  {model["atmosphere_km"]:g} km; Moon {"on" if model["moon"] else "off"}; Sun 695,700 km (IAU 2015 B3). `half` is where half of the disc's
  area is hidden (planar overlap of two discs, Montenbruck & Gill 2000, 3.4.2).
- **Contacts**: a coarse grid finds sign changes and extrema, so that grazing eclipses are not missed; each contact is then
  refined on SGP4 itself.
- **Floats** are rounded to stated decimals before they are written and digested.
- **Checked** against brute force in 1 s steps, skyfield with DE421, Orekit, and the published SGP4 verification vectors.
"""


def _error_budget(manifest: Manifest) -> str:
    budget = manifest.notes.get("error_budget")
    if not budget:
        return ""
    lines = [
        "## Error budget\n",
        "By how much each choice or error moves a gap's boundary, in seconds (median / largest).\n",
    ]
    regimes = list(dict.fromkeys(row["regime"] for row in budget))
    sources = list(dict.fromkeys(row["source"] for row in budget))
    lines += [
        "| source | " + " | ".join(r.upper() for r in regimes) + " |",
        "|---" * (len(regimes) + 1) + "|",
    ]
    for source in sources:
        cells = {row["regime"]: row for row in budget if row["source"] == source}
        texts = [_budget_cell(cells.get(regime)) for regime in regimes]
        lines.append(f"| {source} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def _budget_cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['median_s']:.2g} / {row['max_s']:.2g}"


def _provenance(manifest: Manifest) -> str:
    snapshot = manifest.snapshot
    tools = ", ".join(f"{name} {version}" for name, version in manifest.tools.items())
    return f"""## Provenance

- Element sets: snapshot `{snapshot["name"]}`, sha256 `{snapshot["elements_sha256"]}`. {snapshot["source"]}
- Content digest of this release: `{manifest.content_digest}`.
- Made with {tools}.

### Licence notice

{snapshot["licence_notice"]}

The code that made this release is under Apache-2.0; that licence does not extend to the element sets.
"""


def _limits() -> str:
    return """## Limits

- Sunlight is not power: batteries, panels and loads are not in these traces.
- A real atmosphere refracts and absorbs; the default shadow has none.
- Element sets age: a few seconds within days, minutes in strong drag (see `element_age_ms`).
- The three regimes are this project's reading; the satellites were chosen to spread what matters for training and are no
  sample of the population in orbit.
- Not for conjunction assessment or operations.
"""


def _citation(manifest: Manifest) -> str:
    year = datetime.fromtimestamp(manifest.start_ms / 1000, UTC).year
    return f"""## Citation

```bibtex
@misc{{{CITATION_KEY},
  title  = {{OrbitTrace: availability traces of real satellites}},
  author = {{{{The OrbitTrace maintainers}}}},
  note   = {{Data version {manifest.version}, element sets of {year}}}
}}
```

Element sets: {manifest.snapshot["citation"]}
"""


def _days(manifest: Manifest) -> str:
    return f"{manifest.span_ms / DAY_MS:.6g} days"


def _instant(ms: int) -> str:
    text = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03d}Z" if ms % 1000 else f"{text}Z"
