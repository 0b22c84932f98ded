"""One content digest on the oldest and the newest versions that pyproject.toml allows.

``python benchmarks/oldest_and_newest.py [WORK]`` makes two virtual environments in WORK (a temporary
folder by default): one with every runtime dependency at its lower bound, one with the newest of each. In
each it builds the benchmark, loads it with `datasets` (every config and split, streaming and not) and with
`load_traces`, reads the other's release, and runs the tests of digests, loader, card and Hub. Needs a
package registry and some minutes, so it is no part of CI.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SHOWN = (
    "numpy",
    "pyarrow",
    "datasets",
    "huggingface_hub",
    "sgp4",
    "astropy",
    "pyerfa",
    "typer",
    "rich",
    "requests",
)
TESTS = (
    "test_digest.py",
    "test_loader.py",
    "test_cli.py",
    "test_card.py",
    "test_hub.py",
    "test_versions.py",
    "test_publish.py",
)
TEST_TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "hypothesis>=6.100", "matplotlib>=3.8")

REPORT = """
import json, sys
from importlib.metadata import version
import pyarrow as pa
from datasets import load_dataset
from orbittrace_data import load_table, load_traces
from orbittrace_data.digest import content_digest
from orbittrace_data.loader import open_release
from orbittrace_data.schema import CONFIGS

folder = sys.argv[1]
_, manifest = open_release(folder)
digests = {}
for file in manifest.files:
    table = load_table(file.config, split=file.split, source=folder)
    loaded = load_dataset(folder, file.config, split=file.split)
    streamed = load_dataset(folder, file.config, split=file.split, streaming=True)
    rows = pa.Table.from_pylist(list(streamed), schema=CONFIGS[file.config])
    both = {
        content_digest(table),
        content_digest(loaded.with_format("arrow")[:].cast(CONFIGS[file.config])),
        content_digest(rows),
    }
    assert both == {file.content_digest}, (file.path, both)
print(json.dumps({
    "digest": manifest.content_digest,
    "traces": len(load_traces(source=folder)),
    "versions": {name: version(name) for name in %r},
}))
"""


def lower_bounds() -> list[str]:
    """Return every runtime dependency of pyproject.toml, pinned to its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [re.sub(r">=", "==", requirement) for requirement in project["dependencies"]]


def make(folder: Path, constraints: list[str]) -> Path:
    """Make an environment with the package in it and return its Python."""
    print(f"making {folder.name}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    pins = folder / "pins.txt"
    pins.write_text("\n".join(constraints))
    source = folder.with_name(f"{folder.name}-source")  # installing leaves a build folder behind
    unwanted = shutil.ignore_patterns(".git", ".venv*", "build", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, dirs_exist_ok=True, ignore=unwanted)
    run(python, "-m", "pip", "install", "--quiet", "-c", pins, source, *TEST_TOOLS)
    return python


def run(*command) -> str:
    """Run a command, away from the checkout, and return what it prints; its errors stop this script."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd="/").stdout


def main(work: Path) -> None:
    """Build, load and compare."""
    os.environ["HF_HOME"] = str(work / "hf-home")
    pythons = {"oldest": make(work / "oldest-env", lower_bounds()), "newest": make(work / "newest-env", [])}
    failed = []
    reports: dict[str, dict] = {}
    for name, python in pythons.items():
        run(python, "-m", "orbittrace_data", "build", "--out", work / name)
        for release in (n for n in pythons if (work / n).is_dir()):
            report = json.loads(run(python, "-c", REPORT % (SHOWN,), work / release).splitlines()[-1])
            reports[f"{release} release read by {name}"] = report
        tests = [ROOT / "tests" / name for name in TESTS]
        chosen = ("-k", "not any_request", "-p", "no:cacheprovider")
        command = [python, "-m", "pytest", "--quiet", *chosen, *tests]
        if subprocess.run([str(c) for c in command], cwd=ROOT, check=False).returncode:
            failed.append(name)
        print(f"{name}: " + ", ".join(f"{k} {v}" for k, v in report["versions"].items()))
    report = json.loads(run(pythons["oldest"], "-c", REPORT % (SHOWN,), work / "newest").splitlines()[-1])
    reports["newest release read by oldest"] = report
    for what, report in reports.items():
        print(f"{what}: {report['traces']} traces, content sha256 {report['digest']}")
    digests = {report["digest"] for report in reports.values()}
    if len(digests) != 1 or failed:
        sys.exit(f"digests {sorted(digests)}, tests failed on: {', '.join(failed) or 'none'}")
    print("one content digest")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with TemporaryDirectory() as temporary:
            main(Path(temporary))
