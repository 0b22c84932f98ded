"""Every example in a docstring runs; `builders` and `trainers` under the names that they install as."""

import doctest
import importlib
import io
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "orbittrace_data": "orbittrace_data",
    "builders": "orbittrace_data.builders",
    "trainers": "orbittrace_data.trainers",
}


def module_names() -> list[str]:
    names = []
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            if parts[-1] == "__main__":
                continue
            names.append(".".join([package, *(p for p in parts if p != "__init__")]))
    return names


@pytest.mark.parametrize("name", module_names())
def test_examples_in(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(example, out=report.write)
    assert runner.summarize(verbose=False).failed == 0, report.getvalue()
