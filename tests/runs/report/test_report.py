"""The report: whole for its owner, silent about private/ for everybody else, harmless whatever the run folder holds."""

from __future__ import annotations

import json
import re
import shutil
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tacit.errors import LedgerError, RunError
from tacit.privacy.record.ledger import LedgerWriter
from tacit.runs.folder import RunFolder
from tacit.runs.report import Paragraph, Section, report_html, write_report, write_section
from tests.support.made_runs import SUMMARY, MakeRun

TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "main",
    "footer",
    "nav",
    "section",
    "div",
    "span",
    "p",
}
TAGS |= {"h1", "h2", "h3", "a", "b", "ul", "li", "code", "pre", "details", "summary", "figure", "figcaption", "img"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "svg", "line", "text", "polyline", "circle", "rect"}


class Outline(HTMLParser):
    """Which elements a page has, and what is written in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]
        self.ids += [value or "" for name, value in attrs if name == "id"]


def title_of(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_the_owners_copy_has_everything(make_run: MakeRun):
    page = report_html(make_run(), share=False)
    assert title_of(page) == [
        "What it learned",
        "How the cost grew",
        "The guarantee",
        "What it says",
        "Updates and clipping",
        "Who took part",
        "The recipe",
    ]
    assert "Owner&#x27;s copy" in page
    assert "5 users took part at least once" in page  # number 7 in each of four rounds, and four others once
    assert "users by times a user took part: 1: 4, 2: 0, 3: 0, 4: 1" in page
    assert "nobody took part more than 4 times" in page
    assert "24.6%" in page
    assert "It ran to its end." in page
    assert "soon (31%)" in page


@pytest.mark.parametrize("share", [True, False])
def test_accuracy_is_the_keyboards_and_the_papers_metric_stands_beside_it(make_run: MakeRun, share: bool):
    page = report_html(make_run(), share=share)
    assert re.search(r"24\.6%.{0,60}of held-out words guessed right<", page, re.DOTALL)
    assert (
        "By the papers&#x27; metric, 22.2% of these words are the first guess and 33.6% among the first three." in page
    )
    assert "5.5% of the held-out people&#x27;s words are outside the vocabulary and can never be guessed" in page
    assert "accuracy cannot exceed 94.5%" in page
    assert ">first guess, by the papers&#x27; metric" in page


def test_a_shared_copy_does_not_depend_on_anything_private(make_run: MakeRun):
    run = make_run()
    secret = Section(name="secret", title="Secret", order=60, private=True, blocks=[Paragraph(text="whisper")])
    write_section(run, secret)
    write_section(run, Section(name="open", title="Open", order=61, blocks=[Paragraph(text="said aloud")]))
    # One that lies in the open, but says it is private.
    content = {"tacit section": 1, **secret.model_dump(mode="json"), "name": "stray"}
    (run.sections_path / "62-stray.json").write_text(json.dumps(content))
    owner, shared = report_html(run, share=False), report_html(run, share=True)
    assert owner.count("whisper") == 2
    assert "whisper" not in shared
    assert "said aloud" in shared
    assert "Shared copy" in shared
    for word in (
        "Updates and clipping",
        "Who took part",
        "norm of an update",
        "class=private",
        "nobody took part more",
    ):
        assert word in owner
        assert word not in shared
    shutil.rmtree(run.private_path)
    assert report_html(run, share=True) == shared


def test_modes_and_places(make_run: MakeRun):
    run = make_run()
    owner, shared = write_report(run), write_report(run, share=True)
    assert owner == run.private_path / "report.html"
    assert shared == run.path / "report.html"
    assert stat.S_IMODE(owner.stat().st_mode) == 0o600
    assert stat.S_IMODE(shared.stat().st_mode) & 0o044 == 0o044
    # An owner's copy in place of one that others could read.
    assert stat.S_IMODE(write_report(run, shared).stat().st_mode) == 0o600


def test_the_page_needs_nothing_but_itself(make_run: MakeRun):
    page = report_html(make_run(), share=False)
    outline = Outline(page)
    assert outline.tags <= TAGS
    assert all(target.startswith(("#", "data:")) for target in outline.targets)
    assert len(outline.ids) == len(set(outline.ids)) == 7
    assert not re.search(r"https?://|url\(|@import", page)
    assert "default-src 'none'" in page


def test_nothing_from_a_file_becomes_markup(make_run: MakeRun):
    hostile = "<script>x</script><img src=x onerror=y>\"'"
    run = make_run(recipe=f'name = {json.dumps(hostile)}\n# </code></pre>{hostile}\n[model]\nunits = "{"<iframe>"}"\n')
    run.summary_path.write_text(json.dumps(SUMMARY | {"examples": {hostile: [[hostile, 0.5]]}}))
    blocks = [Paragraph(text=hostile), Paragraph(text=hostile, note=True)]
    write_section(run, Section(name="mine", title=hostile, order=60, blocks=blocks))
    outline = Outline(report_html(run, share=False))
    assert outline.tags <= TAGS - {"img"}
    assert "onerror" not in outline.attributes
    assert outline.targets == [target for target in outline.targets if target.startswith("#")]


def test_a_run_without_privacy_says_so(make_run: MakeRun):
    page = report_html(make_run(private=False), share=False)
    assert "ε = ∞" in page
    assert "No privacy is claimed: epsilon is infinite, because no noise is added." in page
    assert "How the cost grew" not in page


@pytest.mark.parametrize(
    ("outcome", "words"), [("diverged", "It diverged"), ("stopped", "It was stopped"), (None, "It was cut off")]
)
def test_a_run_that_did_not_finish(make_run: MakeRun, outcome, words):
    page = report_html(make_run(outcome=outcome), share=False)
    assert words in page
    assert "at last count" in page
    assert "The guarantee" in page


def test_a_run_that_is_training_now(make_run: MakeRun):
    run = make_run(outcome=None)
    with LedgerWriter.open(run.ledger_path):
        assert "It is still training" in report_html(run, share=False)


def test_a_run_that_was_cut_off_inside_a_record(make_run: MakeRun):
    run = make_run(outcome=None)
    with run.participation_path.open("ab") as file:
        file.write(b"TPR1 and then the power went")
    page = report_html(run, share=False)
    assert "does not fit the ledger as it stands" in page
    assert "5 users took part" not in page
    assert "nobody took part more than" not in page


def test_a_closed_run_whose_record_does_not_fit_is_damaged(make_run: MakeRun):
    run = make_run()
    run.participation_path.write_bytes(run.participation_path.read_bytes()[:-40])
    with pytest.raises(LedgerError, match="damaged at record 4"):
        report_html(run, share=False)


@pytest.mark.parametrize("share", [True, False])
def test_a_recipe_that_was_changed_afterwards_gets_no_page(make_run: MakeRun, share: bool):
    run = make_run()
    run.recipe_path.write_text(run.recipe_path.read_text() + "# with more noise\n")
    with pytest.raises(RunError, match="is not the one that the ledger names"):
        report_html(run, share=share)


def test_without_its_private_folder_a_run_has_the_shared_copy(make_run: MakeRun):
    run = make_run()
    shutil.rmtree(run.private_path)
    with pytest.raises(RunError, match="lies in a folder that does not exist") as refused:
        write_report(run)
    assert refused.value.hint is not None
    assert "--share" in refused.value.hint
    assert write_report(run, share=True).exists()


def test_the_ledger_of_another_run_says_nothing_about_this_one(make_run: MakeRun):
    run, other = make_run("run"), make_run("other")
    shutil.copy(other.ledger_path, run.ledger_path)
    with pytest.raises(LedgerError, match="that of another run"):
        report_html(run, share=True)


def test_a_run_that_has_not_begun(tmp_path: Path):
    page = report_html(RunFolder.create(tmp_path / "new", "name = 'new'\n"), share=False)
    assert "nothing was released" in page
    assert title_of(page) == ["The recipe"]


def test_a_run_without_a_single_evaluation(make_run: MakeRun):
    run = make_run(outcome=None, rounds=1)
    run.metrics_path.unlink()
    run.diagnostics_path.unlink()
    assert title_of(report_html(run, share=False)) == ["The guarantee", "Who took part", "The recipe"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("ledger.jsonl", "ends in .html"),
        ("", "ends in .html"),
        ("no/such/report.html", "does not exist"),
        ("a.html", "a folder"),
    ],
)
def test_places_that_are_none(make_run: MakeRun, place, words):
    run = make_run()
    (run.path / "a.html").mkdir()
    before = run.ledger_path.read_bytes()
    with pytest.raises(RunError, match=words):
        write_report(run, run.path / place)
    assert run.ledger_path.read_bytes() == before


def test_a_long_run_stays_a_small_page(make_run: MakeRun):
    run = make_run(rounds=320, private=False)
    page = report_html(run, share=False)
    assert max(len(points.split()) for points in re.findall(r'points="([^"]*)"', page)) <= 301
    assert page.count("<tr>") <= 302
    assert "320 of 320" in page
    assert "17–32" in page  # the histogram's steps grow
