import re
from pathlib import Path

from orbittrace_data import load_trace
from orbittrace_data.builders.readme import generated_blocks, replace_blocks

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_it_states_in_figures_is_what_the_package_gives():
    assert replace_blocks(README, generated_blocks()) == README


def test_every_generated_block_has_its_place():
    assert set(re.findall(r"<!-- generated: (\w+) -->", README)) == set(generated_blocks())


def test_its_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_its_python_example_runs():
    code = re.search(
        r"```python\n(from orbittrace_data import load_trace, load_traces\n.*?)```", README, re.DOTALL
    )
    assert code is not None
    names: dict = {}
    exec(code.group(1), names)
    assert len(names["traces"]) == 50
    assert names["iss"] == load_trace("leo-25544")
