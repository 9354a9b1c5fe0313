"""What is wrong, in one sentence: as JSON for a program, as a small page for a person who opened an address."""

from __future__ import annotations

import html
import json

from starlette.datastructures import Headers

API = "/api/"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Tacit</title>
{assets}</head>
<body>
<main>
<h1>Tacit</h1>
<p class="problem">{problem}</p>
{more}</main>
</body>
</html>
"""
_ASSETS = """<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/board.css">
<script src="/static/theme.js"></script>
"""
_BACK = '<p><a href="/">Go to the first page</a></p>\n'


def is_opened(path: str, headers: Headers) -> bool:
    """Whether a person has opened this address in a browser. The addresses of the API answer in JSON to everybody."""
    return headers.get("sec-fetch-mode") == "navigate" and not path.startswith(API)


def body_of(problem: str, hint: str | None, *, as_page: bool, admitted: bool) -> tuple[bytes, str]:
    """The body of the answer and its media type. A page of somebody who was not admitted leads nowhere and loads nothing."""
    if not as_page:
        told = {"problem": problem} | ({} if hint is None else {"hint": hint})
        return json.dumps(told).encode(), "application/json"
    sentence = html.escape(problem if hint is None else f"{problem} {hint}")
    more, assets = (_BACK, _ASSETS) if admitted else ("", "")
    return _PAGE.format(problem=sentence, more=more, assets=assets).encode(), "text/html; charset=utf-8"
