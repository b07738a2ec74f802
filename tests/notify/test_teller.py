"""What is told when: storms, silences, our own downtime, and what is said in one message instead of two."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sleepwatch.config import Settings, Target
from sleepwatch.notify.silences import add, end, silences
from tests.notify.office import ALL, HOUR, MINUTE, SECOND, Office, incident


def _ended(one: msgspec.Struct, state: str = "recovered") -> msgspec.Struct:
    return msgspec.structs.replace(one, state=state)


def test_a_hang_waits_a_moment_and_a_crash_does_not(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.happens(incident("hung-request", 1), incident("sleep-crash", 2))
    office.pass_time(SECOND)
    assert office.told() == ["opened 2"]
    office.pass_time(5 * SECOND)
    assert office.told() == ["opened 2", "opened 1"]


def test_a_hang_that_is_over_within_that_moment_is_one_message(tmp_path: Path) -> None:
    office = Office(tmp_path)
    hang = incident("hung-request", 1)
    office.happens(hang)
    office.pass_time(2 * SECOND)
    office.happens(_ended(hang, "unstuck"))
    office.pass_time(MINUTE)
    assert office.told() == ["passed 1"]


def test_what_is_taken_back_before_it_was_sent_is_not_told(tmp_path: Path) -> None:
    office = Office(tmp_path)
    hang = incident("hung-request", 1)
    office.happens(hang)
    office.withdraw(hang)
    office.pass_time(MINUTE)
    assert office.told() == []


def test_what_is_taken_back_after_it_was_sent_is_told_and_may_come_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(SECOND)
    office.withdraw(crash)
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "withdrawn 1"]
    office.pass_time(HOUR)
    office.happens(crash)
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "withdrawn 1", "opened 1"]


def test_a_crash_that_becomes_a_loop_is_told_to_be_worse_under_the_same_title(tmp_path: Path) -> None:
    office = Office(tmp_path)
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(SECOND)
    office.happens(_ended(crash, "restarted"))
    office.pass_time(SECOND)
    loop = msgspec.structs.replace(crash, kind="crash-loop", severity="critical", count=5)
    office.happens(loop)
    office.pass_time(SECOND)
    for count in range(6, 100):
        office.happens(msgspec.structs.replace(loop, count=count))
        office.pass_time(SECOND)
    office.happens(msgspec.structs.replace(loop, count=100, state="restarted"))
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "recovered 1", "escalated 1", "recovered 1"]
    assert office.courier is not None
    assert len({parcel.title for parcel in office.courier.received}) == 1
    assert [parcel.type for parcel in office.courier.received] == ["warning", "success", "failure", "success"]


def test_each_target_is_told_of_what_it_wants(tmp_path: Path) -> None:
    critical = Target(name="critical", severity="critical", command=("true",))
    sure = Target(name="sure", confidence="confirmed", kinds=("crash", "crash-loop"), command=("true",))
    other = Target(name="other", servers=("llama-2.*",), command=("true",))
    office = Office(tmp_path, critical, sure, other)
    crash = incident("crash", 1, confidence="probable")
    office.happens(crash)
    office.pass_time(SECOND)
    assert office.rows() == []
    office.happens(msgspec.structs.replace(crash, kind="crash-loop", severity="critical", confidence="confirmed"))
    office.happens(incident("crash", 2, confidence="probable"))
    office.pass_time(SECOND)
    told = [(row["target"], row["what"], row["incident"][-1]) for row in office.rows()]
    assert told == [("critical", "opened", "1"), ("sure", "opened", "1"), ("other", "opened", "2")]


# -- storms -----------------------------------------------------------------------------------------------------------


def test_a_storm_is_told_in_a_digest(tmp_path: Path) -> None:
    office = Office(tmp_path, storm_messages=3, storm_minutes=10)
    many = [incident("crash", number) for number in range(50)]
    office.happens(*many)
    office.pass_time(30 * SECOND)
    assert office.told() == ["opened 0", "opened 1", "opened 2"]
    office.pass_time(40 * SECOND)
    assert office.told()[3:] == ["digest"]
    assert office.courier is not None
    digest = office.courier.received[-1]
    assert digest.title == "host: 47 incidents, 47 still open"
    assert digest.short.count("\n- warning crash of llama-") == 30
    assert "… and 17 more" in digest.short
    office.happens(*(_ended(one, "restarted") for one in many))
    office.pass_time(5 * MINUTE)
    assert sorted(office.told()[4:]) == ["recovered 0", "recovered 1", "recovered 2"]
    office.pass_time(10 * MINUTE)
    assert office.told()[7:] == ["digest"]
    assert office.courier.received[-1].title == "host: 47 incidents, none still open"
    assert office.courier.received[-1].type == "success"
    office.pass_time(HOUR)
    assert len(office.told()) == 8


def test_after_a_storm_they_are_told_one_by_one_again(tmp_path: Path) -> None:
    office = Office(tmp_path, storm_messages=3, storm_minutes=10)
    office.happens(*(incident("crash", number) for number in range(5)))
    office.pass_time(20 * MINUTE)
    office.happens(incident("crash", 9))
    office.pass_time(SECOND)
    assert office.told() == ["opened 0", "opened 1", "opened 2", "digest", "opened 9"]


def test_what_becomes_worse_in_a_storm_is_told_at_once(tmp_path: Path) -> None:
    office = Office(tmp_path, storm_messages=1)
    office.happens(incident("crash", 1), incident("crash", 2))
    office.pass_time(70 * SECOND)
    assert office.told() == ["opened 1", "opened 2"]  # a digest of one is that one's message
    office.happens(incident("crash-loop", 2))
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "opened 2", "escalated 2"]


def test_a_server_that_dies_again_waits_for_whether_it_becomes_a_loop(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.happens(incident("crash", 1))
    office.pass_time(SECOND)
    again = incident("crash", 2, server="llama-1.service")
    office.happens(again)
    office.pass_time(50 * SECOND)
    assert office.told() == ["opened 1"]
    office.pass_time(20 * SECOND)
    assert office.told() == ["opened 1", "opened 2"]
    office.pass_time(20 * MINUTE)
    office.happens(incident("crash", 3, server="llama-1.service"))
    office.pass_time(SECOND)
    assert office.told()[2:] == ["opened 3"]


def test_1400_restarts_are_a_handful_of_messages(tmp_path: Path) -> None:
    """As the engine tells of them: five deaths one by one, of which the first becomes the loop (made)."""
    office = Office(tmp_path)
    deaths = [incident("crash", number, server="llama.service") for number in range(5)]
    for number, death in enumerate(deaths):
        office.happens(death)
        office.pass_time(2 * SECOND)
        if number < 4:
            office.happens(_ended(death, "restarted"))
            office.pass_time(3 * SECOND)
    loop = msgspec.structs.replace(deaths[0], kind="crash-loop", severity="critical", count=5)
    office.happens(loop)
    for death in deaths[1:]:
        office.withdraw(death)
    for count in range(6, 1_401):
        office.happens(msgspec.structs.replace(loop, count=count))
        office.pass_time(5 * SECOND)
    office.happens(msgspec.structs.replace(loop, count=1_400, state="restarted"))
    office.pass_time(HOUR)
    assert office.told() == ["opened 0", "recovered 0", "escalated 0", "recovered 0"]


# -- downtime ---------------------------------------------------------------------------------------------------------


def test_what_happened_while_nobody_watched_is_one_summary(tmp_path: Path) -> None:
    office = Office(tmp_path)
    hang, crash = incident("hung-request", 1), incident("crash", 2)
    office.happens(hang, crash, _ended(incident("crash", 3), "restarted"), hold="downtime")
    office.pass_time(MINUTE, caught_up=False)
    assert office.told() == []
    office.pass_time(10 * SECOND)
    assert office.told() == ["summary"]
    assert office.courier is not None
    assert office.courier.received[0].short.startswith("While sleepwatch was not running")
    assert "3 incidents, 2 still open" in office.courier.received[0].title
    office.happens(_ended(crash, "restarted"))
    office.pass_time(20 * MINUTE)
    assert office.told() == ["summary", "digest"]


def test_one_incident_of_the_downtime_has_a_message_of_its_own(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.happens(incident("crash", 1, state="restarted"), hold="downtime")
    office.pass_time(10 * SECOND)
    assert office.told() == ["passed 1"]


def test_what_the_first_reading_finds_is_told_only_if_it_is_open(tmp_path: Path) -> None:
    office = Office(tmp_path)
    hang = incident("hung-request", 1)
    office.happens(hang, incident("crash", 2), incident("crash", 3, state="restarted"), hold="backfill")
    office.happens(_ended(hang), hold="backfill")
    office.pass_time(10 * SECOND)
    assert office.told() == ["opened 2"]
    assert [row["state"] for row in office.rows()] == ["sent"]


def test_a_kill_while_it_catches_up_loses_nothing(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.happens(incident("hung-request", 1), incident("crash", 2), hold="downtime")
    office.pass_time(10 * SECOND, caught_up=False)
    office.kill()
    office.open()
    office.pass_time(10 * SECOND)
    assert office.told() == ["summary"]


# -- silences ---------------------------------------------------------------------------------------------------------


def _silence(office: Office, hours: int = 2, **what: str) -> int:
    with office.store.transaction() as transaction:
        return add(
            transaction,
            server=what.get("server"),
            kind=what.get("kind"),
            reason="a new driver",
            until_us=office.clock.wall_us + hours * HOUR,
        )


@pytest.mark.parametrize(
    ("what", "silenced"),
    [
        ({"server": "llama-1.service"}, True),
        ({"server": "llama-*"}, True),
        ({"server": "other"}, False),
        ({"kind": "crash"}, True),
        ({"kind": "blind"}, False),
        ({"server": "llama-1.*", "kind": "crash"}, True),
        ({"server": "llama-1.*", "kind": "blind"}, False),
    ],
)
def test_a_silence_covers_servers_and_kinds(tmp_path: Path, what: dict[str, str], silenced: bool) -> None:
    office = Office(tmp_path)
    _silence(office, **what)
    office.happens(incident("crash", 1))
    office.pass_time(MINUTE)
    assert office.told() == ([] if silenced else ["opened 1"])
    [one] = silences(office.store, office.clock.wall_us)
    assert one.kept_back == silenced


def test_what_is_open_when_a_silence_ends_is_told_then(tmp_path: Path) -> None:
    office = Office(tmp_path)
    _silence(office, server="*")
    still, over = incident("crash", 1), incident("crash", 2)
    office.happens(still, over)
    office.pass_time(HOUR)
    office.happens(_ended(over, "restarted"))
    office.pass_time(HOUR - MINUTE)
    assert office.told() == []
    office.pass_time(2 * MINUTE)
    assert office.told() == ["opened 1"]
    office.happens(_ended(still, "restarted"))
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "recovered 1"]


def test_a_silence_that_is_ended_by_hand(tmp_path: Path) -> None:
    office = Office(tmp_path)
    number = _silence(office, server="*")
    office.happens(incident("crash", 1))
    office.pass_time(MINUTE)
    with office.store.transaction() as transaction:
        assert end(transaction, number)
        assert not end(transaction, number)
    office.pass_time(10 * SECOND)
    assert office.told() == ["opened 1"]


def test_who_was_told_of_the_beginning_is_told_of_the_end_in_a_silence(tmp_path: Path) -> None:
    office = Office(tmp_path)
    crash = incident("crash", 1)
    office.happens(crash)
    office.pass_time(SECOND)
    _silence(office, server="*")
    office.happens(_ended(crash, "restarted"))
    office.pass_time(SECOND)
    assert office.told() == ["opened 1", "recovered 1"]


# -- settings ---------------------------------------------------------------------------------------------------------


def test_what_waits_for_a_target_that_is_gone_is_undeliverable(tmp_path: Path) -> None:
    office = Office(tmp_path, outcome=lambda parcel: "failed")
    office.happens(incident("crash", 1))
    office.pass_time(SECOND)
    office.desk.use(Settings(target=(msgspec.structs.replace(ALL, name="another"),)))
    office.pass_time(10 * SECOND)
    [row] = office.rows()
    assert row["state"] == "undeliverable"
    assert row["attempts"] == ["failed", "failed"]
