"""Fetching within CelesTrak's rules, against a real server on 127.0.0.1 that plays each of its answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import celestrak_server
import pytest
from celestrak_server import SATELLITES, CelesTrak
from gp_samples import ANALYST, ISS, NOMINAL, csv_text, json_text

from orbittrace_data.builders import downloads
from orbittrace_data.builders.downloads import CacheError, cache_folder
from orbittrace_data.builders.fetch import FetchError, Limits, Query, QueryError, fetch, fetch_satellites
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.cli import run

SHORT = Limits(connect_s=10, silence_s=2, total_s=3, max_bytes=200_000)


@pytest.fixture
def server():
    played = CelesTrak()
    yield played
    played.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ORBITTRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test turns."""

    class Clock:
        s = 1_786_788_000.0

        def __call__(self) -> float:
            return self.s

    turned = Clock()
    monkeypatch.setattr(downloads.time, "time", turned)
    return turned


def group(server, name: str, limits: Limits = SHORT, form: str = "csv"):
    return fetch(Query("GROUP", name, form, server.url), limits)


def test_a_group_is_data_with_its_source_and_time(server, clock):
    answer = group(server, "stations")
    assert answer.content == csv_text(ISS, NOMINAL, ANALYST).encode()
    assert answer.source == f"{server.url}?GROUP=stations&FORMAT=CSV"
    assert answer.retrieved == "2026-08-15T10:00:00Z"
    assert answer.notes == ()
    assert [e.catalog_number for e in answer.reading.element_sets] == [25544, 799501621, 270449]
    (agent,) = server.agents
    assert agent.startswith("orbittrace-data/")


def test_a_query_is_asked_once_in_two_hours(server, clock):
    first = group(server, "stations")
    clock.s += 7199
    again = group(server, "stations")
    assert len(server.asked) == 1
    assert again.content == first.content
    assert again.notes == (
        "this is the answer of 2026-08-15T10:00:00Z; it is asked again from 2026-08-15T12:00:00Z on",
    )
    clock.s += 1
    assert group(server, "stations").retrieved == "2026-08-15T12:00:00Z"
    assert len(server.asked) == 2


def test_another_format_is_another_query(server):
    group(server, "stations")
    assert group(server, "stations", form="json").reading.format == "json"
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nope",
            '127.0.0.1 said (200): "Invalid query: "GROUP=nope&FORMAT=CSV" (GROUP=nope not found)"',
        ),
        ("html", '127.0.0.1 said (200): "Down for maintenance"'),
        (
            "elsewhere",
            '127.0.0.1 said (301): "go to http://localhost:PORT/gp.php?GROUP=stations"; another host is not '
            "followed: if it is the right one, give its address with --url",
        ),
    ],
)
def test_words_are_told_never_kept_as_data_and_not_asked_for_again(server, clock, name, said):
    said = said.replace("PORT", str(server.server.server_port))
    with pytest.raises(FetchError) as error:
        group(server, name)
    assert str(error.value) == said
    clock.s += 60
    with pytest.raises(FetchError, match=r"said .* at 2026-08-15T10:00:00Z; it is asked again from 2026"):
        group(server, name)
    assert len(server.asked) == 1


def test_not_found_is_told_with_what_to_do(server):
    with pytest.raises(FetchError) as error:
        fetch_satellites([99999], url=server.url)
    assert str(error.value) == (
        '127.0.0.1 said (404): "No GP data found"; it has no elements of this object: it may have decayed, or '
        "may not be catalogued"
    )
    with pytest.raises(
        FetchError, match="a TLE request leaves out all numbers above 99999: try --format csv"
    ):
        fetch_satellites([799501621], "tle", server.url)


def test_not_updated_gives_the_last_answer_and_says_so(server, clock):
    first = group(server, "updated")
    server.updated = False
    clock.s += 7201
    answer = group(server, "updated")
    assert answer.content == first.content
    assert answer.retrieved == "2026-08-15T10:00:00Z"
    assert "GP data has not updated since your last successful download of GROUP=updated" in answer.notes[0]
    assert answer.notes[0].endswith("this is its answer of 2026-08-15T10:00:00Z")
    clock.s += 60
    assert "GP data has not updated" in group(server, "updated").notes[0]
    assert len(server.asked) == 2
    server.updated = True
    clock.s += 7201
    assert group(server, "updated").notes == ()


def test_not_updated_without_an_answer_is_told(server):
    server.updated = False
    for _ in range(2):
        with pytest.raises(FetchError, match=r"said \(403\): .GP data has not updated since"):
            group(server, "updated")
    assert len(server.asked) == 1


def test_what_is_gone_is_not_replaced_by_an_earlier_answer(server, clock):
    fetch_satellites([25544], url=server.url)
    clock.s += 7201
    with mock.patch.dict(SATELLITES):
        del SATELLITES["25544"]
        for _ in range(2):
            with pytest.raises(FetchError, match=r"said \(404\): .No GP data found"):
                fetch_satellites([25544], url=server.url)
    assert len(server.asked) == 2


FAILURES = {
    "broken": '127.0.0.1 failed (500): "Internal Server Error"; try again later',
    "circle": "127.0.0.1 redirected more than 3 times",
    "latin": "the answer of 127.0.0.1 is not UTF-8 (byte",
    "cut": "the connection to 127.0.0.1 ended in the middle of the answer (",
    "cut-chunks": "the connection to 127.0.0.1 ended in the middle of the answer (",
    "cut-unsaid": "the answer of 127.0.0.1 is not whole (",
    "bomb": "127.0.0.1 sent more than 0.190735 MiB: stopped, nothing was kept",
    "silent": "127.0.0.1 fell silent for 2 s: try again later",
    "drip": "127.0.0.1 was still sending after 3 s: stopped, nothing was kept",
    "drip-header": "127.0.0.1 was still sending after 3 s: stopped, nothing was kept",
    "endless": "127.0.0.1 sent more than 0.190735 MiB: stopped, nothing was kept",
}
WHOLE = ("circle", "latin", "cut-unsaid", "bomb", "endless")  # asking again would bring the same


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_not_whole_is_not_kept(server, cache, name):
    with pytest.raises(FetchError) as error:
        group(server, name)
    assert str(error.value).startswith(FAILURES[name])
    assert not list((cache / "downloads").glob("*.data"))
    asked = len(server.asked)
    if name in WHOLE:
        with pytest.raises(FetchError, match="it is asked again from") as again:
            group(server, name)
        assert str(again.value).startswith(FAILURES[name])
        assert len(server.asked) == asked
    else:
        assert [path.name for path in (cache / "downloads").iterdir()] == ["lock"]


@pytest.mark.parametrize("name", ["nowhere", "no-port"])
def test_a_redirect_to_no_address_is_told(server, name):
    with pytest.raises(FetchError, match="redirected to what is no address"):
        group(server, name)


@pytest.mark.parametrize("answers", [b"{}", b"[]"])
def test_json_answers_are_joined_as_records_or_not_at_all(server, monkeypatch, answers):
    def text(satellite):
        whole = json_text(satellite).strip()
        return whole if answers == b"[]" else whole[1:-1]

    monkeypatch.setitem(celestrak_server.TEXTS, "json", text)
    answer = fetch_satellites([25544, 799501621], "json", server.url)
    assert [one["NORAD_CAT_ID"] for one in json.loads(answer.content)] == [25544, 799501621]


@pytest.mark.parametrize("name", ["moved", "chunks", "gzip"])
def test_redirects_within_the_host_chunks_and_compression_are_followed(server, name):
    assert len(group(server, name).reading.element_sets) == 3


def test_no_server_is_told():
    with pytest.raises(FetchError, match=r"127\.0\.0\.1 could not be reached \(.*Connection refused\)"):
        fetch(Query("GROUP", "stations", url="http://127.0.0.1:9/gp.php"), SHORT)


# Of no use but here: it vouches for 127.0.0.1, and nobody vouches for it.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg8enK6/iDRbDU822G
kmTNfxlOJQX9vBILAx6msbOELFahRANCAAR9zTI/3ObTPbop7Jxyrmo2fmHPtMl7
Y8JyF93/2TRGr1B+uPZSsOgGMBCs5KsjQYkIGtQtxpGAhhoxgPuOaNmx
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBkTCCATagAwIBAgIUcmlVP+mQBN17gapf4d6D/pzov5QwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTEzMDIyNDQ1M1oYDzIxMjYxMTA2
MjI0NDUzWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR9zTI/3ObTPbop7Jxyrmo2fmHPtMl7Y8JyF93/2TRGr1B+uPZSsOgG
MBCs5KsjQYkIGtQtxpGAhhoxgPuOaNmxo2QwYjAdBgNVHQ4EFgQUmG+7du64oi+L
x4n6eW9GGPRf850wHwYDVR0jBBgwFoAUmG+7du64oi+Lx4n6eW9GGPRf850wDwYD
VR0TAQH/BAUwAwEB/zAPBgNVHREECDAGhwR/AAABMAoGCCqGSM49BAMCA0kAMEYC
IQC1nPIl5R25FhEc9kqG51rcmQPWv+mN9AhoQKB/DTI4egIhALKa5GFGn+uvV/Yc
JdCAO7UqYX0aSYfB4Z1DA/NxNNls
-----END CERTIFICATE-----
"""


def test_a_server_must_prove_who_it_is(server, tmp_path):
    certificate = tmp_path / "certificate.pem"
    certificate.write_text(CERTIFICATE)
    server.use_tls(str(certificate))
    with pytest.raises(FetchError, match=r"127\.0\.0\.1 could not prove who it is \(.*self.signed"):
        group(server, "stations")
    assert server.asked == []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (("GROUP", "a&b"), "'a&b' is no group's name"),
        (("GROUP", ""), "'' is no group's name"),
        (("CATNR", "A0000"), "'A0000' is no catalogue number"),
        (("CATNR", "1000000000"), "'1000000000' is no catalogue number"),
        (("CATNR", "0"), "'0' is no catalogue number"),
        (("NAME", " "), "' ' is no part of a satellite's name"),
        (("NAME", "ISS\n"), r"'ISS\\n' is no part of a satellite's name"),
        (("GROUP", "stations", "yaml"), "the format 'yaml' is none of csv, json, xml, kvn, tle, 2le"),
        (("GROUP", "stations", "csv", "http://celestrak.org/gp.php"), "is not https"),
        (("GROUP", "stations", "csv", "file:///etc/passwd"), "is not https"),
        (("GROUP", "stations", "csv", "http://[::1"), "is no address"),
        (("GROUP", "stations", "csv", "https://a:99999999/"), "is no address"),
        (("GROUP", "stations", "csv", "https://"), "names no server"),
    ],
)
def test_a_bad_question_is_not_asked(query, sentence):
    with pytest.raises(QueryError, match=sentence):
        Query(*query)


def test_a_name_is_encoded(server):
    assert len(fetch(Query("NAME", "ISS (Z", url=server.url)).reading.element_sets) == 1
    assert server.asked == ["/NORAD/elements/gp.php?NAME=ISS%20%28Z&FORMAT=CSV"]
    with pytest.raises(FetchError, match=r"said \(200\): .\(nothing\)"):
        fetch(Query("NAME", "nobody", url=server.url))


@pytest.mark.parametrize(("form", "text"), [("csv", csv_text), ("json", json_text)])
def test_satellites_are_asked_one_by_one_and_joined(server, form, text):
    answer = fetch_satellites([25544, 799501621, 25544], form, server.url)
    assert len(server.asked) == 2
    assert server.most_in_flight == 1
    assert answer.content.replace(b", ", b",") == text(ISS, NOMINAL).encode().replace(b", ", b",")
    assert answer.source.count("CATNR=") == 2


@pytest.mark.parametrize("form", ["kvn", "tle"])
def test_other_formats_are_joined_too(server, form):
    numbers = [25544, 270449] if form == "kvn" else [25544]
    assert len(fetch_satellites(numbers, form, server.url).reading.element_sets) == len(numbers)


def test_too_many_satellites_are_refused(server):
    with pytest.raises(QueryError, match="21 satellites are 21 questions, at most 20 are asked at once"):
        fetch_satellites(list(range(1, 22)), url=server.url)
    with pytest.raises(QueryError, match="cannot be joined in XML"):
        fetch_satellites([1, 2], "xml", server.url)
    assert server.asked == []


def test_another_object_than_the_one_asked_for_is_refused(server, monkeypatch):
    monkeypatch.setitem(SATELLITES, "25545", ISS)
    with pytest.raises(FetchError, match="was asked for 25545 and sent other objects"):
        fetch_satellites([25545], url=server.url)
    with pytest.raises(
        FetchError, match=r"sent other objects: nothing was kept, at 20.*it is asked again from"
    ):
        fetch_satellites([25545], url=server.url)
    assert len(server.asked) == 1


def test_more_objects_than_the_one_asked_for_are_refused(server, monkeypatch):
    monkeypatch.setitem(celestrak_server.TEXTS, "csv", lambda *_: csv_text(ISS, NOMINAL))
    with pytest.raises(FetchError, match="was asked for 25544 and sent other objects: nothing was kept"):
        fetch_satellites([25544], url=server.url)


def test_an_answer_in_another_format_is_refused(server):
    with pytest.raises(FetchError, match="was asked for TLE and sent CSV: nothing was kept"):
        group(server, "deaf", form="tle")


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"source": 1}', b"\xff", None])
def test_a_damaged_record_of_downloads_counts_as_none(server, cache, damage):
    group(server, "stations")
    (record,) = (cache / "downloads").glob("*.json")
    if damage is None:
        record.with_suffix(".data").write_bytes(b"changed")
    else:
        record.write_bytes(damage)
    assert group(server, "stations").notes == ()
    assert len(server.asked) == 2


def test_the_cache_folder_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.delenv("ORBITTRACE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "orbittrace"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "orbittrace"


def test_a_cache_that_cannot_be_written_is_told(server, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ORBITTRACE_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheError, match=r"cannot be written .*: set ORBITTRACE_CACHE"):
        group(server, "stations")
    assert server.asked == []


def test_one_request_is_in_flight_across_processes(server, cache):
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    command = [sys.executable, "-m", "orbittrace_data", "fetch", "--url", server.url, "--group", "lingering"]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][0] == said[1][0] == csv_text(ISS, NOMINAL, ANALYST).encode()
    assert (len(server.asked), server.most_in_flight) == (1, 1)
    assert sum(b"note: this is the answer of" in stderr for _, stderr in said) == 1


def test_the_command_writes_a_file_whole_and_words_leave_it_alone(server, tmp_path, capsys):
    out = tmp_path / "gp.csv"
    assert run(["fetch", "--group", "stations", "--out", str(out), "--url", server.url]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {out}: 3 satellites, retrieved 20")
    assert out.read_bytes() == csv_text(ISS, NOMINAL, ANALYST).encode()
    assert run(["fetch", "--group", "nope", "--out", str(out), "--url", server.url]) == 1
    assert 'orbittrace: 127.0.0.1 said (200): "Invalid query' in capsys.readouterr().err
    assert out.read_bytes() == csv_text(ISS, NOMINAL, ANALYST).encode()
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".tmp"] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say what to fetch with one of --catalog, --group and --name"),
        (["--group", "a", "--name", "b"], "say what to fetch with one of --catalog, --group and --name"),
        (["--catalog", "x"], "Invalid value for '--catalog'"),
        (["--catalog", "-1"], "'-1' is no catalogue number"),
        (["--group", "a", "--out", "/nowhere/x"], "/nowhere/x cannot be written"),
    ],
)
def test_bad_options_are_told(arguments, sentence, capsys):
    assert run(["fetch", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_what_was_fetched_is_frozen_with_what_is_known_of_it(server, tmp_path, capsys):
    out, frozen = tmp_path / "gp.csv", tmp_path / "snapshots" / "2026-08-15"
    assert (
        run(["fetch", "--catalog", "25544", "--catalog", "270449", "--out", str(out), "--url", server.url])
        == 0
    )
    facts = ["--licence-notice", "none known", "--citation", "a test"]
    assert run(["freeze", str(out), "--out", str(frozen), *facts]) == 0
    snapshot = read_snapshot(frozen)
    assert (frozen / "elements.csv").read_bytes() == out.read_bytes()
    assert snapshot.source.split() == [f"{server.url}?CATNR={n}&FORMAT=CSV" for n in (25544, 270449)]
    assert snapshot.retrieved.endswith("Z")
    assert capsys.readouterr().out.endswith(f"froze {frozen}: 2 satellites, digest {snapshot.digest}\n")
    assert run(["freeze", str(out), "--out", str(frozen), *facts]) == 2
    assert "exists already" in capsys.readouterr().err


def test_celestrak_data_bring_their_notice(server, tmp_path, cache):
    out = tmp_path / "gp.csv"
    assert run(["fetch", "--group", "stations", "--out", str(out), "--url", server.url]) == 0
    (record,) = (cache / "downloads").glob("*.json")
    facts = json.loads(record.read_text())
    facts["source"] = "https://celestrak.org/NORAD/elements/gp.php?GROUP=stations&FORMAT=CSV"
    record.write_text(json.dumps(facts))
    assert run(["freeze", str(out), "--out", str(tmp_path / "s")]) == 0
    snapshot = read_snapshot(tmp_path / "s")
    assert snapshot.citation == "USSPACECOM / 18 SDS via Space-Track.org and CelesTrak."
    assert "Not for conjunction assessment." in snapshot.licence_notice


def test_standard_input_is_frozen_as_it_is(tmp_path, capsys, monkeypatch):
    path = tmp_path / "own.csv"
    path.write_text(csv_text(ISS))
    facts = [
        "--source",
        "my own",
        "--licence-notice",
        "mine",
        "--citation",
        "me",
        "--retrieved",
        "2026-08-16",
    ]
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run(["freeze", "-", "--out", str(tmp_path / "s"), *facts]) == 0
    assert (tmp_path / "s" / "elements.csv").read_bytes() == path.read_bytes()
    path.write_text("")
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert run(["freeze", "-", "--out", str(tmp_path / "t"), *facts]) == 2
    assert "standard input is empty" in capsys.readouterr().err


def test_what_is_not_known_of_a_file_must_be_said(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text(csv_text(ISS))
    assert run(["freeze", str(path), "--out", str(tmp_path / "s"), "--source", "my own"]) == 2
    assert "give --retrieved, --licence-notice, --citation" in capsys.readouterr().err
    facts = ["--source", "my own", "--licence-notice", "mine", "--citation", "me", "--retrieved"]
    assert run(["freeze", str(path), "--out", str(tmp_path / "s"), *facts, "yesterday"]) == 2
    assert "--retrieved yesterday is no ISO 8601 date" in capsys.readouterr().err
    path.write_text(csv_text(ISS | {"ECCENTRICITY": "2"}))
    assert run(["freeze", str(path), "--out", str(tmp_path / "s"), *facts, "2026-08-16"]) == 2
    assert "1 bad record: line 2, record 25544, ECCENTRICITY" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
