import html
import json
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from html.parser import HTMLParser

import pytest
from comparison_rows import pause_rows, row, study_rows

from orbittrace_data.cli import run
from orbittrace_data.trainers.advise import committed
from orbittrace_data.trainers.claims import STATEMENTS
from orbittrace_data.trainers.protocol import PROTOCOL, violations
from orbittrace_data.trainers.records import read_rows, write_rows
from orbittrace_data.trainers.report import answer, as_html, as_json, as_markdown, interval, write_report
from orbittrace_data.trainers.statistics import Estimate

REGIMES = {
    ("strong", "all", False): 0.0,
    ("strong-fresh-order", "all", False): 0.001,
    ("weak", "all", False): 0.13,
    ("aat", "all", False): 0.002,
    ("weak+clock+reconstruct", "all", False): 0.004,
    ("weak+reenter", "all", False): 0.1,
    ("strong", "nothing", False): 0.2,
    ("aat", "nothing", False): 0.2001,
    ("strong", "all", True): 0.0,
    ("aat", "all", True): 0.001,
}
FIGURES = 8  # curves, forest, phases, scatter; curves, phases, scatter of the small model; sizes
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def example_rows():
    rows = study_rows(REGIMES)
    size = {("m", 1): 0.4, ("m", 17): 0.0, ("v", 1): 0.9, ("v", 17): 0.8}
    small = "orbittrace_data.trainers.sizes:gpt2_narrow"
    paused = [
        *pause_rows(size),
        *study_rows({("strong", "all", False): 0.0}, task=small),
        *pause_rows(size, task=small),
    ]
    return rows + paused


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows, out = example_rows(), tmp_path_factory.mktemp("report")
    write_rows(out / "rows.parquet", rows)
    write_report(rows, out)
    return out


class Elements(HTMLParser):
    """Collects what a page holds, and fails on tags that do not match."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.links, self.ids = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [
            value for name, value in attrs if name in ("src", "href", "xlink:href", "data", "action")
        ]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_self_contained_and_well_formed(folder):
    text = (folder / "report.html").read_text()
    page = Elements(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert all(link.startswith("#") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"url\((?!#)", text)
    assert "@import" not in text
    assert page.tags.count("figure") == page.tags.count("svg") == FIGURES
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(page.ids)


def test_every_claim_and_figure_is_in_it(folder):
    text = (folder / "report.html").read_text()
    for statement in STATEMENTS.values():
        assert statement.replace("'", "&#x27;") in text
    for caption in ("gaps shaded", "by regime", "reconstruction recovers", "duty cycle", "by model size"):
        assert caption in text


class Proxy(socketserver.ThreadingTCPServer):
    """Stands for the whole network: notes what is asked for, and answers nothing."""

    daemon_threads = True

    def __init__(self):
        self.asked = []
        super().__init__(("127.0.0.1", 0), None)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        self.asked.append(request.recv(4096).split(b"\r\n")[0].decode(errors="replace"))

    def of_the_page(self):
        return [
            line for line in self.asked if not re.search(r"google|gstatic|gvt1|chrome", line)
        ]  # the browser's own


def opened(path, profile):
    """Open a page in Chromium; return its console and DOM, and what it asked the network for."""
    with Proxy() as proxy:
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", "--enable-logging=stderr",
            f"--proxy-server=127.0.0.1:{proxy.server_address[1]}", "--timeout=3000", "--dump-dom", path.as_uri(),
        ]  # fmt: skip
        page = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        proxy.shutdown()
        return page, proxy.of_the_page()


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_chromium_opens_it_without_errors_or_requests(folder, tmp_path):
    page, asked = opened(folder / "report.html", tmp_path / "profile")
    assert "CONSOLE" not in page.stderr
    assert page.stdout.count("<svg") == FIGURES
    assert asked == []
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<!doctype html><img src="http://example.invalid/x.png"><script>console.log(1); nope()</script>'
    )
    page, asked = opened(bad, tmp_path / "profile")
    assert "CONSOLE" in page.stderr
    assert asked == ["GET http://example.invalid/x.png HTTP/1.1"]


LOOK = """<script>
const boxes = [...document.querySelectorAll("figure")].map(figure => {
    const svg = figure.querySelector("svg"), box = svg.getBoundingClientRect();
    const inside = r => r.left >= box.left - 1 && r.right <= box.right + 1 && r.top >= box.top - 1 && r.bottom <= box.bottom + 1;
    const texts = [...svg.querySelectorAll("text")];
    return {
        width: box.width, height: box.height, wide: box.right > innerWidth,
        cut: texts.filter(t => !inside(t.getBoundingClientRect())).map(t => t.textContent),
        texts: texts.map(t => t.textContent),
        drawn: [...svg.querySelectorAll("path, use")].filter(p => p.getBoundingClientRect().width > 0).length,
        caption: figure.querySelector("figcaption").textContent,
    };
});
document.body.innerHTML = "<pre></pre>";
document.querySelector("pre").textContent = JSON.stringify(boxes);
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_chromium_draws_every_figure_with_all_its_text(folder, tmp_path):
    # A copy measures itself: what has a size on the page, and which labels are cut off at a figure's edge.
    page = tmp_path / "measured.html"
    page.write_text((folder / "report.html").read_text().replace("</body>", LOOK + "</body>"))
    shown, _ = opened(page, tmp_path / "profile")
    assert "CONSOLE" not in shown.stderr
    figures = json.loads(html.unescape(re.search(r"<pre>(.*?)</pre>", shown.stdout, re.DOTALL)[1]))
    assert len(figures) == FIGURES
    for figure in figures:
        assert figure["width"] > 600
        assert figure["height"] > 100
        assert not figure["wide"]
        assert figure["drawn"] > 10, figure["caption"]
        assert figure["cut"] == [], figure["caption"]
    curves, forest, phases, scatter = figures[:4]
    assert {"strong", "weak", "over active time", "over wall-clock time, gaps shaded"} <= set(curves["texts"])
    assert {"stationary", "state loss: nothing persists", "drift"} <= set(forest["texts"])
    assert {"length of a pause [steps]", "steps between pauses"} <= set(phases["texts"])
    assert {"duty cycle", "median gap that was met [min]"} <= set(scatter["texts"])


def test_what_is_broken_stands_on_top():
    rows = example_rows()
    text = as_html(rows, [], ["seeds <differ>"])
    assert text.index("break the protocol") < text.index("<h2>")
    assert "seeds &lt;differ&gt;" in text
    assert as_markdown(rows, [], ["seeds differ"]).splitlines()[2].startswith("**These results break")


def test_texts_of_others_are_escaped(tmp_path):
    hostile = row(method="<script>alert(1)</script>", task="x", error="<img src=x>", fingerprint=None)
    rows = [*example_rows(), hostile, hostile | {"method": "a|b", "config": "0"}]
    write_report(rows, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "<script" not in text
    assert "<img" not in text


def test_verdicts_do_not_depend_on_the_order_of_rows():
    rows = example_rows()
    from orbittrace_data.trainers.claims import verdicts

    assert as_json(rows, verdicts(rows), []) == as_json(rows[::-1], verdicts(rows[::-1]), [])


def test_one_comparison_is_no_comparisons():
    from orbittrace_data.trainers.claims import verdicts

    one = answer(verdicts(study_rows({("strong", "all", False): 0.0, ("aat", "all", False): 0.001})))
    assert one.startswith("In 1 comparison with a tuned strong baseline (1 task), ")
    assert answer([]) == "No method was compared with strong: there is no answer in these results."
    assert answer(verdicts(example_rows())).startswith(
        "In 4 comparisons with a tuned strong baseline (1 task), "
    )


def test_numbers():
    assert interval(Estimate(-0.5, -1.25, 0.25, 5)) == "−0.5000 [−1.2500, +0.2500]"


def test_the_command_merges_folders_and_refuses_what_breaks_the_protocol(folder, tmp_path, capsys):
    assert run(["compare", "--report", str(folder), str(folder), "--out", str(tmp_path / "a")]) == 0
    assert "methods gained nothing beyond the noise of the data order in" in capsys.readouterr().out
    assert (tmp_path / "a" / "verdicts.json").read_bytes() == (folder / "verdicts.json").read_bytes()

    other = tmp_path / "other"
    other.mkdir()
    rows = [r for r in example_rows() if (r["method"], r["seed"]) != ("aat", 4)]
    write_rows(other / "rows.parquet", rows)
    assert run(["compare", "--report", str(other), "--out", str(tmp_path / "b")]) == 2
    assert "these results break the protocol: gpt2-tiny (160 steps): seeds differ" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    assert run(["compare", "--report", str(other), "--out", str(tmp_path / "b"), "--unprotected"]) == 0
    assert "These results break the protocol" in (tmp_path / "b" / "report.html").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--study", "quick", "--report"],
        ["--report"],
        ["--study", "nope"],
        ["--study", "quick", "--engine", "slurm"],
        ["--study", "quick", "--scale", "gpu"],
        ["--study", "quick", "--method", "nope"],
        ["folder", "--study", "quick"],
    ],
)
def test_bad_usage_is_one_sentence(arguments, capsys):
    assert run(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("orbittrace: ")
    assert "Traceback" not in error


def test_reports_and_advice_need_no_torch():
    code = "import sys, orbittrace_data.trainers.report, orbittrace_data.trainers.advise; print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


@pytest.mark.parametrize("path", committed(), ids=lambda path: path.name)
def test_committed_verdicts_follow_from_the_committed_rows(path, tmp_path):
    rows = read_rows([path])
    assert violations(rows) == []
    write_report(rows, tmp_path)
    for name in ("verdicts.json", "summary.md"):
        assert (tmp_path / name).read_text() == (path / name).read_text(), (
            f"compare --report {path} --out {path}"
        )
    kept = json.loads((path / "verdicts.json").read_text())
    assert kept["protocol_broken"] == []
    report = (path / "report.html").read_text()
    assert f"{kept['rows_sha256']}" in report
    assert html.escape(PROTOCOL.read_text()) in report, "made before the protocol was changed"
