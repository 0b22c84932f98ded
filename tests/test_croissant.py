"""The Croissant metadata: valid for mlcroissant, which reads every record set of it."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orbittrace_data import load_table
from orbittrace_data.builders.croissant import render_croissant
from orbittrace_data.loader import BUNDLED, open_release
from orbittrace_data.manifest import CROISSANT_NAME
from orbittrace_data.schema import CONFIGS

# mlcroissant's own use of rdflib and pandas; nothing of ours runs in these tests but the writing of JSON.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def release(small_releases, tmp_path) -> Path:
    return Path(shutil.copytree(small_releases["0.1.0"], tmp_path / "release"))


def croissant(folder: Path):
    import mlcroissant

    return mlcroissant.Dataset(jsonld=folder / CROISSANT_NAME)


@pytest.mark.parametrize("version", ["bundled", "0.1.0", "0.2.0"])
def test_croissant_is_valid_and_every_record_set_gives_its_rows(small_releases, version, caplog):
    folder = small_releases.get(version, BUNDLED)
    dataset = croissant(folder)
    assert dataset.metadata.ctx.issues.errors == set()
    assert dataset.metadata.ctx.issues.warnings == set()
    _, manifest = open_release(folder)
    assert [r.uuid for r in dataset.metadata.record_sets] == [f"{f.config}/{f.split}" for f in manifest.files]
    for file in manifest.files:
        columns = CONFIGS[file.config]
        records = list(dataset.records(f"{file.config}/{file.split}"))
        expected = load_table(file.config, split=file.split, source=folder).to_pylist()
        assert len(records) == file.rows
        for record, row in zip(records, expected, strict=True):
            read = {name: record[f"{file.config}/{file.split}/{name}"] for name in columns.names}
            assert {n: v.decode() if isinstance(v, bytes) else v for n, v in read.items()} == row
    assert "not standard" not in caplog.text


def test_the_bundled_croissant_is_valid():
    dataset = croissant(BUNDLED)
    assert dataset.metadata.ctx.issues.errors == set()
    assert [r.uuid for r in dataset.metadata.record_sets] == [
        f"{c}/{s}" for c in CONFIGS for s in ("dev", "test")
    ]
    assert dataset.metadata.cite_as.startswith("@misc{orbittrace")


def test_responsible_ai_fields():
    content = json.loads((BUNDLED / CROISSANT_NAME).read_text())
    for name in (
        "dataCollection",
        "dataCollectionType",
        "dataBiases",
        "dataLimitations",
        "dataUseCases",
        "dataSocialImpact",
        "personalSensitiveInformation",
        "dataReleaseMaintenancePlan",
    ):
        assert content[f"rai:{name}"], name
    assert content["rai:hasSyntheticData"] is False
    assert content["prov:wasDerivedFrom"] == open_release()[1].snapshot["citation"]
    read = croissant(BUNDLED).metadata
    assert read.data_biases
    assert read.data_limitations
    assert read.personal_sensitive_information


def test_croissant_notices_another_files_bytes(release):
    path = release / "data/elements/test-00000-of-00001.parquet"
    shutil.copy(release / "data/traces/test-00000-of-00001.parquet", path)
    with pytest.raises(Exception, match=r"Download|Hash"):
        list(croissant(release).records("elements/test"))


def test_a_split_of_several_files_is_a_file_set(release):
    """As in a release of a whole catalogue; a record set then reads them all."""
    _, manifest = open_release(release)
    entry = next(f for f in manifest.files if f.config == "traces")
    old = release / entry.path
    table = pq.read_table(old, partitioning=None)
    parts = []
    for shard in range(2):
        path = f"data/traces/test-{shard:05d}-of-00002.parquet"
        pq.write_table(table.slice(shard, 1), release / path)
        parts.append(replace(entry, path=path, rows=1))
    old.unlink()
    others = tuple(f for f in manifest.files if f.config != "traces")
    text = render_croissant(replace(manifest, files=(*parts, *others)), "0" * 64)
    (release / CROISSANT_NAME).write_text(text)
    dataset = croissant(release)
    assert dataset.metadata.ctx.issues.errors == set()
    ids = [record["traces/test/trace_id"] for record in dataset.records("traces/test")]
    assert sorted(ids) == [b"geo-41866", b"leo-25544"]
