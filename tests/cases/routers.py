"""Routers: children with clocks of their own, what the router says of their ends, and its own."""

from __future__ import annotations

from tests.cases.case import Case, found
from tests.cases.made import log

BEGIN = """
0      init
0.005  verbosity 3
0.008  router
0.0099 spawn wide 48859
0.0100 argument
0.0104 listen 8080
"""


def child(script: str, port: str = "48859") -> str:
    """A child's lines, on its own clock."""
    return "".join(f"[{port}] {line.strip()}\n" for line in script.strip().splitlines())


STARTED = child("0 start port=48859\n1 serve 0")
SLEEPS = child("2.1 sleep")
NEXT = "60 spawn wide 48860\n" + child("0.0005 | x\n0 start port=48860\n1 serve 0", "48860")

CASES = [
    Case(
        name="child-hang",
        why="the child's own lines prove it as a single server's do",
        log=log(BEGIN + STARTED + SLEEPS + child("9 cancel 2\n20 wake\n20.4 ready\n20.41 serve 4")),
        found=(found("hung-request", "confirmed", "abandoned", task=2, server="server/wide"),),
    ),
    Case(
        name="child-excerpt-begins-inside-a-sleep",
        why="who passed what on before the excerpt is not known: counting launches proves nothing",
        log=log(
            "2.3 proxy wide 48859\n"
            + child("2.35 wake\n2.4 ready\n2.41 launch 0\n2.42 release 0\n2.43 launch 2\n2.44 release 2")
            + "36 cleanup\n36.1 gone wide 0\n"
        ),
    ),
    Case(
        name="child-port-padded",
        why="short ports are padded to five",
        log=log(BEGIN.replace("48859", "8081") + child("0 start port=8081\n1 serve 0\n2.1 sleep\n9 cancel 2", " 8081")),
        found=(found("hung-request", "confirmed", "abandoned", task=2, server="server/wide"),),
    ),
    Case(
        name="child-empty-lines",
        why="an empty line of the child is its port alone",
        log=log(BEGIN + STARTED + SLEEPS).replace(b"[48859] 0.02.100.200", b"[48859] \n[48859]\n[48859] 0.02.100.200")
        + log(child("9 cancel 2")),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="child-control-lines",
        why="the protocol between child and router stands in between, unstamped",
        log=log(
            BEGIN
            + STARTED
            + child(
                "2.1 enter\n| cmd_child_to_router:sleep\n2.1003 entered\n9 cancel 2\n20 exit\n"
                "| cmd_child_to_router:ready\n20.0001 exited\n20.0002 load\n20.4 ready\n20.41 serve 4"
            )
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="child-first-sleep-line-discarded",
        why="a child's logger drops lines while it reports its state: one of the twins is enough",
        log=log(
            BEGIN
            + STARTED
            + child("2.1003 entered\n9 cancel 2\n20.0001 exited\n20.0002 load\n20.4 ready\n20.41 serve 4")
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="nested-router-child",
        why="a router behind a router prints two ports",
        log=log(
            "0 init\n0.008 router\n0.0099 spawn inner 40001\n0.0104 listen 8080\n"
            + child(BEGIN, "40001")
            + child(child("0 start port=48859\n1 serve 0\n2.1 sleep\n9 cancel 2"), "40001")
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="child-status-1-awake",
        why="1 is what the router says of every signal: a death, its signal unknown",
        log=log(BEGIN + STARTED + child("1.5 launch 2") + "1.7 client-error\n1.8 gone wide 1\n" + NEXT),
        found=(found("crash", "probable", "restarted", signal=None, server="server/wide"),),
    ),
    Case(
        name="child-status-1-right-after-the-sleep",
        why="the router's clock shows that it died within five seconds of falling asleep",
        log=log(BEGIN + STARTED + SLEEPS + "2.2 client-error\n2.4 gone wide 1\n" + NEXT),
        found=(found("sleep-crash", "probable", "restarted", signal=None, server="server/wide"),),
    ),
    Case(
        name="child-status-1-long-asleep",
        why="an hour later it is any death",
        log=log(BEGIN + STARTED + SLEEPS + "3600 gone wide 1\n3660 spawn wide 48860\n"),
        found=(found("crash", "probable", "down", signal=None),),
    ),
    Case(
        name="child-status-1-in-a-reload",
        why="asked to wake, died before it was awake: a failed wake, its signal unknown",
        log=log(
            BEGIN + STARTED + SLEEPS + "19.9 proxy wide 48859\n" + child("20 wake\n20.4 ready") + "20.6 client-error\n"
            "20.7 gone wide 1\n" + NEXT
        ),
        found=(found("wake-failure", "probable", "restarted", signal=None),),
    ),
    Case(
        name="child-status-139",
        why="a router that passes signals on",
        log=log(BEGIN + STARTED + SLEEPS + "2.4 gone wide 139\n" + NEXT),
        found=(found("sleep-crash", "probable", "restarted", signal=11),),
    ),
    Case(
        name="child-stopped",
        why="unloaded on purpose: the status 1 behind it means nothing",
        log=log(BEGIN + STARTED + SLEEPS + "30 stop-model wide\n30.1 gone wide 1\n" + NEXT),
    ),
    Case(
        name="child-evicted",
        why="the least recently used one gives up its place",
        log=log(BEGIN + STARTED + SLEEPS + "30 evict wide\n30.1 gone wide 1\n" + NEXT),
    ),
    Case(
        name="child-evicted-in-a-reload",
        why="an hour on the router's clock is not an hour on the child's: its reload had just begun",
        log=log(
            BEGIN.replace("0.0099 spawn", "3000 spawn")
            .replace("0.0100 argument", "3000.001 argument")
            .replace("0.0104 listen", "3000.002 listen")
            + STARTED
            + SLEEPS
            + child("20 wake\n20.4 ready\n20.41 serve 2\n21.5 sleep\n40 wake")
            + "3040.5 evict wide\n3040.6 gone wide 1\n"
        ),
    ),
    Case(
        name="child-force-killed",
        why="a stop that had to be enforced",
        log=log(
            BEGIN
            + STARTED
            + child("1.5 launch 2")
            + "30 stop-model wide\n40 force-kill wide\n40.1 gone wide 1\n"
            + NEXT
        ),
    ),
    Case(
        name="stopped-once-crashed-next",
        why="a stop excuses one end, not the next life's",
        log=log(
            BEGIN
            + STARTED
            + "30 stop-model wide\n30.1 gone wide 1\n60 spawn wide 48860\n"
            + child("0 start port=48860\n1 serve 0\n1.5 launch 2", "48860")
            + "65 gone wide 1\n"
        ),
        found=(found("crash", "probable", "down", signal=None),),
    ),
    Case(
        name="child-exit-0",
        why="asked to stop",
        log=log(BEGIN + STARTED + SLEEPS + "30.1 gone wide 0\n"),
    ),
    Case(
        name="client-error-with-a-healthy-child",
        why="a failed connection is no death: the child writes on",
        log=log(
            BEGIN
            + STARTED
            + "1.5 proxy wide 48859\n1.51 client-error\n"
            + child("1.52 launch 2\n2 release 2\n3.1 sleep")
        ),
    ),
    Case(
        name="h4-through-a-router",
        why="one request passed on right before the sleep, one after it, and two launches: likely the old one, or a poll",
        log=log(
            BEGIN
            + STARTED
            + "2.05 proxy wide 48859\n"
            + SLEEPS
            + "19.9 proxy wide 48859\n"
            + child("20 wake\n20.4 ready\n20.41 serve 2\n20.5 serve 4")
        ),
        found=(found("hung-request", "probable", "recovered", task=2, server="server/wide"),),
    ),
    Case(
        name="h6-passed-on-before-the-sleep",
        why="passed on and never launched: that can be a poll, and the log ends",
        log=log(BEGIN + STARTED + "2.05 proxy wide 48859\n" + SLEEPS),
    ),
    Case(
        name="polls-through-the-router",
        why="the router prints the same line for polls: they prove nothing",
        log=log(
            BEGIN
            + STARTED
            + "2.05 proxy wide 48859\n"
            + SLEEPS
            + "3 proxy wide 48859\n4 proxy wide 48859\n"
            + child("20 wake\n20.4 ready")
            + "20.5 proxy wide 48859\n"
            + child("20.6 serve 2")
        ),
    ),
    Case(
        name="router-dies-with-its-children",
        why="one death, the router's; it owns the requests of its children, and their ends are its own",
        log=log(
            BEGIN
            + STARTED
            + child("1.5 launch 2")
            + "60 spawn tiny 48861\n"
            + child("0 start port=48861\n1 serve 0\n2.1 sleep", "48861")
            + "| /opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --models-preset p.ini\n"
            + BEGIN.replace("48859", "48870")
        ),
        found=(found("crash-in-flight", "confirmed", "restarted", signal=11, server="server", in_flight=1),),
    ),
    Case(
        name="router-stopped",
        why="a planned stop of the router stops its children",
        log=log(BEGIN + STARTED + child("1.5 launch 2") + "60 cleanup\n60.1 stop-model wide\n60.2 gone wide 1\n"),
    ),
]
