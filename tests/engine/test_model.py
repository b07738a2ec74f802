"""The engine against a model of the server that knows which requests hung: nothing invented, nothing missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.model import Incident
from tests.cases.made import Era, log
from tests.engine.model_server import ModelServer, Request
from tests.reader.reading import examples, read

END = 200.0


@st.composite
def clients(draw: st.DrawFn) -> list[Request]:
    """Requests around the moments at which the server falls asleep, and at any others."""
    requests = []
    at = draw(st.floats(0.4, 1.2))
    for _ in range(draw(st.integers(1, 12))):
        requests.append(
            Request(
                at=round(at, 3),
                tokenize=draw(st.sampled_from([0.001, 0.05, 0.2, 0.4])),
                work=draw(st.sampled_from([0.01, 0.3, 3.0])),
                patience=draw(st.sampled_from([0.3, 1.5, 3.0, 8.0, 1_000.0])),
                refused=draw(st.sampled_from([False, False, False, True])),
                chat=draw(st.booleans()),
            )
        )
        at += draw(st.one_of(st.floats(0.01, 0.5), st.floats(0.9, 1.3), st.floats(2, 15)))
    return requests


def _run(requests: list[Request], verbosity: int, *, era: Era = "C") -> tuple[list[Incident], list[Request]]:
    script = ModelServer(requests, verbosity=verbosity).script(END)
    sure = read([log(script, era=era)]).sure
    assert {incident.kind for incident in sure} <= {"hung-request"}, script
    return sure, [request for request in requests if request.is_incident]


def _undecided(requests: list[Request]) -> bool:
    """Two moments within a hair of each other: either order is right."""
    moments = [(r.slept + 2, r.woken) for r in requests if r.slept is not None and r.woken is not None]
    moments += [(r.cancelled, moment) for r in requests if r.cancelled is not None
                for moment in (r.woken, r.awake) if moment is not None]  # fmt: skip
    return any(abs(one - other) < 0.002 for one, other in moments)


@given(clients())
@examples(60)
def test_at_lv_5_exactly_the_hung_requests_are_found(requests: list[Request]) -> None:
    found, hung = _run(requests, 5)
    if not _undecided(requests):
        assert sorted(str(i.task) for i in found) == sorted(str(r.task) for r in hung)
    assert all(incident.confidence == "confirmed" for incident in found)


@given(clients())
@examples(60)
def test_at_the_default_verbosity_what_gave_up_is_found_and_nothing_invented(requests: list[Request]) -> None:
    found, hung = _run(requests, 3)
    if not _undecided(requests):
        assert sorted(str(i.task) for i in found) == sorted(str(r.task) for r in hung if r.shown_by_its_cancel)
    assert all(incident.state == "abandoned" for incident in found)


@given(clients())
@examples(60)
def test_at_lv_4_nothing_is_invented(requests: list[Request]) -> None:
    found, hung = _run(requests, 4)
    if _undecided(requests):
        return
    tasks = {request.task for request in hung}
    assert all(incident.task in tasks for incident in found if incident.task is not None)
    assert len(found) <= len(hung)
    assert {r.task for r in hung if r.shown_by_its_cancel} <= {incident.task for incident in found}


@given(clients())
@examples(30)
def test_in_era_b_as_in_c(requests: list[Request]) -> None:
    found, hung = _run(requests, 5, era="B")
    if not _undecided(requests):
        assert sorted(str(i.task) for i in found) == sorted(str(r.task) for r in hung)


def test_the_model_hangs() -> None:
    """It is worth something only if the race happens in it."""
    requests = [Request(at=0.4), Request(at=1.4, tokenize=0.2), Request(at=9.0)]
    ModelServer(requests, verbosity=5).script(END)
    assert [request.hung for request in requests] == [False, True, False]
