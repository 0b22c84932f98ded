"""The four forms in which OMM records are published: CSV, JSON, XML and KVN.

Each reader turns its text into one mapping of CCSDS keywords to text a record, for `parse_omm`; keywords that
an SGP4 propagation does not need are passed over. A record that cannot be used is a problem with its line,
and its neighbours load. Every reader takes time in proportion to its text, whatever the text is.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from xml.parsers import expat

from .element_set import BadField, ElementSet, Problem, quote
from .omm import KEYWORDS, REQUIRED, UNITS, parse_omm

Records = tuple[list[tuple[int, ElementSet]], list[Problem]]
_Message = tuple[int, dict[str, str], dict[str, int], BadField | None]


def read_csv(lines: Sequence[str]) -> Records:
    """Read messages of one line each under a header of keywords, quoted or not."""
    records: list[tuple[int, ElementSet]] = []
    problems: list[Problem] = []
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells: list[str] = []
        try:
            cells = [cell.strip(" \t") for cell in _cells(line)]
            if header is None:
                header = cells
                _check_header(header)
                continue
            if len(cells) != len(header):
                raise BadField(
                    "row",
                    f"it has {len(cells)} cells under {len(header)} columns: it was cut or lost some",
                )
            records.append((number, parse_omm(dict(zip(header, cells, strict=True)))))
        except BadField as bad:
            if number == len(lines):  # no line end follows: what was cut may be the last cell
                cells = cells[:-1]
            elif bad.field == "row":  # it lost a cell, and would show another one's as its number
                cells = []
            problems.append(_problem(number, bad, dict(zip(header or (), cells, strict=False))))
            if bad.field == "header":
                break
    return records, problems


def _problem(line: int, bad: BadField, fields: Mapping[str, str]) -> Problem:
    """Say which record it is, where it says so itself."""
    number = fields.get("NORAD_CAT_ID", "")
    return Problem(line, bad.field, bad.reason, number if re.fullmatch(r"\+?[0-9]{1,10}", number) else "")


def _cells(line: str) -> list[str]:
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error as error:
        raise BadField("row", f"its quotes do not match ({error})") from None


def _check_header(header: list[str]) -> None:
    missing = [keyword for keyword in REQUIRED if keyword not in header]
    if missing:
        raise BadField("header", f"the column{'s' * (len(missing) > 1)} {', '.join(missing)} must be there")
    for keyword in KEYWORDS:
        if header.count(keyword) > 1:
            raise BadField("header", f"the column {keyword} stands there more than once")


def read_json(text: str) -> Records:
    """Read one object, or an array of objects, of keywords and values."""
    records: list[tuple[int, ElementSet]] = []
    problems: list[Problem] = []
    for line, value in _json_objects(text):
        fields: dict[str, str] = {}
        try:
            _read_json_object(value, fields)
            records.append((line, parse_omm(fields)))
        except BadField as bad:
            problems.append(_problem(line, bad, fields))
    return records, problems


def _json_objects(text: str) -> Iterator[tuple[int, object]]:
    """Give each object and its line; a BadField stands for a stretch that is no JSON.

    The array is walked by hand, so that a file that was cut or damaged gives up only the records it lost.
    """
    decoder = json.JSONDecoder(object_pairs_hook=list, parse_float=str, parse_int=str, parse_constant=str)
    line, counted = 1, 0
    position = _next_token(text, 0)
    in_array = text.startswith("[", position)
    if in_array:
        position = _next_token(text, position + 1)
    while position < len(text) and not (in_array and text[position] == "]"):
        line, counted = line + text.count("\n", counted, position), position
        record = text[position : position + _MAX_JSON_RECORD]
        try:
            value, length = decoder.raw_decode(record)
            yield line, value
            position += length
        except RecursionError:
            yield line, BadField("record", "it is nested too deep to be a record")
            return
        except json.JSONDecodeError as error:
            yield line, BadField("record", f"it is no JSON ({error.msg}) or was cut")
            following = _JSON_OBJECT.search(text, position + max(error.pos, 1))
            if following is None:
                return
            position = following.start()
            continue
        position = _next_token(text, position)
        if not in_array:
            break
        if text.startswith(",", position):
            position = _next_token(text, position + 1)
            if text.startswith("]", position):
                yield line, BadField("array", "a comma and no record follow this one: a record is lost")
        elif position < len(text) and text[position] != "]":
            yield line, BadField("array", "no comma follows this record")
            return
    if in_array and position >= len(text):
        yield line, BadField("array", "it is not closed with ]: the file was cut")
    elif _next_token(text, position + in_array) < len(text):
        yield line, BadField("end", "more text follows the JSON value")


# Published records have some 2,000 characters. (An error counts the lines of all that it was given.)
_MAX_JSON_RECORD = 16_384
_JSON_BLANKS = re.compile(r"[ \t\r\n]*")
_JSON_OBJECT = re.compile(r"\{\s*\"")


def _next_token(text: str, position: int) -> int:
    """Pass over blanks."""
    blanks = _JSON_BLANKS.match(text, position)
    return blanks.end() if blanks else position


def _read_json_object(value: object, fields: dict[str, str]) -> None:
    """Take the keywords of one object; its values are text, numbers (as they stand) or null."""
    if isinstance(value, BadField):
        raise value
    if not isinstance(value, list) or not all(isinstance(pair, tuple) for pair in value):
        raise BadField("record", "it is no JSON object of CCSDS keywords")
    for keyword, content in value:
        if keyword not in KEYWORDS:
            continue
        if keyword in fields:
            raise BadField(keyword, "it stands there twice")
        if content is not None and not isinstance(content, str):
            raise BadField(keyword, "it is neither text nor a number")
        fields[keyword] = (content or "").strip(" ")


def read_kvn(lines: Sequence[str]) -> Records:
    """Read messages of ``KEYWORD = value [unit]`` lines, each begun by CCSDS_OMM_VERS."""
    records: list[tuple[int, ElementSet]] = []
    problems: list[Problem] = []
    message: dict[str, str] = {}
    at: dict[str, int] = {}
    damage: Problem | None = None
    begun = 0

    def finish() -> None:
        if damage is not None:
            problems.append(damage)
        elif begun:
            try:
                records.append((begun, parse_omm(message)))
            except BadField as bad:
                # The last line is empty, or no line end follows it and it may be cut.
                whole = {keyword: value for keyword, value in message.items() if at[keyword] < len(lines)}
                problems.append(_problem(at.get(bad.field, begun), bad, whole))

    for number, line in enumerate(lines, 1):
        line = line.strip(" \t")
        if not line or line == "COMMENT" or line.startswith(("COMMENT ", "COMMENT\t")):
            continue
        keyword, equals, value = (part.strip(" \t") for part in line.partition("="))
        if keyword == "CCSDS_OMM_VERS" and equals:
            finish()
            message, at, damage, begun = {}, {}, None, number
            continue
        begun = begun or number
        try:
            if not equals or not re.fullmatch("[A-Z][A-Z0-9_]*", keyword):
                raise BadField("line", f"{quote(line)} is not of the form KEYWORD = value")
            if keyword not in KEYWORDS:
                continue
            if keyword in message:
                raise BadField(
                    keyword, "it stands in this message twice (a message begins with CCSDS_OMM_VERS)"
                )
            message[keyword], at[keyword] = _without_unit(keyword, value), number
        except BadField as bad:
            damage = damage or _problem(number, bad, message)
    finish()
    return records, problems


def _without_unit(keyword: str, value: str) -> str:
    """Take the unit off a number, and refuse a wrong one."""
    if keyword in UNITS and value.endswith("]") and "[" in value:
        value, _, unit = value[:-1].partition("[")
        _check_unit(keyword, unit)
        value = value.rstrip(" \t")
    return value


def _check_unit(keyword: str, unit: str) -> None:
    if unit.strip().lower() != UNITS.get(keyword, unit.strip()).lower():
        raise BadField(keyword, f"its unit is {quote(unit)} and must be {UNITS[keyword]}")


def read_xml(text: str) -> Records:
    """Read the ``omm`` elements of an XML document; a document type is refused, so no entity is expanded."""
    content = text.encode("utf-8", "surrogateescape")
    messages, error = _xml_messages(content, 0)
    problems: list[Problem] = []
    if error is not None:
        if error.field == "document type":
            return [], [error]
        messages, lost = _xml_one_by_one(content)
        problems += lost or [error]
    records: list[tuple[int, ElementSet]] = []
    for line, fields, at, damage in messages:
        try:
            if damage is not None:
                raise damage
            records.append((line, parse_omm(fields)))
        except BadField as bad:
            problems.append(_problem(at.get(bad.field, line), bad, fields))
    return records, sorted(problems, key=lambda problem: problem.line)


_XML_BEGIN = re.compile(rb"<(?:\w{1,40}:)?omm\b")
_XML_END = re.compile(rb"</(?:\w{1,40}:)?omm\s*>")


def _xml_one_by_one(content: bytes) -> tuple[list[_Message], list[Problem]]:
    """Read each message of a damaged document by itself, so that only the damaged ones are lost."""
    messages: list[_Message] = []
    lost: list[Problem] = []
    position, lines = 0, 0
    for close in _XML_END.finditer(content):
        begin = _XML_BEGIN.search(content, position, close.start())
        if begin is not None:
            lines_before = lines + content.count(b"\n", position, begin.start())
            whole, bad = _xml_messages(content[begin.start() : close.end()], lines_before)
            messages += whole
            lost += [bad] if bad else []
        lines += content.count(b"\n", position, close.end())
        position = close.end()
    return messages, lost


def _xml_messages(content: bytes, lines_before: int) -> tuple[list[_Message], Problem | None]:
    """Give the messages of well-formed XML, or the first thing that is not."""
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    messages: list[_Message] = []
    fields: dict[str, str] = {}
    at: dict[str, int] = {}
    damage: BadField | None = None
    begun = 0
    keyword, parts = "", []

    def line() -> int:
        return parser.CurrentLineNumber + lines_before

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal fields, at, damage, begun, keyword, parts
        tag = tag.rpartition(":")[2]
        if tag == "omm":
            fields, at, damage, begun = {}, {}, None, line()
        keyword, parts = (tag, []) if begun and tag in KEYWORDS else ("", [])
        if keyword:
            try:
                if keyword in fields:
                    raise BadField(keyword, "it stands in this message twice")
                if "units" in attributes:
                    _check_unit(keyword, attributes["units"])
            except BadField as bad:
                damage = damage or bad
            fields[keyword], at[keyword] = "", line()

    def end(tag: str) -> None:
        nonlocal keyword, begun
        tag = tag.rpartition(":")[2]
        if keyword and tag == keyword:
            fields[keyword] = "".join(parts).strip(" \t\r\n")
        keyword = ""
        if tag == "omm" and begun:
            messages.append((begun, fields, at, damage))
            begun = 0

    def no_document_type(*_: object) -> None:
        raise BadField(
            "document type",
            "a <!DOCTYPE> stands there; it could define entities, and no OMM has one: remove it",
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda data: parts.append(data)
    parser.StartDoctypeDeclHandler = no_document_type
    try:
        parser.Parse(content, True)
    except BadField as bad:
        return messages, Problem(line(), bad.field, bad.reason)
    except expat.ExpatError as error:
        reason = f"it is not well-formed ({expat.ErrorString(error.code)}): it was damaged or cut"
        return messages, Problem(error.lineno + lines_before, "XML", reason)
    return messages, None
