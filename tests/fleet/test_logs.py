"""Whoever can cause an event cannot fill the disk with it."""

from __future__ import annotations

import io
import json
import logging

from tacit.fleet import logs


def test_an_event_that_comes_too_often_is_left_out_and_counted() -> None:
    stream, now = io.StringIO(), [0.0]
    handler, logger = logging.StreamHandler(stream), logging.getLogger("tacit.test_logs")
    handler.setFormatter(logs._JsonLines())
    handler.addFilter(logs._Flood(lambda: now[0]))
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    for _ in range(10_000):
        logger.info("Invalid HTTP request received.")
    logger.info("round committed")
    now[0] = 1.0
    logger.info("Invalid HTTP request received.")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == logs.BURST + 2
    assert lines[-2]["event"] == "round committed"
    assert lines[-1]["suppressed"] == 10_000 - logs.BURST
