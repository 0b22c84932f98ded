"""Publish a release on the Hugging Face Hub: one commit, one tag, then everything read back and compared.

Nothing is left half-done wherever this is cut off. Until the commit, the Hub shows the old release;
the commit is atomic; the tag is put on the commit that holds the whole release. Each run looks at what
the Hub shows and does what is missing, so running it again finishes.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal

from ..errors import FailedError, InputError
from ..hub import (
    TAG_PREFIX,
    TIMEOUT_S,
    HubMissingError,
    HubUnreachableError,
    one_sentence,
    versions_among,
)
from ..manifest import (
    CARD_NAME,
    COMPANIONS,
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    ReleaseError,
    file_sha256,
    parse_manifest,
)
from .verify import check_release

if TYPE_CHECKING:
    from huggingface_hub import HfApi

GITATTRIBUTES = ".gitattributes"


class PublishError(FailedError):
    """A release that cannot be published there, or did not arrive as it is here."""


@dataclass(frozen=True)
class Operation:
    """One thing that a publication does to the repository.

    ``keep`` is a file that is there already; ``leave`` one that is not part of any release.
    """

    action: Literal["create", "add", "replace", "keep", "delete", "leave", "tag"]
    what: str
    bytes: int = 0


@dataclass(frozen=True)
class Publication:
    """What it takes to publish a release, from what the Hub shows now.

    Attributes
    ----------
    repo_id : str
    folder : Path
    manifest : Manifest
    private : bool
    digests : dict of str to str
        sha256 of every file of the release.
    parent : str or None
        The commit that main shows; None where the repository has to be made.
    published : str or None
        The commit of this version's tag if it is there, with the same content.
    new_elements : bool
        Whether the repository shows no release of this snapshot yet: then the licence is asked about.
    operations : tuple of Operation
    unseen : str or None
        Why the Hub could not be looked at, so that the operations are those of a first publication.
    """

    repo_id: str
    folder: Path
    manifest: Manifest
    private: bool
    digests: dict[str, str]
    parent: str | None
    published: str | None
    new_elements: bool
    operations: tuple[Operation, ...]
    unseen: str | None = None

    @property
    def tag(self) -> str:
        """The name of this version's tag."""
        return TAG_PREFIX + self.manifest.version

    @property
    def notice(self) -> str:
        """What is said before element sets are published for the first time."""
        snapshot = self.manifest.snapshot
        return (
            f"This publishes element sets: {snapshot['source']}\n"
            f"Licence notice: {snapshot['licence_notice']}\n"
            f"Citation: {snapshot['citation']}"
        )


def plan_publication(
    folder: str | Path, repo_id: str, *, private: bool = False, need_hub: bool = True
) -> Publication:
    """Check a release, look at what the Hub shows, and say what there is to do. Changes nothing.

    Parameters
    ----------
    folder : str or Path
        The release.
    repo_id : str
        Such as ``namespace/orbittrace``.
    private : bool
        Whether the dataset is to be private.
    need_hub : bool
        False gives a plan also where the Hub cannot be reached, with ``unseen`` set; it cannot be published.

    Returns
    -------
    Publication

    Raises
    ------
    ReleaseError
        If the release does not hold.
    PublishError
        If the version is published with other content, or the repository is not for this release.
    HubError
        If the Hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    _check_id(repo_id)
    if not Path(folder).is_dir():
        raise InputError(
            f"{folder} is no folder: build a release with `orbittrace build` or `orbittrace export`"
        )
    path, manifest = check_release(folder)
    files = release_files(path, manifest)
    digests = {name: file_sha256(path / name) for name in files}
    added = [Operation("add", name, size) for name, size in files.items()]
    all_of_it = (*added, Operation("tag", TAG_PREFIX + manifest.version))
    plan = Publication(repo_id, path, manifest, private, digests, None, None, True, all_of_it)
    api = HfApi(token=_token())
    try:
        with one_sentence(repo_id, "looking at"):
            info = api.dataset_info(repo_id, files_metadata=True, timeout=TIMEOUT_S)
            tags = {t.name: t.target_commit for t in api.list_repo_refs(repo_id, repo_type="dataset").tags}
    except HubMissingError:
        made = Operation("create", f"{repo_id} ({'private' if private else 'public'})")
        return replace(plan, operations=(made, *all_of_it))
    except HubUnreachableError as error:
        if need_hub:
            raise
        return replace(plan, unseen=str(error))
    if private and not info.private:
        raise PublishError(
            f"{repo_id} is public: make it private in its settings on the Hub first, or leave out --private"
        )
    if info.sha is None:
        raise PublishError(f"{repo_id}: the Hub names no commit of it; try again later")
    there = _remote_files(info)
    shown = _remote_manifest(api, repo_id, info.sha, there)
    _check_owner(plan, there, shown)
    same_elements = shown is not None and shown.snapshot.get("digest") == manifest.snapshot.get("digest")
    plan = replace(plan, parent=info.sha, new_elements=not same_elements)
    if plan.tag in tags:
        _check_published(api, plan, tags[plan.tag])
        return replace(plan, published=tags[plan.tag], new_elements=False)
    newer = [v for v in versions_among(tags) if _order(v) > _order(manifest.version)]
    if newer:
        raise PublishError(
            f"{repo_id} shows version {newer[-1]} already, {manifest.version} would set it back: "
            "publish under a higher version"
        )
    return replace(plan, operations=tuple(_operations(plan, files, there)))


def publish_release(plan: Publication, say: Callable[[str], None] = lambda text: None) -> str:
    """Do what a plan says, and compare what the Hub then shows with the release, byte by byte.

    Parameters
    ----------
    plan : Publication
    say : callable
        Told what is being done.

    Returns
    -------
    str
        The oid of the commit that the version's tag names.

    Raises
    ------
    HubError
        If the Hub refuses or the connection breaks; run it again to finish.
    PublishError
        If what arrived is not what was sent.
    """
    from huggingface_hub import HfApi

    if plan.unseen is not None:
        raise HubUnreachableError(plan.unseen)
    token = _token()
    if token is None:
        raise InputError("publishing needs a token: set HF_TOKEN, or log in with `hf auth login`")
    api = HfApi(token=token)
    oid = plan.published
    if oid is None:
        oid = _commit(api, plan, say)
        say(f"tagging {oid[:12]} as {plan.tag}")
        with one_sentence(plan.repo_id, f"tagging {plan.tag} of"):
            api.create_tag(plan.repo_id, tag=plan.tag, revision=oid, repo_type="dataset")
    say(f"reading {plan.tag} back")
    _read_back(api, plan, oid)
    return oid


def release_files(folder: Path, manifest: Manifest) -> dict[str, int]:
    """Return the files that belong to a release and their sizes; whatever else lies in the folder stays."""
    names = [CARD_NAME, MANIFEST_NAME, *(n for n in COMPANIONS if (folder / n).is_file())]
    names += [file.path for file in manifest.files]
    return {name: (folder / name).stat().st_size for name in names}


def _commit(api: "HfApi", plan: Publication, say: Callable[[str], None]) -> str:
    """Bring the release to main in one commit, unless main shows it already; return its oid."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    parent = plan.parent
    if parent is None:
        say(f"making the dataset {plan.repo_id}")
        with one_sentence(plan.repo_id, "making"):
            api.create_repo(plan.repo_id, repo_type="dataset", private=plan.private)
            parent = api.dataset_info(plan.repo_id, timeout=TIMEOUT_S).sha
    added = [o for o in plan.operations if o.action in ("add", "replace")]
    deleted = [o for o in plan.operations if o.action == "delete"]
    if not added and not deleted:
        assert plan.parent is not None, "a new repository lacks every file"
        return plan.parent
    say(f"uploading {len(added)} files, {sum(o.bytes for o in added):,} bytes")
    with one_sentence(plan.repo_id, "uploading to"):
        made = api.create_commit(
            plan.repo_id,
            [
                *(CommitOperationAdd(o.what, plan.folder / o.what) for o in added),
                *(CommitOperationDelete(o.what, is_folder=False) for o in deleted),
            ],
            commit_message=f"Release {plan.manifest.label}",
            repo_type="dataset",
            parent_commit=parent,
        )
    return made.oid


def _read_back(api: "HfApi", plan: Publication, oid: str) -> None:
    """Download the tag into an empty place and compare every file's digest."""
    with TemporaryDirectory() as empty:
        with one_sentence(plan.repo_id, f"reading back {plan.tag} of"):
            folder = Path(
                api.snapshot_download(
                    plan.repo_id,
                    repo_type="dataset",
                    revision=plan.tag,
                    cache_dir=empty,
                    allow_patterns=list(plan.digests),
                )
            )
        if folder.name != oid:
            raise PublishError(
                f"{plan.tag} of {plan.repo_id} names commit {folder.name}, not {oid}: look at the Hub"
            )
        for name, digest in plan.digests.items():
            arrived = folder / name
            if not arrived.is_file() or file_sha256(arrived) != digest:
                raise PublishError(
                    f"{name} at {plan.tag} of {plan.repo_id} is not the file that was sent: remove that tag on the "
                    "Hub, and publish again"
                )


def _operations(plan: Publication, files: dict[str, int], there: dict[str, str]) -> list[Operation]:
    operations = []
    for name, size in files.items():
        if name not in there:
            operations.append(Operation("add", name, size))
        elif _same(plan, name, there[name]):
            operations.append(Operation("keep", name, size))
        else:
            operations.append(Operation("replace", name, size))
    for name in sorted(set(there) - set(files) - {GITATTRIBUTES}):
        ours = name.startswith("data/") or name in COMPANIONS
        operations.append(Operation("delete" if ours else "leave", name))
    return [*operations, Operation("tag", plan.tag)]


def _check_id(repo_id: str) -> None:
    from huggingface_hub.utils import validate_repo_id

    with one_sentence(repo_id, "reading the name of"):
        validate_repo_id(repo_id)
    if repo_id.count("/") != 1:
        raise InputError(f"--repo {repo_id} has no namespace: write it like namespace/orbittrace")


def _check_owner(plan: Publication, there: dict[str, str], shown: Manifest | None) -> None:
    """Refuse a repository that holds anything but releases of the same kind."""
    if shown is None:
        if set(there) - {GITATTRIBUTES}:
            raise PublishError(
                f"{plan.repo_id} is taken: it holds something that is not an OrbitTrace release; choose another name"
            )
    elif shown.kind != plan.manifest.kind:
        raise PublishError(
            f"{plan.repo_id} holds a {shown.kind} release and this is a {plan.manifest.kind} one: "
            "choose another name, so that nobody takes one for the other"
        )


def _check_published(api: "HfApi", plan: Publication, oid: str) -> None:
    """Refuse a version that is published with other content than the folder's."""
    with one_sentence(plan.repo_id, f"looking at {plan.tag} of"):
        there = _remote_files(
            api.dataset_info(plan.repo_id, revision=oid, files_metadata=True, timeout=TIMEOUT_S)
        )
    odd = [name for name in plan.digests if not _same(plan, name, there.get(name))]
    odd += [name for name in there if name.startswith("data/") and name not in plan.digests]
    if not odd:
        return
    published = _remote_manifest(api, plan.repo_id, oid, there)
    if published is not None and published.content_digest == plan.manifest.content_digest:
        raise PublishError(
            f"{plan.repo_id} has version {plan.manifest.version} with the same rows and another {odd[0]}: a published "
            "version never changes, give changed metadata a higher patch version"
        )
    raise PublishError(
        f"{plan.repo_id} has version {plan.manifest.version} with other rows: a published version never changes, "
        "give this release a higher version"
    )


def _remote_files(info) -> dict[str, str]:
    """Return what identifies each file's content: sha256 for a large one, git's blob id otherwise."""
    return {
        sibling.rfilename: (sibling.lfs["sha256"] if isinstance(sibling.lfs, dict) else sibling.lfs.sha256)
        if sibling.lfs
        else sibling.blob_id
        for sibling in info.siblings or []
    }


def _remote_manifest(api: "HfApi", repo_id: str, oid: str, there: dict[str, str]) -> Manifest | None:
    """Return the manifest that a commit shows, None if it shows no release."""
    if MANIFEST_NAME not in there:
        return None
    with TemporaryDirectory() as empty, one_sentence(repo_id, f"reading {MANIFEST_NAME} of"):
        path = Path(
            api.hf_hub_download(repo_id, MANIFEST_NAME, repo_type="dataset", revision=oid, cache_dir=empty)
        )
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            return None
        try:
            return parse_manifest(path.read_bytes(), f"{MANIFEST_NAME} of {repo_id}")
        except ReleaseError:
            return None


def _same(plan: Publication, name: str, identity: str | None) -> bool:
    """Tell whether a file here is the one that the Hub identifies by sha256 or by git's blob id."""
    if identity is None or len(identity) == len(plan.digests[name]):
        return identity == plan.digests[name]
    content = (plan.folder / name).read_bytes()
    return identity == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _token() -> str | None:
    from huggingface_hub import get_token

    return get_token()
