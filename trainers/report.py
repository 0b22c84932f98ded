"""The report: one HTML file that asks for nothing, a summary in Markdown, and the verdicts as JSON."""

import html
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .._version import __version__
from ..atomic import write_bytes
from .claims import FAILS, HOLDS, NOT_RUN, STATEMENTS, UNDECIDED, Runs, Verdict, verdicts
from .protocol import PROTOCOL, at_the_edge, by_setup, choose, key_of, short_name
from .records import Row, finished, rows_digest
from .secondary import secondary
from .statistics import Estimate

MARKS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?", NOT_RUN: "–"}
STYLE = Path(__file__).with_name("report.css")


def write_report(rows: Sequence[Row], out: Path, broken: Sequence[str] = ()) -> list[Verdict]:
    """Write ``report.html``, ``summary.md`` and ``verdicts.json``.

    Parameters
    ----------
    rows : sequence of dict
        As `records.read_rows` returns them.
    out : Path
    broken : sequence of str
        What the rows break of the protocol: said on top.

    Returns
    -------
    list of Verdict
    """
    found = verdicts(rows)
    out.mkdir(parents=True, exist_ok=True)
    write_bytes(out / "verdicts.json", as_json(rows, found, broken).encode())
    write_bytes(out / "summary.md", as_markdown(rows, found, broken).encode())
    write_bytes(out / "report.html", as_html(rows, found, broken).encode())
    return found


# Numbers ------------------------------------------------------------------------------------------


def number(value: float) -> str:
    """Format a difference of losses: four decimals, signed, with a true minus.

    Examples
    --------
    >>> number(0.01234), number(-0.5), number(0.0)
    ('+0.0123', '−0.5000', '0.0000')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:+.4f}"
    return text[1:] if not float(text) else text.replace("-", "−")


def interval(e: Estimate) -> str:
    """Format a mean and its interval."""
    return f"{number(e.mean)} [{number(e.low)}, {number(e.high)}]"


def percent(e: Estimate) -> str:
    """Format a share and its interval."""
    return f"{e.mean:.0%} [{e.low:.0%}, {e.high:.0%}]".replace("-", "−")


def p_text(p: float) -> str:
    """Format a p-value."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def answer(found: Sequence[Verdict]) -> str:
    """Return the answer to the question, in as many words as the verdicts allow.

    It speaks of gains over strong, and says what was decided and what was not.
    """
    asked = [v for v in found if v.claim in ("stationary", "state-loss", "drift") and v.verdict != NOT_RUN]
    if not asked:
        return "No method was compared with strong: there is no answer in these results."
    count = Counter(v.verdict for v in asked)
    gains = [v for v in asked if v.verdict == FAILS]
    tasks = len({v.task for v in asked})
    said = (
        f"In {len(asked)} comparison{'s' * (len(asked) > 1)} with a tuned strong baseline ({tasks} task{'s' * (tasks > 1)}), "
        f"availability-aware methods gained nothing beyond the noise of the data order in {count[HOLDS]}, gained more in "
        f"{count[FAILS]}, and {count[UNDECIDED]} {'is' if count[UNDECIDED] == 1 else 'are'} undecided at this scale."
    )
    if gains:
        said += " They gained in: " + "; ".join(f"{v.task}, {v.compared}" for v in gains) + "."
    return said


def as_json(rows: Sequence[Row], found: Sequence[Verdict], broken: Sequence[str]) -> str:
    """Return the verdicts as JSON, numbers to six digits: the same on every machine."""

    def plain(value: Any) -> Any:
        if isinstance(value, Estimate):
            return {k: plain(v) for k, v in vars(value).items()}
        if isinstance(value, float):
            return float(f"{value:.6g}") if math.isfinite(value) else str(value)
        return value

    lines = [
        {
            "claim": v.claim,
            "statement": STATEMENTS[v.claim],
            "task": v.task,
            "steps": v.setup.steps if v.setup else None,
            "device": v.setup.device if v.setup else None,
            "compared": v.compared,
            "verdict": v.verdict,
            "difference": plain(v.difference),
            "region": [plain(border) for border in v.region] if v.difference else None,
            "p_holm": plain(v.p) if v.difference else None,
            "noise_floor": plain(v.floor.sd) if v.floor else None,
            "noise_floor_freedom": v.floor.freedom if v.floor else None,
            "share": plain(v.share),
            "traces": list(v.traces),
            "note": v.note,
        }
        for v in found
    ]
    facts = {"rows_sha256": rows_digest(rows), "protocol_broken": list(broken), "verdicts": lines}
    return json.dumps(facts, indent=1, ensure_ascii=False) + "\n"


# Markdown -----------------------------------------------------------------------------------------


def as_markdown(rows: Sequence[Row], found: Sequence[Verdict], broken: Sequence[str]) -> str:
    """Return the summary."""
    lines = ["# Is availability-aware training worth it?", ""]
    if broken:
        lines += ["**These results break the protocol of the comparison:**", ""]
        lines += [f"- {what}" for what in broken] + [""]
    lines += [
        answer(found),
        "",
        "| Claim | Task | Difference [nats] | Share | Noise floor | Seeds | p | Verdict |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for v in _shown(found):
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in _cells(v)) + " |")
    lines += ["", "Differences are means over seeds, paired, with 95% intervals; p is corrected by Holm.", ""]
    lines += [f"- {fact}" for fact in _facts(rows)]
    return "\n".join(lines) + "\n"


def _cells(v: Verdict) -> list[str]:
    return [
        STATEMENTS[v.claim],
        v.task + (f", {v.setup.steps} steps" if v.setup else ""),
        f"{v.compared}: {interval(v.difference)}" if v.difference else v.compared,
        percent(v.share) if v.share else "",
        f"{v.floor.sd:.4f}" if v.floor else "",
        str(v.difference.seeds) if v.difference else "",
        p_text(v.p) if v.difference else "",
        v.verdict + (f" ({v.note})" if v.note else ""),
    ]


def _shown(found: Sequence[Verdict]) -> list[Verdict]:
    """Fold the tasks in which a claim was not run into one line."""
    shown: list[Verdict] = []
    for claim in STATEMENTS:
        mine = [v for v in found if v.claim == claim]
        shown += [v for v in mine if v.verdict != NOT_RUN]
        missing = [v.task for v in mine if v.verdict == NOT_RUN]
        if missing:
            shown.append(Verdict(claim, ", ".join(missing), None, "", NOT_RUN))
    return shown


def _facts(rows: Sequence[Row]) -> list[str]:
    """Return how it was run, in sentences."""
    done, failed = finished(rows), [row for row in rows if row["error"] is not None]
    count = Counter(row["stage"] for row in done)
    facts = [
        f"{count['report']} reported runs and {count['tune']} tuning runs finished, {len(failed)} failed; "
        f"studies: {', '.join(sorted({row['study'] for row in rows}))}."
    ]
    for setup, group in by_setup(rows).items():
        made = json.loads(next(row["fingerprint"] for row in group if row["error"] is None))
        minutes = sum(row["train_s"] or 0 for row in group) / 60
        facts.append(
            f"{setup.short_task}: {made['parameters']:,} parameters, {setup.steps} steps of {setup.step_s:g} s, "
            f"{setup.precision}, {setup.threads} thread{'s' * (setup.threads > 1)}, {setup.device}, torch "
            f"{setup.torch}; {len(group)} runs, {minutes:.0f} minutes of training."
        )
    releases = sorted({row["release"] for row in rows if row["release"]})
    facts.append(f"Traces: data release {', '.join(releases) or 'none'}; orbittrace {__version__}.")
    facts.append(f"sha256 of the rows' results: {rows_digest(rows)}")
    return facts


# HTML ---------------------------------------------------------------------------------------------


def as_html(rows: Sequence[Row], found: Sequence[Verdict], broken: Sequence[str]) -> str:
    """Return the report: no script, no link that is fetched."""
    groups = [Runs(setup, group) for setup, group in by_setup(rows).items()]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Is availability-aware training worth it?</title>",
        f"<style>{STYLE.read_text()}</style></head><body><main>",
        "<h1>Is availability-aware training worth it?</h1>",
    ]
    if broken:
        items = "".join(f"<li>{html.escape(what)}</li>" for what in broken)
        parts.append(
            f'<aside class="broken"><strong>These results break the protocol.</strong><ul>{items}</ul></aside>'
        )
    parts.append(f'<p class="answer">{html.escape(answer(found))}</p>')
    parts += [_tally(found), "<h2>Verdicts</h2>", _verdict_table(found)]
    parts += _figures(groups)
    parts += ["<h2>Learning rates that tuning chose</h2>", _tuning_table(rows)]
    parts += ["<h2>How it was run</h2><ul>"]
    parts += [f"<li>{html.escape(fact)}</li>" for fact in _facts(rows)]
    parts += ["</ul>", _failures(rows)]
    parts.append(
        "<details><summary>The protocol, written before any run</summary>"
        f"<pre>{html.escape(PROTOCOL.read_text())}</pre></details>"
    )
    parts.append("</main></body></html>\n")
    return "\n".join(part for part in parts if part)


def _tally(found: Sequence[Verdict]) -> str:
    count = Counter(v.verdict for v in _shown(found))
    boxes = "".join(
        f'<li class="{_class(name)}"><b>{count[name]}</b> {name}</li>' for name in MARKS if count[name]
    )
    return f'<ul class="tally">{boxes}</ul>'


def _class(verdict: str) -> str:
    return {HOLDS: "holds", FAILS: "fails", UNDECIDED: "undecided", NOT_RUN: "notrun"}[verdict]


def _verdict_table(found: Sequence[Verdict]) -> str:
    rows = []
    by_claim = defaultdict(list)
    for v in _shown(found):
        by_claim[v.claim].append(v)
    for claim, mine in by_claim.items():
        rows.append(
            f'<tr class="claim"><th colspan="7" scope="rowgroup">{html.escape(STATEMENTS[claim])}</th></tr>'
        )
        for v in mine:
            _, task, _, share, floor, seeds, p, _ = (html.escape(cell) for cell in _cells(v))
            if v.verdict == NOT_RUN:
                rows.append(f'<tr class="notrun"><td colspan="7">{NOT_RUN}: {task}</td></tr>')
                continue
            note = f"<small>{html.escape(v.note)}</small>" if v.note else ""
            outcome = f'<td class="verdict {_class(v.verdict)}">{MARKS[v.verdict]} {v.verdict}{note}</td>'
            what = f"<td>{task}<small>{html.escape(v.compared)}</small></td>"
            difference = html.escape(interval(v.difference)) if v.difference else ""
            rows.append(
                f"<tr>{what}<td>{difference}</td><td>{share}</td><td>{floor}</td><td>{seeds}</td><td>{p}</td>{outcome}</tr>"
            )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in (
            "Task, and what is compared",
            "Difference [95%]",
            "Share",
            "Noise floor",
            "Seeds",
            "p",
            "Verdict",
        )
    )
    return (
        f'<div class="wide"><table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        "<p class='legend'>Differences of the final validation loss in nats: means over seeds, paired by seed and averaged "
        "over traces, with Student's 95% intervals. p is two-sided against the border of the claim's region and corrected by "
        "Holm over the methods that answer the claim. Noise floor: standard deviation between data orders. Shares, "
        "with Fieller's interval, are given only where what they are a share of is not 0. AAT is this project's "
        "reconstruction of availability-aware training.</p>"
    )


def _figures(groups: Sequence[Runs]) -> list[str]:
    from .figures import as_svg, forest, loss_curves, phase_diagrams, scatter, sizes

    parts: list[str] = []

    def add(figure: Any, caption: str) -> None:
        if figure is not None:
            name = f"f{sum(part.startswith('<figure') for part in parts) + 1}"
            svg = as_svg(figure, name, html.escape(caption, quote=True))
            parts.append(f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>")

    for runs in groups:
        task = f"{runs.setup.short_task}, {runs.setup.steps} steps"
        parts.append(f"<h2>{html.escape(task)}</h2>")
        traces = sorted(runs.cell("strong") or runs.cell("weak"))
        for trace in traces[:1]:
            add(
                loss_curves(runs, trace),
                f"Training loss under {trace}, mean over seeds. A schedule on wall-clock time anneals during the gaps; "
                "strong lies on uninterrupted.",
            )
        add(
            forest(runs),
            "Every method against strong, by regime: mean over seeds with 95% interval; hollow squares where it includes "
            "0. Grey: within one noise floor.",
        )
        add(
            phase_diagrams(runs),
            "Share of the state-loss penalty that reconstruction recovers, with its 95% interval, by how often and how long "
            "it pauses. Hatched: no share, because the penalty's interval includes 0.",
        )
        add(
            scatter(runs),
            "What gaps cost under each trace: loss minus the uninterrupted run's, mean over seeds with 95% interval. "
            "Grey: within one noise floor.",
        )
        parts.append(_secondary_table(runs))
    figure = sizes(groups)
    if figure is not None:
        parts.append("<h2>Model size</h2>")
        add(
            figure,
            "Cost of losing the optimizer's state, and what reconstruction wins back, by model size (95% intervals).",
        )
    return parts


def _secondary_table(runs: Runs) -> str:
    lines = "".join(
        f"<tr><td>{html.escape(short_name(s.method))}</td>"
        f"<td>{'drift' if s.drift else 'stationary' if s.persists == 'all' else s.persists + ' persists'}</td>"
        f"<td>{s.loss:.4f}</td><td>{interval(s.halfway) if s.halfway else ''}</td>"
        f"<td>{interval(s.accuracy) if s.accuracy else ''}</td>"
        f"<td>{f'{s.target_share:.0%}' if s.reached else 'never'}, {s.reached} of {s.runs}</td></tr>"
        for s in secondary(runs)
    )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in (
            "Method",
            "Regime",
            "Final loss",
            "Half-way, minus strong",
            "Accuracy, minus strong",
            "Target reached",
        )
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
        "<p class='legend'>Secondary measures. Half-way: validation loss at half the active time. Target: the share of the "
        "active time until the validation loss is down to the uninterrupted run's last one plus one noise floor, at the "
        "steps at which it is evaluated, and how many runs got there.</p>"
    )


def _tuning_table(rows: Sequence[Row]) -> str:
    chosen, edges = choose(rows), set(at_the_edge(rows))
    tried = defaultdict(set)
    for row in rows:
        if row["stage"] == "tune":
            tried[key_of(row)].add((row["lr_factor"], row["seed"]))
    lines = "".join(
        f"<tr><td>{html.escape(short_name(key[0]))}</td><td>{html.escape(short_name(key[1]))}</td>"
        f"<td>{html.escape(key[2])}{', drift' if key[3] else ''}</td><td>{html.escape(key[4])}</td>"
        f"<td>{factor:g}{' (edge)' if key in edges else ''}</td><td>{len(tried[key])}</td></tr>"
        for key, factor in sorted(chosen.items())
    )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("Task", "Method", "Persists", "Tuned on", "Factor of the task's rate", "Runs a trace")
    )
    note = (
        "<p class='legend'>(edge): the best of the factors that were tried lies at the end of the grid; "
        "a wider grid might be better for that method.</p>"
        if edges
        else ""
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>{note}'
    )


def _failures(rows: Iterable[Row]) -> str:
    failed = [row for row in rows if row["error"] is not None]
    if not failed:
        return ""
    items = "".join(
        f"<li>{html.escape(short_name(r['task']))}, {html.escape(r['method'])}, {html.escape(r['trace'])}, seed {r['seed']}: "
        f"{html.escape(r['error'])}</li>"
        for r in failed
    )
    return f"<h2>Failed runs</h2><ul>{items}</ul>"
