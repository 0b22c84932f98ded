"""Loading by version from the stand-in Hub, and the same rows whichever way they are loaded."""

import json
import logging
import shutil
import socket
from pathlib import Path

import pyarrow as pa
import pytest
from standin_hub import TOKEN, Repository, close_sessions

from orbittrace_data import load_table, load_traces
from orbittrace_data.builders.publish import plan_publication, publish_release
from orbittrace_data.builders.verify import verify_release
from orbittrace_data.cli import run
from orbittrace_data.hub import (
    HubError,
    HubUnreachableError,
    cache_folder,
    cached_versions,
    published_versions,
)
from orbittrace_data.loader import BUNDLED, open_release
from orbittrace_data.manifest import ReleaseError, VersionError
from orbittrace_data.schema import CONFIGS

pytestmark = pytest.mark.filterwarnings("ignore:Use .content=:DeprecationWarning")
REPO = "sat/orbittrace"


def publish(folder: Path, repo_id: str = REPO) -> None:
    publish_release(plan_publication(folder, repo_id))


@pytest.fixture
def published(hub, small_releases):
    """Both small releases on the Hub, and nothing of them on this machine."""
    for folder in small_releases.values():
        publish(folder)
    hub.requests.clear()
    return hub


def ids(**asked) -> list[str]:
    return [trace.trace_id for trace in load_traces(source=REPO, **asked)]


def test_version_picks(published):
    assert published_versions(REPO) == ["0.1.0", "0.2.0"]
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]
    assert ids(version="0.2.0") == ["meo-40730"]
    assert ids() == ["meo-40730"]


def test_a_version_that_is_not_there_is_refused_with_the_list(published):
    with pytest.raises(
        VersionError, match=r"sat/orbittrace has no data version 1\.0\.0; there are 0\.1\.0, 0\.2\.0"
    ):
        ids(version="1.0.0")
    with pytest.raises(VersionError, match="three integers"):
        ids(version="v0.1.0")


def test_verify_rebuilds_the_version_that_is_asked_for(published, capsys):
    assert verify_release(REPO, "0.1.0").rebuilt_from == "snapshot 2024-09-22"
    assert verify_release(REPO, "0.2.0").rebuilt_from == "its own element sets"
    assert run(["verify", REPO, "--version", "0.3.0"]) == 2
    assert "has no data version 0.3.0; there are 0.1.0, 0.2.0" in capsys.readouterr().err


def test_numbers_order_versions_not_letters(hub, small_releases):
    publish(small_releases["0.1.0"])
    repository = hub.repositories[REPO]
    repository.tags |= dict.fromkeys(("v0.10.0", "v0.9.0", "draft", "v1"), repository.main)
    assert published_versions(REPO) == ["0.1.0", "0.9.0", "0.10.0"]


def test_a_version_on_this_machine_needs_no_network(published, go_offline):
    ids(version="0.1.0")
    published.requests.clear()
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]
    assert published.requests == []
    go_offline()
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]


@pytest.mark.parametrize("way", ["switched off", "unreachable"])
def test_offline_gives_the_version_that_was_asked_for_or_says_what_is_here(
    published, monkeypatch, go_offline, way
):
    def lose_the_hub(patch):
        if way == "switched off":
            go_offline(patch)
        else:
            patch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")

    with monkeypatch.context() as patch:
        lose_the_hub(patch)
        with pytest.raises(HubUnreachableError, match="is not on this machine"):
            ids(version="0.1.0")
    close_sessions()
    assert ids(version="0.1.0")
    assert ids(version="0.2.0")
    assert cached_versions(REPO) == ["0.1.0", "0.2.0"]
    lose_the_hub(monkeypatch)
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]
    assert ids(version="0.2.0") == ["meo-40730"]
    with pytest.raises(
        HubUnreachableError, match=r"version 1\.0\.0 .* a version that is on this machine: 0\.1\.0, 0\.2\.0"
    ):
        ids(version="1.0.0")
    with pytest.raises(HubUnreachableError, match=r"is the newest, and .* on this machine: 0\.1\.0, 0\.2\.0"):
        ids()


def test_half_a_download_is_not_taken_for_a_version(published, monkeypatch):
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        REPO, repo_type="dataset", revision="v0.1.0", allow_patterns=["manifest.json", "README.md"]
    )
    assert cached_versions(REPO) == []
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]
    assert cached_versions(REPO) == ["0.1.0"]
    next(Path(folder).rglob("data/traces/*.parquet")).unlink()
    assert cached_versions(REPO) == []


def test_a_changed_byte_in_the_cache_is_noticed_and_says_what_to_remove(published):
    folder, _ = open_release(REPO, "0.1.0")
    path = folder / "data/elements/test-00000-of-00001.parquet"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.resolve().write_bytes(content)
    with pytest.raises(ReleaseError, match=r"its sha256 differs.*remove .*datasets--sat--orbittrace"):
        ids(version="0.1.0")


def test_a_tag_that_moves_does_not_move_what_is_on_this_machine(published):
    ids(version="0.1.0")
    repository = published.repositories[REPO]
    repository.tags["v0.1.0"] = repository.tags["v0.2.0"]
    assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]
    shutil.rmtree(cache_folder(REPO))
    with pytest.raises(VersionError, match=r"holds data version 0\.2\.0, not 0\.1\.0"):
        ids(version="0.1.0")


def test_a_cache_whose_tag_names_another_version_is_not_believed(published, monkeypatch, go_offline):
    ids(version="0.1.0")
    ids(version="0.2.0")
    refs = cache_folder(REPO) / "refs"
    for poison in (refs.joinpath("v0.2.0").read_text(), "../../../etc", "", "0" * 40):
        refs.joinpath("v0.1.0").write_text(poison)
        assert cached_versions(REPO) == ["0.2.0"]
        with monkeypatch.context() as patch:
            go_offline(patch)
            with pytest.raises(HubUnreachableError, match=r"version 0\.1\.0 .* is not on this machine"):
                ids(version="0.1.0")
        close_sessions()
        assert ids(version="0.1.0") == ["leo-25544", "geo-41866"]


def test_a_hub_that_never_answers_is_given_up(published, monkeypatch):
    monkeypatch.setattr("orbittrace_data.hub.TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(
            "huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        with pytest.raises(HubUnreachableError, match="cannot be reached"):
            ids(version="0.1.0")


def test_a_tag_that_names_something_else(published, small_releases):
    repository = published.repositories[REPO]
    repository.tags["v0.3.0"] = repository.tags["v0.2.0"]
    with pytest.raises(VersionError, match=r"holds data version 0\.2\.0, not 0\.3\.0"):
        ids(version="0.3.0")
    repository.tags["v0.4.0"] = repository.commit({"README.md": b"# nothing"})
    with pytest.raises(ReleaseError, match=r"at v0\.4\.0 is not an OrbitTrace release"):
        ids(version="0.4.0")
    files = published.files(REPO, "v0.1.0")
    files["data/traces/test-00000-of-00001.parquet"] += b"more"
    repository.tags["v0.5.0"] = repository.commit(files)
    with pytest.raises(ReleaseError, match="damaged on the Hub"):
        ids(version="0.5.0")
    files["data/traces/test-00000-of-00001.parquet"] = (
        files["data/traces/test-00000-of-00001.parquet"][:-5] + b"!"
    )
    repository.tags["v0.6.0"] = repository.commit(files)
    with pytest.raises(ReleaseError, match="sha256 differs"):
        ids(version="0.6.0")
    repository.tags["v9.0.0"] = repository.commit({"README.md": b"#", "manifest.json": b"[" * 10_000})
    with pytest.raises(ReleaseError, match=r"is not JSON|is not an OrbitTrace manifest"):
        ids(version="9.0.0")


def test_no_such_dataset(hub):
    with pytest.raises(HubError, match="there is no dataset sat/nothing on the Hub, or it is private"):
        load_traces(source="sat/nothing")
    hub.repositories["other/orbittrace"] = Repository(private=True)
    hub.repositories["other/orbittrace"].commit({})
    with pytest.raises(HubError, match="there is no dataset other/orbittrace on the Hub, or it is private"):
        load_traces(source="other/orbittrace", version="1.0.0")


def test_a_dataset_without_versions(hub):
    hub.repositories[REPO] = Repository()
    hub.repositories[REPO].commit({"data.csv": b"1"})
    with pytest.raises(VersionError, match="has no version of a release"):
        ids()


def test_a_public_release_needs_no_token(published, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert ids(version="0.2.0") == ["meo-40730"]
    assert TOKEN not in published.tokens_seen or published.tokens_seen == {TOKEN}


def test_versions_lists_them(published, capsys, go_offline, small_releases):
    assert run(["versions", REPO]) == 0
    assert capsys.readouterr().out == "0.1.0  on the Hub\n0.2.0  on the Hub\n"
    ids(version="0.1.0")
    run(["versions", REPO])
    assert capsys.readouterr().out == "0.1.0  on this machine\n0.2.0  on the Hub\n"
    go_offline()
    assert run(["versions", REPO]) == 0
    captured = capsys.readouterr()
    assert captured.out == "0.1.0  on this machine\n"
    assert "switched off by HF_HUB_OFFLINE: unset it; these are on this machine" in captured.err
    assert run(["versions", "sat/nothing"]) == 1
    assert run(["versions"]) == 0
    assert capsys.readouterr().out == "1.1.0  in this package\n"
    assert run(["versions", str(small_releases["0.2.0"])]) == 0
    assert capsys.readouterr().out.startswith("0.2.0  ")


# The same rows whichever way.


def as_rows(table: pa.Table) -> list[dict]:
    return table.to_pylist()


def matrix(folder: Path) -> list[tuple[str, str]]:
    return sorted({(file.config, file.split) for file in open_release(folder)[1].files})


@pytest.mark.parametrize("where", ["folder", "hub"])
@pytest.mark.parametrize("streaming", [False, True])
def test_load_dataset_gives_the_same_rows_for_every_config_and_split(
    hub, tmp_path, monkeypatch, where, streaming
):
    from datasets import load_dataset

    name = "orbittrace"
    if where == "hub":
        publish(BUNDLED)
        name = REPO
    else:
        monkeypatch.chdir(tmp_path)
        shutil.copytree(BUNDLED, tmp_path / "orbittrace")
    pairs = matrix(BUNDLED)
    assert pairs == sorted((config, split) for config in CONFIGS for split in ("dev", "test"))
    for config, split in pairs:
        loaded = load_dataset(name, config, split=split, streaming=streaming)
        expected = load_table(config, split=split)  # type: ignore[arg-type]
        if streaming:
            assert list(loaded) == as_rows(expected)
        else:
            assert loaded.with_format("arrow")[:].cast(expected.schema).equals(expected)
    default = load_dataset(name)
    assert set(default) == {"dev", "test"}
    assert default["test"].column_names == CONFIGS["traces"].names


def test_three_ways_give_the_same_traces(hub, tmp_path, monkeypatch):
    from datasets import load_dataset

    from orbittrace_data import Trace

    publish(BUNDLED)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(BUNDLED, tmp_path / "orbittrace")
    version = open_release()[1].version
    by_loader = load_traces(source=REPO, version=version, split="dev")
    by_hub = [Trace.from_row(row) for row in load_dataset(REPO, split="dev")]
    by_folder = [Trace.from_row(row) for row in load_dataset("orbittrace", split="dev")]
    bundled = load_traces(split="dev")
    for trace, *others in zip(bundled, by_loader, by_hub, by_folder, strict=True):
        for other in others:
            assert trace.to_row() == other.to_row()


def test_a_rebuilt_folder_gives_the_new_rows(tmp_path, monkeypatch, small_releases, hub):
    """The cache of `datasets` is keyed by the card's YAML: the data version and the content digest are in it."""
    from datasets import load_dataset

    from orbittrace_data.builders.recipe import make_recipe
    from orbittrace_data.builders.release import build_release

    monkeypatch.chdir(tmp_path)
    shutil.copytree(small_releases["0.1.0"], tmp_path / "orbittrace")
    first = load_dataset("orbittrace", split="test")
    recipe, _ = make_recipe(catalog=(25544, 41866), days=0.25, min_sunlight=1.0)
    manifest = build_release(recipe, tmp_path / "orbittrace")
    assert manifest.version == "0.1.0"  # the same version, other rows
    second = load_dataset("orbittrace", split="test")
    assert second["duty_cycle"][:] != first["duty_cycle"][:]
    assert second.to_list() == load_table("traces", source=tmp_path / "orbittrace").to_pylist()


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_integers_stay_whole_in(small_releases, tmp_path, monkeypatch, hub, library):
    from datasets import load_dataset

    pytest.importorskip(library)  # torch is there in the test extra, and not where old versions are tried
    shutil.copytree(small_releases["0.1.0"], tmp_path / "orbittrace")
    monkeypatch.chdir(tmp_path)
    loaded = load_dataset("orbittrace", split="test").select_columns(["gap_start_ms", "span_ms"])
    starts = loaded.with_format(library)[0]["gap_start_ms"]
    assert str(starts.dtype).endswith("int64")
    assert starts.tolist() == load_traces(source=tmp_path / "orbittrace")[0].gaps[:, 0].tolist()


def test_the_loader_says_derived(published, caplog):
    with caplog.at_level(logging.WARNING):
        ids(version="0.1.0")
    assert "it is not the OrbitTrace benchmark" in caplog.text
    assert json.loads((open_release(REPO, "0.1.0")[0] / "manifest.json").read_text())["kind"] == "derived"
