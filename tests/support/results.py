"""Readings for the tests of the store and the reports: one made by hand, and Hypothesis strategies for any."""

from __future__ import annotations

from hypothesis import strategies as st

from sleepwatch.model import CanSee, Evidence, Gap, Incident, Life, ScanResult, SourceInfo

KINDS = (
    "hung-request",
    "sleep-crash",
    "wake-failure",
    "crash-in-flight",
    "crash",
    "crash-loop",
    "stalled-request",
    "blind",
)
HANG_STATES = ("open", "unstuck", "recovered", "abandoned", "lost", "unresolved")
DEATH_STATES = ("open", "restarted", "down")
HANGS = ("hung-request", "stalled-request")

SLEEP = Evidence(
    role="sleep",
    source="server.log",
    offset=1200,
    text="0.03.324.771 I que    start_loop: entering sleeping state",
    clock_us=3_324_771,
)
CANCEL = Evidence(
    role="cancel",
    source="server.log",
    offset=1320,
    text="0.06.363.688 W srv          stop: cancel task, id_task = 2",
    clock_us=6_363_688,
)
LIFE = Life(
    life="9f8e7d6c5b4a3921",
    server="server",
    source="server.log",
    pid=None,
    port=None,
    build=None,
    era="C",
    verbosity=3,
    can_see=CanSee(arrival=False, queued=False, answered=False, exit=False),
    started_us=None,
    ended_us=None,
    exit=None,
    sleeps=3,
    requests=7,
)
HANG = Incident(
    id="4a5b6c7d8e9f0a1b",
    kind="hung-request",
    confidence="confirmed",
    state="abandoned",
    severity="warning",
    server="server",
    life=LIFE.life,
    summary="A request was queued while the server slept, and its client gave up.",
    remedy="Send a 1-token completion before long requests, or give clients a timeout and a retry.",
    reason="H2: task 2, above the mark 0, was cancelled while the server slept",
    evidence=(SLEEP, CANCEL),
    task=2,
    log_opened_us=3_324_771,
    log_closed_us=6_363_688,
)
SOURCE = SourceInfo(source="server.log", envelope="bare", bytes=24_000)
RESULT = ScanResult(sources=(SOURCE,), lives=(LIFE,), incidents=(HANG,), gaps=(), events=40, lines_seen=200)

_WALL = st.integers(min_value=0, max_value=4_000_000_000_000_000)
_CLOCK = st.integers(min_value=0, max_value=10**13)
_COUNT = st.integers(min_value=0, max_value=2**40)
_NAMES = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["server.log", "-", "/var/log/a b.log", "\udcff.log", "esc\x1b[2J"]
)
_KEY = st.text("0123456789abcdef", min_size=16, max_size=16)
_TEXT = st.text(max_size=40)


def _maybe(strategy: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | strategy


def evidence(sources: st.SearchStrategy[str] = _NAMES) -> st.SearchStrategy[Evidence]:
    """Any one line of evidence."""
    return st.builds(
        Evidence,
        role=st.sampled_from(["sleep", "post", "arrival", "cancel", "wake", "exit"]),
        source=sources,
        offset=_COUNT,
        text=_TEXT,
        line=_maybe(st.integers(min_value=1, max_value=2**40)),
        rest_bytes=_COUNT,
        rest_sha256=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
        clock_us=_maybe(_CLOCK),
        wall_us=_maybe(_WALL),
    )


@st.composite
def incidents(draw: st.DrawFn, life: Life) -> Incident:
    """Any incident of this life."""
    kind = draw(st.sampled_from(KINDS))
    in_flight = draw(_maybe(_COUNT))
    return Incident(
        id=draw(_KEY),
        kind=kind,
        confidence=draw(st.sampled_from(["confirmed", "probable", "possible"])),
        state=draw(st.sampled_from(HANG_STATES if kind in HANGS else DEATH_STATES)),
        severity=draw(st.sampled_from(["critical", "warning", "info"])),
        server=life.server,
        life=life.life,
        summary=draw(_TEXT),
        remedy=draw(_TEXT),
        reason=draw(_TEXT),
        evidence=tuple(draw(st.lists(evidence(), max_size=4))),
        task=draw(_maybe(_COUNT)),
        in_flight=in_flight,
        in_flight_reason=draw(st.none() | _TEXT) if in_flight is None else None,
        signal=draw(st.sampled_from([None, 4, 6, 9, 11])),
        count=draw(st.integers(min_value=5, max_value=2000)) if kind == "crash-loop" else 1,
        opened_us=draw(_maybe(_WALL)),
        closed_us=draw(_maybe(_WALL)),
        log_opened_us=draw(_maybe(_CLOCK)),
        log_closed_us=draw(_maybe(_CLOCK)),
    )


@st.composite
def scan_results(draw: st.DrawFn) -> ScanResult:
    """Any reading whose parts belong together: lives of its sources, incidents of its lives."""
    sources = draw(
        st.lists(
            st.builds(
                SourceInfo,
                source=_NAMES,
                envelope=st.sampled_from(["bare", "docker-json", "journal-short"]),
                bytes=_COUNT,
                first_us=_maybe(_WALL),
                last_us=_maybe(_WALL),
                time_from=st.none() | st.just("the journal's receipt time"),
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda source: source.source,
        )
    )
    names = st.sampled_from([source.source for source in sources])
    lives = draw(
        st.lists(
            st.builds(
                Life,
                life=_KEY,
                server=_NAMES,
                source=names,
                pid=_maybe(_COUNT),
                port=st.sampled_from([None, "52525", "1/2"]),
                build=st.sampled_from([None, "b11368"]),
                era=st.sampled_from([None, "A", "B", "C"]),
                verbosity=st.sampled_from([None, 3, 4, 5, 2147483647]),
                can_see=st.builds(
                    CanSee, arrival=st.booleans(), queued=st.booleans(), answered=st.booleans(), exit=st.booleans()
                ),
                started_us=_maybe(_WALL),
                ended_us=_maybe(_WALL),
                exit=st.sampled_from([None, "planned", "signal 11", "status 1", "unknown"]),
                sleeps=_COUNT,
                requests=_COUNT,
                freed_in_grace=_COUNT,
                lost_to_stop=_COUNT,
            ),
            max_size=3,
            unique_by=lambda life: life.life,
        )
    )
    found: list[Incident] = []
    if lives:
        found = draw(
            st.lists(st.sampled_from(lives).flatmap(incidents), max_size=4, unique_by=lambda incident: incident.id)
        )
    gaps = draw(
        st.lists(
            st.builds(
                Gap,
                source=names,
                cause=_TEXT,
                from_offset=_maybe(_COUNT),
                to_offset=_maybe(_COUNT),
                from_us=_maybe(_WALL),
                to_us=_maybe(_WALL),
            ),
            max_size=2,
        )
    )
    return ScanResult(
        sources=tuple(sources),
        lives=tuple(lives),
        incidents=tuple(found),
        gaps=tuple(gaps),
        failed=tuple(draw(st.lists(st.tuples(_NAMES, _TEXT), max_size=1))),
        events=draw(_COUNT),
        lines_seen=draw(_COUNT),
    )
