"""The JSON document: its shape for any reading, its order, and its counts."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleepwatch.model import Evidence, Gap, Incident, ScanResult
from sleepwatch.report import document, json_text, jsonl
from tests.support.results import CANCEL, HANG, LIFE, RESULT, SLEEP, SOURCE, scan_results

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "scan-schema.json").read_text())


def _closed(schema: Any) -> Any:
    """The schema, refusing every name it does not list."""
    schema = copy.deepcopy(schema)

    def close(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                node["additionalProperties"] = False
            for child in node.values():
                close(child)

    close(schema)
    return schema


VALIDATOR = jsonschema.Draft202012Validator(_closed(SCHEMA))


def test_the_schema_itself_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@given(scan_results(), st.booleans(), st.booleans())
def test_any_reading_gives_a_document_of_the_schema_with_no_undescribed_name(
    result: ScanResult, possible: bool, raw: bool
) -> None:
    texts = {(e.source, e.offset): "rest" for i in result.incidents[:1] for e in i.evidence} if raw else None
    written = json_text(document(result, possible=possible, raw=texts))
    VALIDATOR.validate(json.loads(written))


@given(scan_results())
def test_jsonl_is_the_documents_incidents_one_a_line(result: ScanResult) -> None:
    lines = list(jsonl(result, possible=True))
    assert [json.loads(line) for line in lines] == json.loads(json_text(document(result, possible=True)))["incidents"]
    assert all("\n" not in line for line in lines)


def test_the_schema_refuses_what_it_should() -> None:
    good = document(RESULT)
    VALIDATOR.validate(good)
    for path, value in (
        (("schema_version",), 2),
        (("incidents", 0, "kind"), "hang"),
        (("incidents", 0, "opened"), "2026-10-03 04:00:01"),
        (("incidents", 0, "evidence", 0, "line"), 0),
        (("totals", "possible"), -1),
    ):
        bad = copy.deepcopy(good)
        node: Any = bad
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(bad)


def test_a_hang_in_full() -> None:
    assert document(RESULT)["incidents"] == [
        {
            "id": "4a5b6c7d8e9f0a1b",
            "kind": "hung-request",
            "confidence": "confirmed",
            "state": "abandoned",
            "severity": "warning",
            "server": "server",
            "life": "9f8e7d6c5b4a3921",
            "task": 2,
            "in_flight": None,
            "in_flight_reason": None,
            "signal": None,
            "count": 1,
            "opened": None,
            "closed": None,
            "log_opened_s": 3.324771,
            "log_closed_s": 6.363688,
            "duration_s": 3.038917,
            "summary": HANG.summary,
            "reason": HANG.reason,
            "remedy": HANG.remedy,
            "evidence": [
                {
                    "role": "sleep",
                    "source": "server.log",
                    "line": None,
                    "offset": 1200,
                    "text": "0.03.324.771 I que    start_loop: entering sleeping state",
                    "rest_bytes": 0,
                    "rest_sha256": None,
                },
                {
                    "role": "cancel",
                    "source": "server.log",
                    "line": None,
                    "offset": 1320,
                    "text": "0.06.363.688 W srv          stop: cancel task, id_task = 2",
                    "rest_bytes": 0,
                    "rest_sha256": None,
                },
            ],
        }
    ]


def _incident(key: str, *evidence: Evidence, confidence: str = "confirmed") -> Incident:
    return msgspec.structs.replace(HANG, id=key, evidence=evidence, confidence=confidence)


def _at(offset: int, source: str = "server.log", wall_us: int | None = None) -> Evidence:
    return msgspec.structs.replace(SLEEP, offset=offset, source=source, wall_us=wall_us)


def test_incidents_stand_in_the_order_of_their_opening_evidence() -> None:
    older = msgspec.structs.replace(SOURCE, source="server.log.1")
    result = msgspec.structs.replace(
        RESULT,
        sources=(older, SOURCE),
        incidents=(
            _incident("fourth", _at(900), CANCEL),
            _incident("third", _at(100)),
            _incident("second", _at(5000, "server.log.1")),
            _incident("first", _at(9000, wall_us=1_759_464_001_000_000)),
        ),
    )
    assert [incident["id"] for incident in document(result)["incidents"]] == ["first", "second", "third", "fourth"]


def test_possible_ones_are_counted_apart_and_listed_on_request() -> None:
    result = msgspec.structs.replace(RESULT, incidents=(HANG, _incident("maybe", _at(1), confidence="possible")))
    assert [incident["id"] for incident in document(result)["incidents"]] == [HANG.id]
    assert [incident["id"] for incident in document(result, possible=True)["incidents"]] == ["maybe", HANG.id]
    for possible in (False, True):
        totals = document(result, possible=possible)["totals"]
        assert (totals["incidents"], totals["possible"], totals["by_kind"]) == (1, 1, {"hung-request": 1})


def test_times_are_utc_with_microseconds_or_null() -> None:
    result = msgspec.structs.replace(
        RESULT,
        gaps=(Gap(source="server.log", cause="rotated away", from_us=1_759_464_001_000_000, to_us=10**18),),
    )
    gap = document(result)["gaps"][0]
    assert (gap["from"], gap["to"]) == ("2025-10-03T04:00:01.000000Z", None)  # no clock shows the year 33658


def test_what_to_do_keeps_its_lines() -> None:
    result = msgspec.structs.replace(RESULT, incidents=(msgspec.structs.replace(HANG, remedy="Do:\n  this\x07"),))
    assert document(result)["incidents"][0]["remedy"] == "Do:\n  this\\x07"


def test_names_from_outside_cannot_steer_a_terminal_or_break_the_json() -> None:
    result = msgspec.structs.replace(
        RESULT, lives=(msgspec.structs.replace(LIFE, server="a\x1b[2J\u202eb"),), failed=(("\udcff.log", "no\nway"),)
    )
    found = json.loads(json_text(document(result)))
    assert found["lives"][0]["server"] == "a\\x1b[2J\\u202eb"
    assert found["totals"]["failed_sources"] == [{"source": "\\xff.log", "why": "no\\x0away"}]
