"""Sections on disk come back as they were written, replace each other by name, and cannot speak for the report."""

from __future__ import annotations

import base64
import json
import stat

import pytest
from pydantic import ValidationError

from tacit.errors import RunError
from tacit.runs.report import (
    Bars,
    Code,
    Image,
    Level,
    Lines,
    Paragraph,
    Section,
    Series,
    Table,
    read_sections,
    report_html,
    write_section,
)
from tests.support.made_runs import MakeRun

BLOCKS = [
    Paragraph(text="one"),
    Paragraph(text="two", note=True),
    Table(columns=["word", "rank"], rows=[["pens", "1,200"], ["ink", "3"]], caption="Ranks"),
    Code(text="a = 1\n  b <= 2", caption="code", folded=True),
    Lines(
        x="round",
        y="share",
        series=[Series(name="a", points=[(0, 0.1), (5, 0.9)]), Series(name="b", points=[(0, 0.2)])],
        levels=[Level(name="chance", y=0.5)],
        percent=True,
    ),
    Bars(x="rank", y="canaries", bars=[("1", 4), ("2", 0)]),
    Image(media="image/png", data=base64.b64encode(b"\x89PNG").decode(), description="a glyph", caption="drawn"),
]


def section(name: str = "audit", order: int = 60, *, private: bool = False, blocks=BLOCKS) -> Section:
    return Section(name=name, title=name.title(), order=order, private=private, blocks=blocks)


def test_what_was_written_is_read(make_run: MakeRun):
    run = make_run()
    late, early, hidden = section("late", 70), section("early", 5), section("hidden", 60, private=True)
    for each in (late, early, hidden):
        write_section(run, each)
    assert read_sections(run, share=False) == [early, hidden, late]
    assert read_sections(run, share=True) == [early, late]


def test_a_private_section_lies_where_only_the_owner_reads(make_run: MakeRun):
    run = make_run()
    path = write_section(run, section(private=True))
    assert path.parent.parent == run.private_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text(path.read_text().replace('"private": true', '"private": false'))
    assert [each.private for each in read_sections(run, share=False)] == [True]


def test_a_link_to_the_owners_section_is_not_shared(make_run: MakeRun):
    run = make_run()
    hidden = write_section(run, section("hidden", private=True))
    hidden.write_text(hidden.read_text().replace('"private": true', '"private": false'))
    run.sections_path.mkdir(exist_ok=True)
    (run.sections_path / "60-hidden.json").symlink_to(hidden)
    assert read_sections(run, share=True) == []
    (run.sections_path / "60-hidden.json").unlink()
    run.sections_path.rmdir()
    run.sections_path.symlink_to(hidden.parent)
    assert read_sections(run, share=True) == []


def test_the_newer_one_replaces_the_older_wherever_it_lay(make_run: MakeRun):
    run = make_run()
    write_section(run, section(order=60, private=True))
    write_section(run, section(order=65))
    assert [(each.order, each.private) for each in read_sections(run, share=False)] == [(65, False)]


def test_every_block_is_shown(make_run: MakeRun):
    run = make_run()
    write_section(run, section())
    page = report_html(run, share=True)
    body = page[page.index('id="audit"') : page.index('id="recipe"')]
    assert '<p class="note">two</p>' in body
    assert '<td class="number">1,200</td>' in body
    assert "<td>pens</td>" in body
    assert "a = 1\n  b &lt;= 2" in body
    assert 'src="data:image/png;base64,' in body
    assert "share over round; at the end: a 90%, b 20%" in body
    assert body.count("<figure>") == 3
    assert body.count('<div class="figures">') == 1


def test_nobody_writes_the_guarantee_in_the_reports_name(make_run: MakeRun):
    run = make_run()
    with pytest.raises(RunError, match="'guarantee', which every report has"):
        write_section(run, section("guarantee"))
    content = {"tacit section": 1, **section().model_dump(mode="json"), "name": "guarantee"}
    (run.sections_path / "30-guarantee.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match="'guarantee', which every report has"):
        read_sections(run, share=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "cannot be read as JSON"),
        ("[]", "of format 1, got something else"),
        ('{"tacit section": 2}', "of format 1, got something else"),
        ('{"tacit section": 1, "name": "x"}', "title: field required"),
        ('{"tacit section": 1, "name": "x", "title": "x", "order": 1, "blocks": [{"kind": "html"}]}', "blocks.0"),
    ],
)
def test_a_file_that_is_no_section(make_run: MakeRun, text, words):
    run = make_run()
    (run.sections_path / "60-bad.json").write_text(text)
    with pytest.raises(RunError, match=words) as raised:
        report_html(run, share=True)
    assert "60-bad.json" in raised.value.sentence


@pytest.mark.parametrize(
    "make",
    [
        lambda: Table(columns=["a"], rows=[["1", "2"]]),
        lambda: Image(media="image/png", data='" onload="x', description=""),
        lambda: Series(name="a", points=[(0, float("nan"))]),
        lambda: Series(name="a", points=[]),
        lambda: Bars(x="", y="", bars=[("a", -1)]),
        lambda: section("../x"),
    ],
)
def test_blocks_that_cannot_be_shown_are_refused(make):
    with pytest.raises(ValidationError):
        make()
