"""The interface is what its OpenAPI document says, and whatever is sent to it, it does not fail."""

from __future__ import annotations

import itertools

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tacit.fleet.server.api import create_app
from tacit.fleet.wire.messages import ROUNDS
from tests.support.fleet.fake_reports import HERE, FakeReports
from tests.support.fleet.people import Person, enrolled
from tests.support.fleet.serving import running

ADMIN_TOKEN = "an administrator's token"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 8


class Signed(requests.auth.AuthBase):
    """Sign whatever was made up, in turn as one of several devices; then more of it gets past the door."""

    def __init__(self, people: list[Person]) -> None:
        self._people = itertools.cycle(people)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        request.headers.update(next(self._people).headers(request.method, request.path_url, body))
        request.headers["authorization"] = f"Bearer {ADMIN_TOKEN}"
        return request


def everything(operation, cases, checks, statuses, call):
    """A test that sends these cases of an operation and looks at what comes back."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def send(case):
        if operation.path.startswith(ROUNDS):
            case.path_parameters["round_id"] = HERE
        answer = case.call(**call)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=checks)

    return send


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the tool's own
def test_no_request_makes_the_server_fail(sqlite_engine):
    app = create_app(sqlite_engine, admin_token=ADMIN_TOKEN, reports=FakeReports(), selects=True)
    signed = Signed([enrolled(sqlite_engine) for _ in range(8)])
    answered: dict[tuple[str, str], set[int]] = {}
    with running(app) as url, requests.Session() as session:
        session.trust_env = False
        document = schemathesis.openapi.from_dict(app.openapi())
        for found in document.get_all_operations():
            operation = found.ok()
            statuses = answered[operation.method, operation.path] = set()
            call = {"base_url": url, "session": session, "auth": signed}
            everything(operation, operation.as_strategy(), CHECKS, statuses, call)()
            if operation.body or operation.path_parameters:
                wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
                everything(operation, wrong, CHECKS, statuses, call)()
    assert len(answered) == len(list(document.get_all_operations()))
    assert 401 not in set().union(*(statuses for (_, path), statuses in answered.items() if path != "/v1/enrol"))
    assert {200, 204, 404, 413, 422} & set().union(*answered.values()) >= {200, 204, 404}
