"""The statement as a PDF: all of its text is there, once, on pages of one size; the same statement gives the same bytes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest

from tacit.errors import RunError
from tacit.privacy.statement.wording import Line, Part
from tacit.runs.report.guarantee_pdf import _TEXT, _broken, _pages, _rows, _ruler, write_guarantee_pdf
from tests.support.planned_ledgers import POISSON, guarantee_of, ledger_of


def test_every_line_of_the_statement_is_on_a_page(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON))
    said = "".join(row.text for page in _pages(list(_rows(found))) for _, row in page).replace(" ", "")
    for part in found.parts:
        assert part.title.replace(" ", "") in said
        for line in part.lines:
            assert line.text.replace(" ", "") in said
    assert found.paragraph.replace(" ", "") in said


def test_rows_fit_the_page_and_a_digest_is_cut(tmp_path):
    measure = _ruler(_TEXT)
    rows = list(_broken("a" * 400 + " and some more words " * 20, _TEXT))
    assert all(measure(row.text) <= 595 - 2 * 64 for row in rows)
    assert "".join(row.text for row in rows).startswith("a" * 400)


def test_no_heading_ends_a_page(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON))
    for length in range(1, 60, 7):
        longer = replace(found, parts=(Part("A", (Line("b"),) * length), *found.parts))
        for page in _pages(list(_rows(longer))):
            assert page[-1][1].keep == 0


def test_the_file_is_the_same_each_time_and_can_be_read(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON))
    odd = replace(found, parts=(*found.parts, Part("$x$ <b>", (Line("costs $5 and $6", None, "rm -rf $HOME"),))))
    write_guarantee_pdf(odd, tmp_path / "one.pdf")
    write_guarantee_pdf(odd, tmp_path / "two.pdf")
    content = (tmp_path / "one.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert content == (tmp_path / "two.pdf").read_bytes()
    if shutil.which("pdftotext"):
        text = subprocess.run(
            ["pdftotext", tmp_path / "one.pdf", "-"], capture_output=True, text=True, check=True
        ).stdout
        assert "costs $5 and $6" in text
        assert found.headline.split(",")[0] in text


def test_what_cannot_be_written_is_one_sentence(tmp_path):
    found = guarantee_of(ledger_of(tmp_path, POISSON))
    with pytest.raises(RunError, match=r"Expected a file that ends in \.pdf, got .*statement\.txt\."):
        write_guarantee_pdf(found, tmp_path / "statement.txt")
    with pytest.raises(RunError, match=r"Cannot write .*away/statement\.pdf \(No such file or directory\)\."):
        write_guarantee_pdf(found, tmp_path / "away" / "statement.pdf")
