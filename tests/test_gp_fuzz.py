"""Mutations of real records in every format: no exception but the documented one, no NaN, no hang."""

import pytest
from gp_laws import check_reading
from gp_samples import ANALYST, ISS, NOMINAL, TEXTS, TLE
from hypothesis import given, settings
from hypothesis import strategies as st

ORIGINALS = {form: text(NOMINAL, ISS, ANALYST).encode() for form, text in TEXTS.items()}
ORIGINALS |= {"tle": (TLE * 2).encode(), "tle_crlf": TLE.replace("\n", "\r\n").encode() * 2}
TOKENS = [
    *(
        b"\r\n",
        b"\n",
        b"\x00",
        b"\xa0",
        b"\xc2\xa0",
        b"\xff",
        b" ",
        b",",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b"<",
        b"&a;",
    ),
    *(
        b"-",
        b"e",
        b"9" * 30,
        b"NaN",
        b"1e999",
        b"</omm>",
        b"<omm>",
        b"<!DOCTYPE a>",
        b"EPOCH",
        b"A0000",
        b"null",
    ),
    *(b"1 25544U", b"2 25544 ", b"CCSDS_OMM_VERS = 3.0", b"60", b"0", b"\xef\xbb\xbf", b"\xe2\x80\xae"),
]


@st.composite
def damaged(draw, original: bytes) -> bytes:
    """Cut, remove, repeat, overwrite and insert at drawn places."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from([1, 1, 1, 2, 10, 70]))
        deed = draw(st.sampled_from(["insert", "overwrite", "remove", "repeat", "flip", "cut"]))
        if deed == "insert":
            data[at:at] = draw(st.sampled_from(TOKENS))
        elif deed == "overwrite":
            token = draw(st.sampled_from(TOKENS))
            data[at : at + len(token)] = token
        elif deed == "remove":
            del data[at : at + length]
        elif deed == "repeat":
            data[at:at] = data[at : at + length]
        elif deed == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif deed == "cut":
            del data[at:]
    return bytes(data)


@pytest.mark.parametrize("form", ORIGINALS)
def test_damaged_records_are_read_or_refused(form):
    @settings(deadline=None, max_examples=80)
    @given(damaged(ORIGINALS[form]))
    def law(data):
        check_reading(data)

    law()


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    check_reading(data)


HARD = {
    "digits": b"NORAD_CAT_ID,EPOCH,MEAN_MOTION\n" + b"9" * 1_000_000 + b"x,1,1\n",
    "digits in a message": ORIGINALS["kvn"].replace(b"51.6398", b"5" * 1_000_000 + b"x", 1),
    "blanks": b"EPOCH" + b" " * 1_000_000 + b"= 1\n",
    "blank lines": b"\n" * 1_000_000 + b"EPOCH = 1",
    "opened messages": b"<ndm>" + b"<omm>" * 200_000,
    "closed messages": b"<ndm>" + b"</omm >" * 200_000,
    "opened messages and one end": b"<ndm>" + b"<omm>" * 200_000 + b"</omm>",
    "a tag without end": b"<ndm><omm" + b" a" * 300_000,
    "a prefix without end": b"<ndm><" + b"a" * 1_000_000 + b"</omm",
    "nested objects": b'{"EPOCH":' * 100_000,
    "unfinished objects": b'[{"EPOCH"' * 30_000,
    "broken objects": b'{"EPOCH":1}{"' * 100_000,
    "unfinished text": b'[{"EPOCH":"' + b"{" * 1_000_000,
    "escapes": b'[{"EPOCH":"' + b'\\"{' * 300_000,
    "quotes": b"EPOCH,MEAN_MOTION\n" + b'"' * 500_000,
    "commas": b"EPOCH," * 100_000,
    "words": b"no data " * 100_000,
    "line 1 without end": b"1 25544U" + b" " * 1_000_000,
    "many line 1": b"1 25544U\n" * 30_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("case", HARD)
def test_no_text_takes_more_than_time_in_proportion(case):
    """A reader with a quadratic step would take hours for one of these."""
    check_reading(HARD[case])
