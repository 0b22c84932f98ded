"""Regenerate what README states in figures: ``python -m orbittrace_data.builders.readme`` in a checkout."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from ..atomic import write_bytes
from ..cli import run
from ..loader import load_table, load_trace
from ..timeline import plot_timelines, save_figure
from .card import traces_markdown

ROOT = Path(__file__).resolve().parent.parent
SECOND_SNAPSHOT = "2026-08-16"
CONTRASTING = ("leo-25544", "leo-26958", "meo-38833", "geo-28912")
# Pictures in docs/ by the commands that README shows for them.
PICTURES = {
    "energy.png": "show leo-25544 --power cubesat-6u --plot energy.png",
    "power-cap.png": "show cap:Europe/Berlin,17:00-21:00,2026-03-25,14d --plot power-cap.png",
    "advice.png": "advise --trace leo-25544 --step-s 60 --state-gb 20 --disk-gb-s 1 --sigma 30s --mtbf 12h --plot advice.png",
}


def generated_blocks() -> dict[str, str]:
    """Return the text of each generated block of README, by its name."""
    import pyarrow as pa

    tables = [
        load_table("traces", split="dev"),
        load_table("traces", split="test"),
    ]
    return {
        "traces": traces_markdown(pa.concat_tables(tables).sort_by([("regime", "descending")])),
        "diff": _diff(),
    }


def _diff() -> str:
    """Return what ``orbittrace diff`` prints for the release and one from the second snapshot."""
    with TemporaryDirectory() as folder:
        newer = f"{folder}/newer"
        printed = io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            run(["build", "--snapshot", SECOND_SNAPSHOT, "--out", newer])
            with redirect_stdout(printed):
                run(["diff", "bundled", newer])
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def replace_blocks(text: str, blocks: dict[str, str]) -> str:
    '''Put generated blocks between their markers.

    Examples
    --------
    >>> text = """<!-- generated: a -->
    ... old
    ... <!-- end -->"""
    >>> "old" in replace_blocks(text, {"a": "new"})
    False
    '''
    for name, block in blocks.items():
        pattern = re.compile(rf"(<!-- generated: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda found, block=block: found.group(1) + block + found.group(2), text)
    return text


def main() -> None:
    """Rewrite README's blocks and pictures."""
    readme = ROOT / "README.md"
    write_bytes(readme, replace_blocks(readme.read_text(encoding="utf-8"), generated_blocks()).encode())
    docs = ROOT / "docs"
    docs.mkdir(exist_ok=True)
    save_figure(plot_timelines([load_trace(i) for i in CONTRASTING]), docs / "four-traces.png")
    for name, command in PICTURES.items():
        run([*command.split()[:-1], str(docs / name)])


if __name__ == "__main__":
    main()
