"""What a report says it could not show."""

from __future__ import annotations

import msgspec
import pytest

from sleepwatch.model import CanSee, Gap, Life, ScanResult
from sleepwatch.report import blindness
from tests.support.results import LIFE, RESULT, SOURCE

ALL = CanSee(arrival=True, queued=True, answered=True, exit=True)
TIMED = msgspec.structs.replace(SOURCE, time_from="the journal's receipt time")


def _result(*lives: Life, **fields: object) -> ScanResult:
    return msgspec.structs.replace(RESULT, sources=(TIMED,), lives=lives, **fields)


def _life(era: str | None, verbosity: int | None, **sees: bool) -> Life:
    return msgspec.structs.replace(LIFE, era=era, verbosity=verbosity, can_see=msgspec.structs.replace(ALL, **sees))


def test_a_log_that_shows_everything_has_nothing_to_confess() -> None:
    assert blindness(_result(_life("C", 5))) == []


@pytest.mark.parametrize(
    ("life", "says", "says_not"),
    [
        (
            _life("C", 3, arrival=False, queued=False),
            ["default verbosity (-lv 3): requests are not logged", "never gave up cannot be seen", "-lv 4 would show"],
            ["Chat format"],
        ),
        (
            _life("C", 4, queued=False),
            ["verbosity 4: requests show as they arrive", "at most probable", "embedding and rerank", "-lv 5"],
            ["cannot be seen"],
        ),
        (
            _life("B", 3, arrival=False, queued=False),
            ["only chat requests show", "'Chat format'", "-lv 5 would show it (debug"],
            ["-lv 4"],
        ),
        (
            _life("A", 3, queued=False),
            ["only chat requests show", "'Chat format'", "-lv 4 would show it (debug"],
            ["-lv 5"],
        ),
        (_life(None, None, arrival=False, queued=False), ["verbosity not printed", "requests are not logged"], []),
        (_life("C", 2, answered=False), ["verbosity 2: requests that get a slot are not logged", "-lv 3"], []),
        (_life("C", 5, exit=False), ["no supervisor's record", "journalctl -u UNIT"], []),
    ],
)
def test_what_an_era_and_a_verbosity_hide(life: Life, says: list[str], says_not: list[str]) -> None:
    (sentence,) = blindness(_result(life))
    assert sentence.startswith("server.log: ")
    assert [words for words in says if words not in sentence] == []
    assert [words for words in says_not if words in sentence] == []


def test_a_log_without_a_llama_server_says_so() -> None:
    assert blindness(_result()) == ["server.log: no llama-server line was recognised, so it proves nothing either way"]


def test_lines_without_wall_time() -> None:
    (sentence,) = blindness(msgspec.structs.replace(_result(_life("C", 5)), sources=(SOURCE,)))
    assert "no wall time" in sentence
    assert "server's own clock" in sentence


def test_what_holds_for_some_lives_only_is_said_with_their_number() -> None:
    silent = msgspec.structs.replace(_life("C", 3, arrival=False, queued=False), life="another")
    (sentence,) = blindness(_result(_life("C", 5), silent))
    assert sentence.endswith("(so for 1 of 2 server lives)")


def test_what_holds_for_many_sources_is_said_once() -> None:
    names = [f"server.log.{number}" for number in range(5)]
    result = msgspec.structs.replace(
        RESULT,
        sources=tuple(msgspec.structs.replace(TIMED, source=name) for name in names),
        lives=tuple(msgspec.structs.replace(_life("C", 5, exit=False), source=name, life=name) for name in names),
    )
    (sentence,) = blindness(result)
    assert sentence.startswith("server.log.0, server.log.1, server.log.2 and 2 more: no supervisor's record")


@pytest.mark.parametrize(
    ("gap", "where"),
    [
        (Gap(source="server.log", cause="truncated"), "a stretch could not be read (truncated)"),
        (Gap(source="server.log", cause="torn", from_offset=10, to_offset=20), "from byte 10 to byte 20"),
        (Gap(source="server.log", cause="torn", from_offset=10), "from byte 10 on"),
        (Gap(source="server.log", cause="torn", to_offset=20), "up to byte 20"),
        (
            Gap(source="server.log", cause="rate limit", from_us=0, to_us=1_000_000, from_offset=5),
            "from 1970-01-01T00:00:00.000000Z to 1970-01-01T00:00:01.000000Z",
        ),
    ],
)
def test_gaps(gap: Gap, where: str) -> None:
    (sentence,) = blindness(_result(_life("C", 5), gaps=(gap,)))
    assert where in sentence
    assert sentence.endswith("its silence proves nothing")


def test_sources_that_could_not_be_read() -> None:
    assert blindness(_result(_life("C", 5), failed=(("gone.log", "no such file"),))) == [
        "gone.log was not read: no such file"
    ]
