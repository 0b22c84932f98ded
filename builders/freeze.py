"""Making a snapshot of any file of element sets."""

import os
from datetime import datetime
from urllib.parse import urlsplit

from .downloads import find_download, utc
from .fetch import CELESTRAK_URL
from .gp import load, read_element_sets
from .snapshot import Snapshot, SnapshotError, write_snapshot

LICENCE_NOTICE = (
    "General-perturbations data of the United States Space Command (18th Space Defense Squadron, "
    "Space-Track.org), distributed through CelesTrak. Public notes quote Space-Track's user agreement as giving "
    "blanket approval to redistribute basic SSA data (TLEs, OMMs, SATCAT) on condition of an appropriate "
    "citation; other projects read it as forbidding raw redistribution, and the primary page was not seen by the "
    "maintainers. Whoever publishes these element sets checks that clause first. Not for conjunction assessment."
)
CITATION = "USSPACECOM / 18 SDS via Space-Track.org and CelesTrak."


def freeze_file(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str],
    source: str | None = None,
    retrieved: str | None = None,
    licence_notice: str | None = None,
    citation: str | None = None,
) -> Snapshot:
    """Freeze a file of element sets as it is.

    Parameters
    ----------
    file : path or "-"
        A file or standard input, in any format that `read_element_sets` knows; every record in it must be good.
    out : path
        The folder to make; its name is the snapshot's.
    source, retrieved : str, optional
        Where and when the file was got (an ISO 8601 date or instant). Known for what `fetch` downloaded.
    licence_notice, citation : str, optional
        For CelesTrak's data there are defaults.

    Returns
    -------
    Snapshot

    Raises
    ------
    SnapshotError
        If a fact is needed and not known.
    GpError
        If the file cannot be read, or a record in it is bad.
    """
    content, called = load(file)
    read_element_sets(content, strict=True, called=called)
    download = find_download(content)
    if download is not None:
        source = source or download.source
        retrieved = retrieved or utc(download.retrieved_s)
        if urlsplit(download.source).hostname == urlsplit(CELESTRAK_URL).hostname:
            licence_notice = licence_notice or LICENCE_NOTICE
            citation = citation or CITATION
    facts = {
        "--source": source,
        "--retrieved": retrieved,
        "--licence-notice": licence_notice,
        "--citation": citation,
    }
    unknown = [option for option, value in facts.items() if not value]
    if unknown:
        raise SnapshotError(
            f"not all is known about {called}, as it is of what `orbittrace fetch` got from CelesTrak itself: "
            f"give {', '.join(unknown)}"
        )
    try:
        datetime.fromisoformat(retrieved or "")
    except ValueError:
        raise SnapshotError(
            f"--retrieved {retrieved} is no ISO 8601 date or instant, such as 2026-08-16"
        ) from None
    return write_snapshot(
        out,
        content,
        source=source or "",
        retrieved=retrieved or "",
        licence_notice=licence_notice or "",
        citation=citation or "",
    )
