"""Coverage-guided fuzzing of the element-set readers with atheris; not a part of the suite.

    python -m pip install atheris
    PYTHONPATH=. python tests/fuzz_gp.py -max_total_time=3600 -timeout=10 -max_len=4096 CORPUS_FOLDER

The corpus folder is seeded with one file of every format where it is empty. A finding is written as
``crash-...`` into the current folder; it becomes a test.

Last long run: 2026-11-30, 67 minutes of one busy core, 1.9 million inputs, atheris 3.0.0 on Python 3.11. Nothing
but GpError left the readers, no input hung and no NaN came through. Two findings were of the writer, and
are tests of ``tests/test_tle_writer.py``: a derivative of 1e30 raised decimal's own error, and an eccentricity
of -0 took a column too many.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["orbittrace_data.builders", "json", "csv"]):
    from gp_laws import check_reading

from gp_samples import ANALYST, ISS, NOMINAL, TEXTS, TLE

WORDS = (
    *("{", "}", "[", "]", ",", ":", "=", "<omm>", "</omm>", "<ndm>", "<!DOCTYPE", "]]>", "<![CDATA["),
    *("EPOCH", "MEAN_MOTION", "ECCENTRICITY", "NORAD_CAT_ID", "BSTAR", "CCSDS_OMM_VERS", "COMMENT", "[deg]"),
    *("NaN", "1e999", "1 25544U", "2 25544", "A0000", "0 ", "-", "2024-266T", "T23:59:60"),
    *(r"\"", r"\x0d\x0a", r"\xc2\xa0", r"\x00"),
)


def main() -> None:
    folders = [Path(a) for a in sys.argv[1:] if not a.startswith("-")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            (folder / "tle").write_text(TLE * 2)
            for form, text in TEXTS.items():
                (folder / form).write_text(text(ISS))
                (folder / f"{form}_two").write_text(text(NOMINAL, ANALYST))
    words = Path(folders[0].parent if folders else ".", "gp.dict")
    words.write_text("".join(f'"{word}"\n' for word in WORDS))
    atheris.Setup([*sys.argv, f"-dict={words}"], check_reading)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
