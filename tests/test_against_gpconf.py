"""The public conformance kit gpconf judges the reader and the writer on all that it grades offline."""

import json
import os
import subprocess
import sys
from pathlib import Path

OFFLINE_CASES = {
    "alpha5-encoding-vectors",
    "alpha5-tle-derived",
    "corrupt-input",
    "kvn-syntax-variants",
    "tle-writer-alpha5",
}


def test_every_case_that_is_graded_offline_passes(tmp_path):
    here = Path(__file__).parent
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "gpconf", "run", "--adapter", "gpconf_adapter:Parser", "--no-fetch-hint"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])}
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "empty"), "--json", str(report)],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = {case["case"]: case for case in json.loads(report.read_text())["results"]}
    assert {name for name, case in results.items() if case["status"] == "pass"} >= OFFLINE_CASES
    assert not [name for name, case in results.items() if case["status"] == "fail"]
    assert all(results[name]["counts"]["skip"] == 0 for name in OFFLINE_CASES)
