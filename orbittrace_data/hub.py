"""Releases on the Hugging Face Hub: which versions there are, and one of them on this machine, checked."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .errors import FailedError, InputError, OrbitTraceError
from .manifest import (
    CARD_NAME,
    COMPANIONS,
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    ReleaseError,
    VersionError,
    parse_manifest,
)

TAG_PREFIX = "v"
TIMEOUT_S = 30.0
_TAG = re.compile(r"v((?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*))")
_TOKEN = re.compile(r"hf_[A-Za-z0-9_]{6,}")
_HTTP_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")


class HubError(FailedError):
    """The Hub refused or failed at what was asked of it."""


class HubUnreachableError(HubError):
    """The Hub could not be reached."""


class HubMissingError(HubError):
    """The Hub has no such dataset, or shows none to this person."""


def published_versions(repo_id: str) -> list[str]:
    """List the versions of a dataset on the Hub, oldest first.

    Parameters
    ----------
    repo_id : str
        For example ``namespace/orbittrace``.

    Returns
    -------
    list of str

    Raises
    ------
    HubError
        If the Hub cannot be reached or has no such dataset.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    with one_sentence(repo_id, "listing the versions of"):
        api.dataset_info(
            repo_id, timeout=TIMEOUT_S
        )  # list_repo_refs would wait for ever where nobody answers
        return versions_among(tag.name for tag in api.list_repo_refs(repo_id, repo_type="dataset").tags)


def cached_versions(repo_id: str) -> list[str]:
    """List the versions that are whole in this machine's cache, oldest first; asks nobody.

    Parameters
    ----------
    repo_id : str

    Returns
    -------
    list of str
    """
    refs = cache_folder(repo_id) / "refs"
    names = [path.name for path in refs.glob("*")] if refs.is_dir() else []
    return [version for version in versions_among(names) if _cached(repo_id, version) is not None]


def cache_folder(repo_id: str) -> Path:
    """Return where the Hub's client keeps a dataset on this machine."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE, f"datasets--{repo_id.replace('/', '--')}")


def versions_among(tags: Iterable[str]) -> list[str]:
    """Return the data versions among the names of tags, oldest first.

    Examples
    --------
    >>> versions_among(["v1.10.0", "main", "v1.9.0", "v1.0", "1.0.0"])
    ['1.9.0', '1.10.0']
    """
    found = [match.group(1) for tag in tags if (match := _TAG.fullmatch(tag))]
    return sorted(found, key=lambda version: tuple(map(int, version.split("."))))


def download_release(repo_id: str, version: str | None = None) -> Path:
    """Bring one version of a dataset on the Hub to this machine, or find it in the cache.

    A version that is whole in the cache is taken from there: a published version never changes. The
    caller checks every digest.

    Parameters
    ----------
    repo_id : str
    version : str, optional
        By default the newest; offline it must be said.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    VersionError
        If there is no such version, with those that there are.
    HubError
        If the Hub cannot be reached and the cache does not help.
    ReleaseError
        If what the tag names is no release.
    """
    if version is not None and (cached := _cached(repo_id, version)):
        return cached
    try:
        there = published_versions(repo_id)
    except HubUnreachableError as error:
        cached_ones = cached_versions(repo_id)
        missing = (
            f"version {version} of {repo_id} is not on this machine"
            if version
            else f"nobody here knows which version of {repo_id} is the newest"
        )
        if not cached_ones:
            raise HubUnreachableError(
                f"{missing}, and {error}, or use a release folder or the bundled release"
            ) from None
        raise HubUnreachableError(
            f"{missing}, and {error}, or ask for a version that is on this machine: {', '.join(cached_ones)}"
        ) from None
    if not there:
        raise VersionError(f"{repo_id} has no version of a release: no tag such as {TAG_PREFIX}1.0.0")
    if version is not None and version not in there:
        raise VersionError(f"{repo_id} has no data version {version}; there are {', '.join(there)}")
    return _download(repo_id, version or there[-1])


def _download(repo_id: str, version: str) -> Path:
    """Download what a version's manifest names, after its sizes agree with what the Hub lists."""
    from huggingface_hub import HfApi, snapshot_download

    api = HfApi()
    tag = TAG_PREFIX + version
    with one_sentence(repo_id, f"downloading {tag} of"):
        info = api.dataset_info(repo_id, revision=tag, files_metadata=True, timeout=TIMEOUT_S)
        sizes = {s.rfilename: s.size or 0 for s in info.siblings or []}
        for name in (MANIFEST_NAME, CARD_NAME):
            if not 0 < sizes.get(name, 0) <= MAX_MANIFEST_BYTES:
                raise ReleaseError(f"{repo_id} at {tag} is not an OrbitTrace release: it has no sound {name}")
        ask: dict[str, Any] = {"repo_id": repo_id, "repo_type": "dataset", "revision": tag}
        folder = snapshot_download(**ask, allow_patterns=[MANIFEST_NAME, CARD_NAME])
        manifest = parse_manifest(Path(folder, MANIFEST_NAME).read_bytes(), f"{MANIFEST_NAME} of {repo_id}")
        for file in manifest.files:
            if sizes.get(file.path) != file.bytes:
                raise ReleaseError(
                    f"{repo_id} at {tag} has {file.path} with {sizes.get(file.path, 0)} bytes where its manifest "
                    f"says {file.bytes}: the release is damaged on the Hub"
                )
        small = [name for name in COMPANIONS if sizes.get(name, 0) <= MAX_MANIFEST_BYTES]
        names = [MANIFEST_NAME, CARD_NAME, *small, *(file.path for file in manifest.files)]
        return Path(snapshot_download(**ask, allow_patterns=names))


def _cached(repo_id: str, version: str) -> Path | None:
    """Return the cache's folder of a version if every file that its manifest names is in it."""
    home = cache_folder(repo_id)
    try:
        oid = (home / "refs" / f"{TAG_PREFIX}{version}").read_text().strip()
        folder = home / "snapshots" / oid
        manifest = parse_manifest((folder / MANIFEST_NAME).read_bytes(), MANIFEST_NAME)
    except (OSError, ReleaseError):
        return None
    whole = re.fullmatch(r"[0-9a-f]{40}", oid) and all(
        (folder / name).is_file() for name in (CARD_NAME, *(file.path for file in manifest.files))
    )
    return folder if whole and manifest.version == version else None


@contextmanager
def one_sentence(repo_id: str, doing: str) -> Iterator[None]:
    """Turn whatever the Hub's client raises into one sentence, without a token in it or behind it.

    Parameters
    ----------
    repo_id : str
    doing : str
        What is being done, for the sentence, before the dataset's name: ``"uploading to"``.
    """
    try:
        yield
    except OrbitTraceError:
        raise
    except Exception as error:
        # The chain is dropped: a server may have echoed the request, and with it the token.
        raise _said(error, repo_id, doing) from None


def _said(error: BaseException, repo_id: str, doing: str) -> OrbitTraceError:
    from huggingface_hub import errors

    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    for one in chain:
        if isinstance(one, errors.HFValidationError):
            return InputError(f"{repo_id!r} is no id of a dataset: write it like namespace/orbittrace")
        if isinstance(one, errors.OfflineModeIsEnabled):
            return HubUnreachableError("the Hub is switched off by HF_HUB_OFFLINE: unset it")
        status = getattr(getattr(one, "response", None), "status_code", None)
        if isinstance(status, int):
            return _said_of_status(status, one, repo_id, doing)
        if type(one).__module__.split(".")[0] in _HTTP_PACKAGES or isinstance(one, ConnectionError):
            return HubUnreachableError(
                f"the Hub cannot be reached ({type(one).__name__} while {doing} {repo_id}): run this again once it can"
            )
    return HubError(f"{doing} {repo_id} failed: {without_tokens(f'{type(error).__name__}: {error}')}")


def _said_of_status(status: int, error: BaseException, repo_id: str, doing: str) -> OrbitTraceError:
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return HubMissingError(f"the revision that was asked for is missing while {doing} {repo_id}")
    if isinstance(error, errors.GatedRepoError):
        return HubError(
            f"{repo_id} is gated: accept its conditions on the Hub, and log in with `hf auth login`"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return HubMissingError(
            f"there is no dataset {repo_id} on the Hub, or it is private and your token does not open it: "
            "check the name, or log in with `hf auth login`"
        )
    sentences = {
        401: "the Hub does not accept the token: log in again with `hf auth login`, or set HF_TOKEN",
        403: f"the token has no right to write to {repo_id}: use one with write access to that namespace",
        409: f"{repo_id} was changed by somebody else at the same time: run this again",
        412: f"another commit reached {repo_id} meanwhile, nothing was published: run this again",
        429: "the Hub asks to wait (too many requests): run this again in some minutes",
    }
    if status in sentences:
        return HubError(sentences[status])
    if status >= 500:
        return HubError(f"the Hub failed ({status}) while {doing} {repo_id}: run this again later")
    said = without_tokens(str(getattr(error, "server_message", None) or error))
    return HubError(f"the Hub refused ({status}) while {doing} {repo_id}: {said}")


def without_tokens(text: str) -> str:
    r"""Return a text as one line without anything that is or looks like a token.

    Examples
    --------
    >>> without_tokens("no: Bearer hf_abcdefghijk\n was sent")
    'no: Bearer <token> was sent'
    """
    from huggingface_hub import get_token

    token = get_token()
    if token:
        text = text.replace(token, "<token>")
    text = " ".join(_TOKEN.sub("<token>", text).split())
    return text if len(text) <= 300 else text[:297] + "..."
