"""The dataset card, generated from the manifest: YAML for the Hub, Markdown for people.

Sections are those of the Hub's dataset card, and a datasheet after Gebru et al. (2021). The card states
the sha256 of the manifest, of the files that go with it, and of itself, so that `check_card` notices
any byte that was changed.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..manifest import CARD_NAME, COMPANIONS, PICTURE_NAME, Manifest, ReleaseError, file_sha256
from . import facts

MOST_ROWS_IN_TABLE = 200
_OWN_DIGEST = re.compile(r"^orbittrace_card_sha256: ([0-9a-f]{64})$", re.MULTILINE)
_COMPANION_DIGEST = re.compile(r"^  (\S+): ([0-9a-f]{64})$", re.MULTILINE)
_UNSEALED = "f" * 64  # YAML would quote zeros


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
        _introduction(manifest, traces, PICTURE_NAME in companions),
        _details(manifest),
        _uses(),
        _structure(manifest),
        _traces(traces),
        _energy(manifest),
        _creation(manifest),
        _error_budget(manifest),
        _provenance(manifest),
        _limits(),
        _datasheet(manifest),
        _citation(manifest),
        _glossary(),
        _contact(),
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
        "license_name": "see-licence-notice",
        "language": ["en"],
        "annotations_creators": ["no-annotation"],
        "source_datasets": ["original"],
        "tags": [*facts.KEYWORDS],
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


def _introduction(manifest: Manifest, traces: pa.Table, picture: bool) -> str:
    counts = Counter(traces["regime"].to_pylist())
    regimes = ", ".join(f"{count} {regime.upper()}" for regime, count in counts.items())
    shown = f"![Timelines of some of the traces]({PICTURE_NAME})\n\n" if picture else ""
    return f"""# Dataset Card for OrbitTrace {facts.plain(manifest.label)}

{facts.what_it_is(manifest)} They are for research on training that is interrupted by *predictable* gaps
([{facts.PAPER}]({facts.PAPER_URL})).

{shown}```python
from datasets import load_dataset

traces = load_dataset("orbittrace", split="test")  # this folder; on the Hub NAMESPACE/orbittrace
```

Or with the project's own loader, which checks every digest and gives the version that is asked for or an error:

```python
from orbittrace_data import load_traces

traces = load_traces(source="NAMESPACE/orbittrace", version="{manifest.version}")
```

`load_dataset` pins a version with `revision="v{manifest.version}"`, but offline it takes whatever it has in its cache, with no word.

By regime: {regimes}.
"""


def _details(manifest: Manifest) -> str:
    share = manifest.model["min_sunlight"]
    return f"""## Dataset Details

### Dataset Description

{facts.origin(manifest)}

- **Curated by:** {facts.CURATORS}
- **Language(s) (NLP):** none; column names are English
- **License:** that of the element sets, see [Licence notice](#licence-notice)
- **Paper:** [{facts.PAPER}]({facts.PAPER_URL}), whose question these traces make checkable

### What the numbers mean

- **t = 0** is {facts.instant(manifest.start_ms)}, the start of every trace. Times `*_ms` are whole milliseconds from it (int64).
- **Intervals** are half-open: [start, stop). Windows and gaps tile the span without overlap.
- **Available** means: neither the Earth nor the Moon hides more than {1 - share:.0%} of the Sun's disc. It is direct
  sunlight at the satellite, *not* the state of its battery, and nobody's operations.
- A **gap** is the union of the Earth's and the Moon's intervals beyond that limit.{_in_energy(manifest)}
- The schedule is **computed, not observed**: nothing was sampled.
"""


def _uses() -> str:
    return f"""## Uses

### Direct Use

{_bullets(facts.USES)}

### Out-of-Scope Use

{_bullets(facts.OUT_OF_SCOPE)}
"""


def _structure(manifest: Manifest) -> str:
    parts = ["## Dataset Structure\n", "| config | split | rows | what |", "|---|---|---|---|"]
    for config, split, rows in _by_config_and_split(manifest):
        parts.append(f"| `{config}` | `{split}` | {rows:,} | {facts.CONFIG_MEANING[config]} |")
    if manifest.kind == "benchmark":
        parts.append(
            "\n`dev` is for tuning, `test` for reporting; both hold every regime. The splits are stratified and were "
            "fixed with the selection of the satellites.\n"
        )
    for config, columns in manifest.schema.items():
        parts += [
            f"\n<details><summary>Columns of <code>{config}</code></summary>\n",
            "| column | type | what |",
            "|---|---|---|",
        ]
        parts += [f"| `{c['name']}` | {c['type']} | {facts.COLUMN_MEANING[c['name']]} |" for c in columns]
        parts.append("\n</details>\n")
    return "\n".join(parts)


def _by_config_and_split(manifest: Manifest) -> list[tuple[str, str, int]]:
    rows: dict[tuple[str, str], int] = {}
    for file in manifest.files:
        key = (file.config, file.split)
        rows[key] = rows.get(key, 0) + file.rows
    return [(config, split, count) for (config, split), count in rows.items()]


def _traces(traces: pa.Table) -> str:
    if traces.num_rows > MOST_ROWS_IN_TABLE:
        return ""
    return "### The traces\n\n" + traces_markdown(traces)


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
        name = facts.plain(row["name"])
        gaps = f"{row['gap_count']}" if row["gap_count"] else "none: control"
        lines.append(
            f"| `{row['trace_id']}` | {name} | {row['orbit_class']} | "
            f"{row['perigee_km']:,.0f} x {row['apogee_km']:,.0f} km | {row['inclination_deg']:.1f} deg | "
            f"{row['beta_min_deg']:.0f} to {row['beta_max_deg']:.0f} deg | {row['duty_cycle']:.4f} | {gaps} | "
            f"{row['longest_gap_ms'] / 60_000:.1f} min |"
        )
    return "\n".join(lines) + "\n"


def _in_energy(manifest: Manifest) -> str:
    if manifest.power is None:
        return ""
    return "\n- In `energy` **available** means instead: the payload runs on panel and battery (see [Energy](#energy))."


def _energy(manifest: Manifest) -> str:
    if manifest.power is None:
        return ""
    return f"""### Energy

The config `energy` puts one spacecraft on every orbit, {facts.power(manifest)}. The panel's yield follows the visible
share of the Sun's disc; the state of charge is integrated exactly, in integers, and each switch falls on one
millisecond. So a gap starts after the eclipse does, may outlast it or not come at all. The manifest holds
these figures under `power`; which of those that ship are published ones and which assumptions is said in the package, in
`orbittrace_data/spacecraft`.

```python
energy = load_traces(config="energy", source="NAMESPACE/orbittrace")  # or load_dataset("orbittrace", "energy")
```
"""


def _creation(manifest: Manifest) -> str:
    model = manifest.model
    earth = "WGS84 ellipsoid by axis scaling" if model["earth"] == "oblate" else "sphere"
    return f"""## Dataset Creation

### Curation Rationale

The paper compares optimizers under eclipses of three orbital regimes. Its comparison can be repeated only with the
traces themselves: which satellites, when, and how the shadow was computed. Here all of it is frozen and digested.

### Source Data

#### Data Collection and Processing

{facts.COLLECTION}

- **Positions**: SGP4 (WGS72, improved mode) from the element sets in `elements`, in TEME.
- **Sun and Moon**: apparent, with light-time, from ERFA (`epv00` with annual aberration; `moon98`), rotated to TEME by
  IAU 2006/2000A precession-nutation and the equation of the equinoxes. No Earth-orientation table and no network.
- **Shadow**: {model["cone"]} of an Earth of {model["earth_radius_km"]} km ({earth}), opaque atmosphere
  {model["atmosphere_km"]:g} km; Moon {"on" if model["moon"] else "off"}; Sun 695,700 km (IAU 2015 B3). `half` is where half of the
  disc's area is hidden (planar overlap of two discs, Montenbruck & Gill 2000, 3.4.2).
- **Contacts**: a coarse grid finds sign changes and extrema, so that grazing eclipses are not missed; each contact is
  then refined on SGP4 itself.
- **Rounding**: {facts.PREPROCESSING}
- **Missing**: {facts.missing(manifest)}

#### Who are the source data producers?

{manifest.snapshot["source"]}

### How the numbers were checked

Against brute force in 1 s steps, skyfield with DE421, Orekit, and the published SGP4 verification vectors, in the test
suite of the package; `orbittrace verify` rebuilds every row of this release and compares.

### Annotations

None. No person labelled anything.

#### Personal and Sensitive Information

{facts.SENSITIVE}
"""


def _error_budget(manifest: Manifest) -> str:
    budget = manifest.notes.get("error_budget")
    if not budget:
        return ""
    lines = [
        "### Error budget\n",
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
    return "" if row is None else f"{_seconds(row['median_s'])} / {_seconds(row['max_s'])}"


def _seconds(seconds: float) -> str:
    return (
        f"{seconds:,.0f}"
        if seconds >= 10 or seconds == 0
        else f"{seconds:.2g}"
        if seconds >= 0.01
        else f"{seconds:.4f}"
    )


def _provenance(manifest: Manifest) -> str:
    snapshot = manifest.snapshot
    tools = ", ".join(f"{name} {version}" for name, version in manifest.tools.items())
    return f"""### Provenance

- Element sets: snapshot `{snapshot["name"]}`, sha256 `{snapshot["elements_sha256"]}`.
- Content digest of this release, equal for equal rows whatever wrote the files: `{manifest.content_digest}`.
- Made with {tools}.

### Licence notice

{snapshot["licence_notice"]}

The code that made this release is under Apache-2.0; that licence does not extend to the element sets.
"""


def _limits() -> str:
    return f"""## Bias, Risks, and Limitations

{_bullets((*facts.BIASES, *facts.LIMITS))}

### Recommendations

{_bullets(facts.RECOMMENDATIONS)}
"""


def _datasheet(manifest: Manifest) -> str:
    """Answer the questions of Gebru et al. (2021) that no section above has answered."""
    kind = (
        "fixed by hand, each with its reason"
        if manifest.kind == "benchmark"
        else "chosen by whoever built this"
    )
    return f"""## Datasheet

After Gebru et al., "Datasheets for Datasets" (2021); what stands in a section above is not repeated.

**Motivation.** Who made it and why: see Curation Rationale.

**Composition.** An instance is one satellite over {facts.span(manifest)}. The satellites were {kind}; they are not a sample.
Instances are independent but share the Sun, the Moon and the dates. Errors: see the error budget. Nothing in it is
confidential, offensive or about people; it refers to no outside resource.

**Collection.** By computation, see Data Collection and Processing; the element sets' epochs span
{manifest.snapshot["oldest_epoch"]} to {manifest.snapshot["newest_epoch"]}. No persons are involved.

**Preprocessing.** See Rounding above. The raw element sets are part of the release (config `elements`).

**Uses.** See Uses. {facts.SOCIAL_IMPACT}

**Distribution.** As a Hugging Face dataset and inside the Python package `orbittrace-data`. Terms: see the
licence notice.

**Maintenance.** {facts.MAINTENANCE}
"""


def _citation(manifest: Manifest) -> str:
    return f"""## Citation

**BibTeX:**

```bibtex
{facts.bibtex(manifest)}
```

Element sets: {manifest.snapshot["citation"]}
"""


def _glossary() -> str:
    return """## Glossary

- **window**, **gap**: an interval in which the satellite is available, or is not.
- **duty cycle**: available time over the span.
- **control**: a trace without a gap.
- **epoch**: of an element set, the instant it was fitted to.
- **beta angle**: of the orbital plane against the Sun; the larger, the shorter the eclipses.
- **contact**: the instant of entering or leaving penumbra, half shadow or umbra.
"""


def _contact() -> str:
    return """## Dataset Card Contact

The community page of this dataset on the Hub, or the issue tracker of the package `orbittrace-data`.
"""


def _bullets(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
