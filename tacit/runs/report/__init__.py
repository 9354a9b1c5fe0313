"""The report of a run: one HTML file, assembled from the run's own sections and from those that other parts of Tacit wrote."""

from tacit.runs.report.assemble import default_path, report_html, write_report
from tacit.runs.report.blocks import Bars, Code, Image, Level, Lines, Paragraph, Section, Series, Table
from tacit.runs.report.sections import read_sections, write_section

__all__ = [
    "Bars",
    "Code",
    "Image",
    "Level",
    "Lines",
    "Paragraph",
    "Section",
    "Series",
    "Table",
    "default_path",
    "read_sections",
    "report_html",
    "write_report",
    "write_section",
]
