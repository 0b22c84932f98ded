"""``orbittrace publish`` and ``versions``: releases on the Hugging Face Hub."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from .app import app


@app.command()
def publish(
    folder: Annotated[Path, typer.Argument(help="The release to publish.")],
    repo: Annotated[str, typer.Option(help="The dataset on the Hub: NAMESPACE/orbittrace.")],
    private: Annotated[bool, typer.Option("--private", help="Only for those who have access.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be done, with sizes, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Take the licence notice as read: for scripts.")] = False,
) -> None:
    """Publish a release on the Hugging Face Hub: one commit, one tag, and everything read back.

    Cut off anywhere, it is run again and finishes. The token is that of HF_TOKEN or of `hf auth login`.
    """
    # Files go over HTTP, as the tests prove it, and not through hf_xet's second service and its own retries:
    # the Hub takes both. Who has gigabytes to send may set it to 0.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # read when huggingface_hub is imported
    from huggingface_hub import logging
    from huggingface_hub.utils import disable_progress_bars

    from ..builders.publish import plan_publication, publish_release
    from ..errors import InputError

    logging.set_verbosity_error()  # its warnings name the signed addresses that files are uploaded to
    if not sys.stderr.isatty():
        disable_progress_bars()
    _note(f"checking {folder}")
    plan = plan_publication(folder, repo, private=private, need_hub=not dry_run)
    if dry_run:
        if plan.unseen:
            _note(f"not compared with the Hub, as if nothing were published yet: {plan.unseen}")
        for operation in plan.operations:
            size = f"{operation.bytes:>14,} bytes" if operation.bytes else ""
            print(f"{operation.action:<8}{operation.what:<52}{size}".rstrip())
        sent = [o for o in plan.operations if o.action in ("add", "replace")]
        print(
            f"{plan.tag} is published already"
            if plan.published
            else f"nothing was changed; {len(sent)} files, {sum(o.bytes for o in sent):,} bytes would be sent"
        )
        return
    if plan.new_elements:
        _note(plan.notice)
        if not yes:
            if not sys.stdin.isatty():
                raise InputError("publishing element sets needs a yes to the licence notice: give --yes")
            if not typer.confirm(f"Publish them to {repo}?", err=True):
                raise typer.Abort
    try:
        oid = publish_release(plan, _note)
    except KeyboardInterrupt:
        _note("interrupted: run the same command again, and it finishes")
        raise
    print(
        f"{plan.tag} of {repo} is published at commit {oid}: {len(plan.digests)} files, every digest compared"
    )
    print(f'load_traces(source="{repo}", version="{plan.manifest.version}")')


@app.command()
def versions(
    source: Annotated[
        str | None, typer.Argument(help="A release folder or a Hub id; by default the bundled release.")
    ] = None,
) -> None:
    """List the data versions of a source, oldest first, and which of them are on this machine."""
    from ..loader import is_hub_id, open_release

    if source is None or not is_hub_id(source):
        _, manifest = open_release(source)
        print(f"{manifest.version}  {'in this package' if source is None else source}")
        return
    from ..hub import HubUnreachableError, cached_versions, published_versions

    here = cached_versions(source)
    try:
        there = published_versions(source)
    except HubUnreachableError as error:
        if not here:
            raise
        _note(f"{error}; these are on this machine")
        there = here
    for version in there:
        print(f"{version}  {'on this machine' if version in here else 'on the Hub'}")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
