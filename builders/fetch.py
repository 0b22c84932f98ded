"""Fresh element sets from CelesTrak, within its rules.

CelesTrak updates its data every two hours, wants each query once an update, answers a repeat with 403, and blocks
an address after 50 errors in two hours or 100 MB in a day. So every answer, good or bad, is recorded in the
user's cache folder, a query is asked once in two hours, one request is in flight at a time (across processes),
nothing is retried, and only what reads as element sets is ever kept as data.
"""

import codecs
import hashlib
import queue
import re
import threading
import time
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote, urlencode, urljoin, urlsplit

from orbittrace_data._version import __version__
from orbittrace_data.errors import FailedError, InputError

from .downloads import Download, alone, now, recall, remember, utc
from .element_set import MAX_CATALOG_NUMBER
from .gp import GpError, Reading, read_element_sets

CELESTRAK_URL = "https://celestrak.org/NORAD/elements/gp.php"
FORMATS = ("csv", "json", "xml", "kvn", "tle", "2le")
_CONTENT_OF = {"2le": "tle"}  # what a reader calls a format that differs only in its names
INTERVAL_S = 2 * 3600
MAX_SATELLITES = 20
USER_AGENT = f"orbittrace-data/{__version__} (builds availability traces from element sets)"

_NOT_UPDATED = 403
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 3
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class QueryError(InputError):
    """A query that is not asked at all."""


class FetchError(FailedError):
    """No data came: what the server said, or how the connection ended."""


class RefusedAnswerError(FetchError):
    """A whole answer came and was not taken: asking again would bring the same."""


@dataclass(frozen=True)
class Limits:
    """How long and how much to read before giving up."""

    connect_s: float = 10
    silence_s: float = 30
    total_s: float = 120
    max_bytes: int = 64 * 2**20


@dataclass(frozen=True)
class Query:
    """One question to ``gp.php``.

    Attributes
    ----------
    key : str
        ``"CATNR"``, ``"GROUP"`` or ``"NAME"``.
    value : str
        A catalogue number, a group such as ``gps-ops``, or a part of a name.
    format : str
        One of `FORMATS`.
    url : str
        Where to ask; a mirror may be given.
    """

    key: str
    value: str
    format: str = "csv"
    url: str = CELESTRAK_URL

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise QueryError(f"the format {self.format!r} is none of {', '.join(FORMATS)}")
        if self.key == "CATNR" and not (self.value.isdecimal() and 0 < int(self.value) <= MAX_CATALOG_NUMBER):
            raise QueryError(f"{self.value!r} is no catalogue number: give an integer of up to nine digits")
        if self.key == "GROUP" and not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}", self.value):
            raise QueryError(f"{self.value!r} is no group's name: give one of CelesTrak's, such as gps-ops")
        if self.key == "NAME" and not (
            self.value.strip() and self.value.isprintable() and len(self.value) <= 64
        ):
            raise QueryError(f"{self.value!r} is no part of a satellite's name: give printable text")
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise QueryError(
                f"{self.url} is no address ({error}): give one such as {CELESTRAK_URL}"
            ) from None
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise QueryError(
                f"{self.url} is not https: element sets are taken over a verified connection only"
            )
        if not host:
            raise QueryError(f"{self.url} names no server: give an address such as {CELESTRAK_URL}")

    @property
    def address(self) -> str:
        """The whole URL."""
        values = {self.key: self.value, "FORMAT": self.format.upper()}
        return f"{self.url}{'&' if '?' in self.url else '?'}{urlencode(values, quote_via=quote)}"

    @property
    def host(self) -> str:
        """The server's name."""
        return urlsplit(self.url).hostname or ""


@dataclass(frozen=True)
class Answer:
    """Element sets as a server sent them.

    Attributes
    ----------
    content : bytes
        Unchanged.
    source : str
        The URL.
    retrieved : str
        When it came, ISO 8601 UTC.
    reading : Reading
        What it holds.
    notes : tuple of str
        What a person should know: that it is an earlier answer, and why.
    """

    content: bytes
    source: str
    retrieved: str
    reading: Reading
    notes: tuple[str, ...] = ()


def fetch(query: Query, limits: Limits = Limits()) -> Answer:
    """Ask one question, or give the last answer where it was asked within two hours.

    Parameters
    ----------
    query : Query
    limits : Limits

    Returns
    -------
    Answer

    Raises
    ------
    FetchError
        If no data came. A server's words are in the sentence; the same question is not asked again before two
        hours are over.
    """
    with alone() as folder:
        record = folder / f"{hashlib.sha256(query.address.encode()).hexdigest()[:32]}.json"
        last, content = recall(record)
        if (
            last is not None
            and 0 <= now() - last.asked_s < INTERVAL_S
            and (last.words or last.refused or content is not None)
        ):
            return _again(query, last, content)
        asked_s = int(now())
        earlier = replace(last or Download(query.address, asked_s), asked_s=asked_s, words="", refused="")
        try:
            status, body = _get_within(query, limits)
            words = _words(query, status, body)
            if status >= 500:
                raise FetchError(f'{query.host} failed ({status}): "{words}"; try again later')
            if words is None:
                new = Download(query.address, asked_s, 200, "", asked_s, hashlib.sha256(body).hexdigest())
                answer = _answer(query, new, body)
                remember(record, new, body)
                return answer
        except RefusedAnswerError as error:
            remember(record, replace(earlier, status=200, refused=str(error)), None)
            raise
        new = replace(earlier, status=status, words=words)
        remember(record, new, None)
        if status == _NOT_UPDATED and content is not None:
            return _answer(
                query, new, content, f"{_said(query, new)}; this is its answer of {utc(new.retrieved_s)}"
            )
        raise FetchError(_said(query, new) + _advice(query, status))


def _again(query: Query, last: Download, content: bytes | None) -> Answer:
    """Give the last answer in place of asking again."""
    wait = f"it is asked again from {utc(last.asked_s + INTERVAL_S)} on"
    if last.refused:
        raise FetchError(f"{last.refused}, at {utc(last.asked_s)}; {wait}")
    if last.words:
        wait = f"{_said(query, last)} at {utc(last.asked_s)}; {wait}"
    if content is None or (last.words and last.status != _NOT_UPDATED):
        raise FetchError(wait)
    return _answer(query, last, content, f"this is the answer of {utc(last.retrieved_s)}; {wait}")


def _said(query: Query, download: Download) -> str:
    return f'{query.host} said ({download.status}): "{download.words}"'


def fetch_satellites(numbers: list[int], format: str = "csv", url: str = CELESTRAK_URL) -> Answer:
    """Ask for satellites one after another, and join their answers.

    Parameters
    ----------
    numbers : list of int
        Catalogue numbers, at most 20: for more, a group is one question.
    format, url : str
        As of `Query`; several satellites cannot be joined in XML.

    Returns
    -------
    Answer

    Raises
    ------
    QueryError
        For too many satellites or a format that cannot be joined.
    FetchError
        For the first satellite of which no data came.
    """
    numbers = list(dict.fromkeys(numbers))
    if len(numbers) > MAX_SATELLITES:
        raise QueryError(
            f"{len(numbers)} satellites are {len(numbers)} questions, at most {MAX_SATELLITES} are asked at once: "
            "fetch the group that holds them"
        )
    if len(numbers) > 1 and format == "xml":
        raise QueryError("several satellites cannot be joined in XML: use --format csv")
    answers = [fetch(Query("CATNR", str(number), format, url)) for number in numbers]
    if len(answers) == 1:
        return answers[0]
    content = _join(format, [answer.content for answer in answers])
    reading = read_element_sets(content)
    if [e.catalog_number for e in reading.element_sets] != numbers or reading.problems:
        raise FetchError("the answers cannot be joined into one file: fetch the satellites one by one")
    joined = Answer(
        content,
        " ".join(answer.source for answer in answers),
        max(answer.retrieved for answer in answers),
        reading,
        tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
    )
    with alone() as folder:
        retrieved_s = int(datetime.fromisoformat(joined.retrieved).timestamp())
        sha256 = hashlib.sha256(content).hexdigest()
        remember(
            folder / f"{sha256[:32]}.json", Download(joined.source, 0, 200, "", retrieved_s, sha256), None
        )
    return joined


def _answer(query: Query, download: Download, content: bytes, *notes: str) -> Answer:
    reading = read_element_sets(content)
    if query.key == "CATNR" and {e.catalog_number for e in reading.element_sets} != {int(query.value)}:
        raise RefusedAnswerError(
            f"{query.host} was asked for {query.value} and sent other objects: nothing was kept"
        )
    return Answer(content, download.source, utc(download.retrieved_s), reading, notes)


def _words(query: Query, status: int, body: bytes) -> str | None:
    """Give what the server said in words, or None where it sent element sets."""
    if status != 200:
        return _printable(body) or f"(status {status}, no text)"
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RefusedAnswerError(
            f"the answer of {query.host} is not UTF-8 (byte {error.start}): nothing was kept"
        ) from None
    try:
        reading = read_element_sets(body)
    except GpError:
        return _printable(body) or "(nothing)"
    if reading.format != _CONTENT_OF.get(query.format, query.format):
        raise RefusedAnswerError(
            f"{query.host} was asked for {query.format.upper()} and sent {reading.format.upper()}: nothing was kept"
        )
    cut = [note for note in reading.notes if "no line end" in note]
    last_line = len(body.rstrip().splitlines())
    cut += [str(problem) for problem in reading.problems if problem.line == last_line]
    if cut or not reading.element_sets:
        reason = cut[0] if cut else str(reading.problems[0])
        raise RefusedAnswerError(f"the answer of {query.host} is not whole ({reason}): nothing was kept")
    return None


def _printable(body: bytes) -> str:
    """Give the beginning of a server's words on one line."""
    text = re.sub(
        r"(?s)<(script|style|head)\b.*?</\1>|<[^>]{0,400}>", " ", body[:20_000].decode("utf-8", "replace")
    )
    text = "".join(c if c.isprintable() else " " for c in text)
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:297] + "..."


def _advice(query: Query, status: int) -> str:
    if status == 404 and query.format in ("tle", "2le"):
        return "; a TLE request leaves out all numbers above 99999: try --format csv"
    if status in _REDIRECTS:
        return "; another host is not followed: if it is the right one, give its address with --url"
    if status == 404 and query.key == "CATNR":
        return "; it has no elements of this object: it may have decayed, or may not be catalogued"
    return ""


def _get_within(query: Query, limits: Limits) -> tuple[int, bytes]:
    """Make the request in a thread of its own: a server that drips its headers keeps `requests` for ever."""
    ended: queue.Queue[tuple[int, bytes] | BaseException] = queue.Queue()

    def work() -> None:
        try:
            ended.put(_get(query, limits))
        except BaseException as error:
            ended.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = ended.get(timeout=limits.total_s + 1)  # a drip in the body ends by itself, in time
    except queue.Empty:
        raise FetchError(_too_slow(query, limits)) from None
    if isinstance(result, BaseException):
        raise result
    return result


def _too_slow(query: Query, limits: Limits) -> str:
    return f"{query.host} was still sending after {limits.total_s:g} s: stopped, nothing was kept"


def _get(query: Query, limits: Limits) -> tuple[int, bytes]:
    """Make one request (and follow redirects within the host), bounded in time and size."""
    import requests

    address, deadline = query.address, time.monotonic() + limits.total_s
    try:
        with requests.Session() as session:
            session.headers.update({"User-Agent": USER_AGENT, "Accept": "*/*"})
            for _ in range(_MAX_REDIRECTS + 1):
                with session.get(
                    address,
                    timeout=(limits.connect_s, limits.silence_s),
                    stream=True,
                    allow_redirects=False,
                ) as response:
                    if response.status_code not in _REDIRECTS:
                        return response.status_code, _body(query, response, deadline, limits)
                    target = urljoin(address, response.headers.get("Location", ""))
                    old, new = urlsplit(address), urlsplit(target)
                    if (new.scheme, new.hostname, new.port) != (old.scheme, old.hostname, old.port):
                        return response.status_code, f"go to {target}".encode("utf-8", "replace")
                    address = target
    except requests.exceptions.SSLError as error:
        raise FetchError(
            f"{query.host} could not prove who it is ({_reason(error)}): nothing was asked"
        ) from None
    except requests.exceptions.ConnectTimeout:
        raise FetchError(
            f"{query.host} did not answer within {limits.connect_s:g} s: try again later"
        ) from None
    except requests.exceptions.Timeout:
        raise FetchError(f"{query.host} fell silent for {limits.silence_s:g} s: try again later") from None
    except requests.exceptions.RequestException as error:
        raise FetchError(f"{query.host} could not be reached ({_reason(error)}): try again later") from None
    except ValueError as error:  # requests looks at where a redirect leads, also where it is not to follow
        raise RefusedAnswerError(f"{query.host} redirected to what is no address ({error})") from None
    raise RefusedAnswerError(f"{query.host} redirected more than {_MAX_REDIRECTS} times")


def _body(query: Query, response, deadline: float, limits: Limits) -> bytes:
    """Read the body piece by piece as it comes, so that neither a drip nor a flood goes on for ever."""
    import urllib3

    body = bytearray()
    try:
        while piece := response.raw.read1(65_536, decode_content=True):
            body += piece
            if len(body) > limits.max_bytes:
                raise RefusedAnswerError(
                    f"{query.host} sent more than {limits.max_bytes / 2**20:g} MiB: stopped, nothing was kept"
                )
            if time.monotonic() > deadline:
                raise FetchError(_too_slow(query, limits))
    except urllib3.exceptions.ReadTimeoutError:
        raise FetchError(f"{query.host} fell silent for {limits.silence_s:g} s: nothing was kept") from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise FetchError(
            f"the connection to {query.host} ended in the middle of the answer ({_reason(error)}): "
            "nothing was kept"
        ) from None
    return bytes(body)


def _reason(error: BaseException) -> str:
    """Find the innermost cause: the outer ones only wrap it."""
    while error.args and isinstance(error.args[-1], BaseException):
        error = error.args[-1]
    cause = getattr(error, "reason", None)
    if isinstance(cause, BaseException):
        return _reason(cause)
    said = re.sub(r"HTTPS?Connection\([^)]*\):? *", "", str(error).rpartition(">: ")[2])
    return _printable(said.encode("utf-8", "replace")) or type(error).__name__


def _join(format: str, contents: list[bytes]) -> bytes:
    """Join whole answers of one format."""
    if format == "json":
        stripped = [content.removeprefix(codecs.BOM_UTF8).strip() for content in contents]
        records = [text[1:-1] if text.startswith(b"[") else text for text in stripped]
        return b"[" + b",".join(records) + b"]"
    if format == "csv":
        header, *rows = contents[0].splitlines(keepends=True)
        for content in contents[1:]:
            other, *more = content.splitlines(keepends=True)
            if other.strip() != header.strip():
                raise FetchError("the answers have different columns and cannot be joined: use --format json")
            rows += more
        return b"".join([header, *rows])
    return b"".join(content if content.endswith(b"\n") else content + b"\n" for content in contents)
