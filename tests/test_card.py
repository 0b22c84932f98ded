"""The card and its picture: accepted by their readers, and sealed together with the Croissant metadata."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orbittrace_data import load_table, load_trace
from orbittrace_data.builders.card import check_card, render_card
from orbittrace_data.builders.picture import contrasting, render_picture
from orbittrace_data.builders.verify import check_release
from orbittrace_data.loader import BUNDLED, open_release
from orbittrace_data.manifest import COMPANIONS, CROISSANT_NAME, PICTURE_NAME, ReleaseError
from orbittrace_data.schema import CONFIGS
from orbittrace_data.timeline import DARK

CARD = (BUNDLED / "README.md").read_text(encoding="utf-8")
TEXTS = ("README.md", *COMPANIONS)


@pytest.fixture
def release(small_releases, tmp_path) -> Path:
    return Path(shutil.copytree(small_releases["0.1.0"], tmp_path / "release"))


# Sealed.


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("where", [0.001, 0.02, 0.3, 0.6, 0.999])
def test_a_changed_byte_in_card_picture_or_croissant_is_noticed(release, name, where):
    check_release(release)
    content = bytearray((release / name).read_bytes())
    content[int(where * len(content))] ^= 1
    (release / name).write_bytes(content)
    with pytest.raises(ReleaseError, match="changed"):
        check_release(release)


@pytest.mark.parametrize("name", TEXTS)
def test_a_missing_file_is_noticed(release, name):
    (release / name).unlink()
    with pytest.raises(ReleaseError):
        check_release(release)


@pytest.mark.parametrize("line", ["orbittrace_card_sha256: .*\n", "  timeline.svg: .*\n"])
def test_a_seal_that_is_taken_out_is_noticed(release, line):
    card = (release / "README.md").read_text()
    assert re.search(line, card)
    (release / "README.md").write_text(re.sub(line, "", card))
    with pytest.raises(ReleaseError, match="was changed"):
        check_card(release)


def test_the_texts_follow_from_the_manifest_and_the_rows(small_releases):
    """Nothing but the manifest and the rows goes into them: writing them again gives the same bytes."""
    from orbittrace_data.builders.release import write_descriptions

    folder = small_releases["0.1.0"]
    before = {name: (folder / name).read_bytes() for name in TEXTS}
    write_descriptions(folder, open_release(folder)[1], load_table("traces", source=folder))
    assert {name: (folder / name).read_bytes() for name in TEXTS} == before


# The Hub's card.


def test_the_hubs_own_classes_read_the_card():
    from huggingface_hub import DatasetCard

    card = DatasetCard(CARD, ignore_metadata_errors=False)
    data = card.data
    assert data.pretty_name == "OrbitTrace"
    assert (data.license, data.license_name) == ("other", "see-licence-notice")
    assert (
        "license_link" not in data
    )  # the Hub takes a file LICENSE or LICENSE.md or an address, not a section
    assert data.size_categories == ["10K<n<100K"]
    assert {"satellite", "eclipse"} <= set(data.tags)
    assert data.task_categories == ["time-series-forecasting", "other"]
    assert [c["config_name"] for c in data.configs] == list(CONFIGS)
    assert [c for c in data.configs if c.get("default")] == [data.configs[0]]
    assert {c["version"] for c in data.configs} == {"1.1.0"}
    assert str(card).strip() == CARD.strip()


def test_features_and_splits_in_the_yaml_are_those_of_the_files():
    from datasets import Features
    from datasets.info import DatasetInfosDict
    from huggingface_hub import DatasetCard

    infos = DatasetInfosDict.from_dataset_card_data(DatasetCard(CARD).data)
    for config, schema in CONFIGS.items():
        assert infos[config].features == Features.from_arrow_schema(schema)
        for split, info in infos[config].splits.items():
            assert info.num_examples == load_table(config, split=split).num_rows


def test_the_hubs_sections_are_there():
    """All headings of the Hub's template but the optional ones."""
    import huggingface_hub

    template = Path(huggingface_hub.__file__).parent / "templates/datasetcard_template.md"
    wanted, skipped = [], False
    for level, title in re.findall(r"^(#{2,4}) (.+)$", template.read_text(encoding="utf-8"), re.MULTILINE):
        if "[optional]" in title:
            skipped = True
        elif level != "####" or title.startswith("Personal"):
            skipped = False
        if not skipped:
            wanted.append(f"{level} {title.strip()}")
    assert len(wanted) > 12
    headings = re.findall(r"^#{2,4} .+$", CARD, re.MULTILINE)
    assert [heading for heading in wanted if heading not in headings] == []
    for question in (
        "Motivation",
        "Composition",
        "Collection",
        "Preprocessing",
        "Uses",
        "Distribution",
        "Maintenance",
    ):
        assert f"**{question}.**" in CARD
    assert "More Information Needed" not in CARD


def test_every_column_is_explained():
    for config, schema in CONFIGS.items():
        for name in schema.names:
            assert f"| `{name}` |" in CARD, (config, name)


def test_links_within_the_card_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", CARD):
        if target.startswith("#"):
            titles = [re.sub(r"[^a-z ]", "", t.lower()) for t in re.findall(r"^#+ (.+)$", CARD, re.MULTILINE)]
            assert target[1:].replace("-", " ") in titles
        elif not target.startswith("https://"):
            assert (BUNDLED / target).is_file()


def test_a_derived_release_says_so(small_releases):
    card = (small_releases["0.1.0"] / "README.md").read_text()
    assert "**derived: this is not the OrbitTrace benchmark**" in card
    assert "pretty_name: OrbitTrace (0.1.0, derived from 2024-09-22)" in card
    assert json.loads((small_releases["0.1.0"] / CROISSANT_NAME).read_text())["name"] == "orbittrace-derived"


def test_the_error_budget_stands_on_the_card_when_the_manifest_has_one():
    _, manifest = open_release()
    budget = [{"source": "element age", "regime": "leo", "median_s": 0.25, "max_s": 3.0}]
    card = render_card(replace(manifest, notes={"error_budget": budget}), "0" * 64, load_table("traces"))
    assert "| element age | 0.25 / 3 |" in card


def test_a_name_cannot_break_the_table(release):
    import pyarrow as pa

    from orbittrace_data.builders.card import traces_markdown

    table = load_table("traces", source=release)
    names = pa.array(["A|B", "C"])
    broken = traces_markdown(table.set_column(table.schema.get_field_index("name"), "name", names))
    assert "| A\\|B |" in broken
    named = pa.array(["<script>alert(1)</script> & [a](b)", "C"])
    shown = traces_markdown(table.set_column(table.schema.get_field_index("name"), "name", named))
    assert "| &lt;script&gt;alert(1)&lt;/script&gt; &amp; \\[a\\](b) |" in shown


# The viewer of the Hub.


def test_the_viewer_can_show_it(small_releases):
    """One schema a config, no row group over 100 MB, and no feature but numbers, texts, times and lists of numbers."""
    from datasets import Features, List, Value

    for folder in (BUNDLED, *small_releases.values()):
        schemas: dict[str, set] = {}
        for file in open_release(folder)[1].files:
            parquet = pq.ParquetFile(folder / file.path)
            schemas.setdefault(file.config, set()).add(str(parquet.schema_arrow))
            groups = [parquet.metadata.row_group(i) for i in range(parquet.metadata.num_row_groups)]
            assert all(group.total_byte_size < 100e6 for group in groups)
            for feature in Features.from_arrow_schema(parquet.schema_arrow).values():
                assert isinstance(feature, Value) or feature == List(Value("int64"))
        assert {config: len(found) for config, found in schemas.items()} == dict.fromkeys(schemas, 1)


# The picture.


def test_the_picture_shows_one_of_each_regime():
    traces = load_table("traces")
    assert contrasting(traces) == ["leo-39634", "leo-47506", "meo-39189", "geo-41866"] or {
        i.split("-")[0] for i in contrasting(traces)
    } == {"leo", "meo", "geo"}
    picture = (BUNDLED / PICTURE_NAME).read_text()
    texts = [e.text for e in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    for trace_id in contrasting(traces):
        assert any(text.startswith(f"{trace_id}  ") for text in texts)


def test_the_drawn_gaps_are_as_long_as_the_gaps():
    trace = load_trace("leo-25544")
    root = ET.fromstring(render_picture([trace]))
    path = next(e for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("fill") == DARK)
    drawn = [float(width) for width in re.findall(r"M[\d.]+ \d+h([\d.]+)v6", path.get("d"))]
    assert sum(drawn) / (14 * 720) == pytest.approx(1 - trace.duty_cycle, abs=2e-3)
    crossing = sum(a // 86_400_000 != (b - 1) // 86_400_000 for a, b in trace.gaps.tolist())
    assert len(drawn) == trace.gap_count + crossing


def test_a_name_cannot_break_the_picture():
    trace = load_trace("leo-25544")
    object.__setattr__(trace, "name", "<script>&")
    assert "<script>&" in "".join(e.text or "" for e in ET.fromstring(render_picture([trace])).iter())
