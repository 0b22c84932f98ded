"""No test reaches the network: sockets connect to this machine only, and the Hub is a stand-in."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import loopback_only
import pytest
from standin_hub import TOKEN, StandInHub, close_sessions

HUB = StandInHub()
HUB_HOME = Path(tempfile.mkdtemp(prefix="orbittrace-tests-"))

# huggingface_hub and datasets read these once, when they are imported: no test meets a person's token or cache.
for name in [name for name in os.environ if name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))]:
    del os.environ[name]
os.environ |= {
    "HF_ENDPOINT": HUB.url,
    "HF_HOME": str(HUB_HOME),
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_SYMLINKS_WARNING": "1",
    "PYTHONPATH": os.pathsep.join(
        [str(Path(loopback_only.__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    ).rstrip(os.pathsep),
}


@pytest.fixture
def go_offline(monkeypatch):
    """Switch the Hub off as HF_HUB_OFFLINE does it, which is read at import."""

    def switch_off(patch=monkeypatch):
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        close_sessions()

    yield switch_off
    close_sessions()


@pytest.fixture
def hub(monkeypatch):
    """A new Hub, an empty cache, and a token that may write in the namespace ``sat``."""
    from huggingface_hub import HfFileSystem

    monkeypatch.setenv("HF_TOKEN", TOKEN)
    HUB.reset()
    HUB.writers[TOKEN] = {"sat"}
    HUB.start()
    yield HUB
    close_sessions()
    HUB.stop()
    HfFileSystem.clear_instance_cache()  # it remembers the files of commits
    for folder in ("hub", "datasets"):
        shutil.rmtree(HUB_HOME / folder, ignore_errors=True)


@pytest.fixture(scope="session")
def small_releases(tmp_path_factory) -> dict[str, Path]:
    """Two derived releases by version: the second from other elements, and without any shadow."""
    from orbittrace_data.builders.recipe import make_recipe
    from orbittrace_data.builders.release import build_release
    from orbittrace_data.builders.snapshot import read_snapshot, write_snapshot

    home = tmp_path_factory.mktemp("releases")
    frozen = read_snapshot("2024-09-22")
    lines = [f"{e.name}\n{e.line1}\n{e.line2}\n" for e in frozen.element_sets if e.catalog_number == 40730]
    write_snapshot(
        home / "gps-only",
        "".join(lines).encode(),
        source="One record of the snapshot 2024-09-22.",
        retrieved=frozen.retrieved,
        licence_notice=frozen.licence_notice,
        citation=frozen.citation,
    )
    sources = {
        "0.1.0": {"source": "2024-09-22", "catalog": (25544, 41866)},
        "0.2.0": {"source": home / "gps-only", "everything": True},
    }
    for version, asked in sources.items():
        recipe, _ = make_recipe(days=0.25, version=version, **asked)
        build_release(recipe, home / version)
    return {version: home / version for version in sources}


def pytest_sessionfinish():
    """Remove the session's cache."""
    shutil.rmtree(HUB_HOME, ignore_errors=True)


def pytest_configure(config):
    """Let Ctrl-C reach the processes that tests start, also where the shell that runs the suite ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
