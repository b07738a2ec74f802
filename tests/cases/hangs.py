"""hung-request: each proof, each state, and what looks like one and is none."""

from __future__ import annotations

from tests.cases.case import Case, found
from tests.cases.made import log

_BEGIN = """
0     start
1     serve 0
"""
"""A server that has served task 0, at the default verbosity."""

_WAKE_SERVE = """
{0}.0 wake
{0}.4 ready
"""


def woken(at: int, *launches: int) -> str:
    """A wake with its reload at second ``at``, and launches behind it."""
    lines = [f"{at}.0 wake", f"{at}.4 ready"]
    lines += [f"{at}.{41 + 10 * n} serve {task}" for n, task in enumerate(launches)]
    return "\n".join(lines) + "\n"


CASES = [
    # -- H1 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h1-posted-asleep-recovered",
        why="a task posted between falling asleep and waking lies in the queue; the next request's wake launches it",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            6.0   ask
            6.001 wake
            6.4   ready
            6.41  serve 1
            6.5   post 2
            6.51  serve 2
            9     cleanup
        """),
        found=(
            found("hung-request", "confirmed", "recovered", task=1, log_opened_us=2_100_000, log_closed_us=6_410_000),
        ),
    ),
    Case(
        name="h1-one-request-of-three-prompts",
        why="its tasks are posted together, each line with their number; one client waits, so it is one hang",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.150 | que          post: new task, id = 4/3, front = 0
            2.151 | que          post: new task, id = 5/3, front = 0
            2.152 | que          post: new task, id = 6/3, front = 0
            6.001 wake
            6.4   ready
            6.41  serve 4
            6.42  serve 5
            6.43  serve 6
            9     cleanup
        """),
        found=(found("hung-request", "confirmed", "recovered", task=4),),
    ),
    Case(
        name="h1-posted-asleep-log-ends",
        why="the log ends while the task lies there: proven, its fate unknown",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
        """),
        found=(found("hung-request", "confirmed", "unresolved", task=1),),
    ),
    Case(
        name="h1-posted-between-the-twin-lines",
        why="the post's line can stand between the two sleep lines: the first holds the queue's lock already",
        log=log("""
            0      start lv=5
            1      serve 0
            2.1    enter
            2.1001 post 1
            2.1002 entered
            9.0    cancel 1
        """),
        found=(found("hung-request", "confirmed", "abandoned", task=1),),
    ),
    Case(
        name="h1-era-b",
        why="the same lines in era B",
        log=log(
            """
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            6.0   wake
            6.4   ready
            6.41  serve 1
            """,
            era="B",
        ),
        found=(found("hung-request", "confirmed", "recovered", task=1),),
    ),
    Case(
        name="h1-era-a-unstamped",
        why="without stamps the proof counts at once: no clock tells the grace",
        log=log(
            """
            0     start
            1     serve 0
            2.1   sleep
            2.15  post 1
            6.0   wake
            6.4   ready
            6.41  serve 1
            """,
            era="A",
        ),
        found=(found("hung-request", "confirmed", "recovered", task=1, log_opened_us=None),),
    ),
    Case(
        name="h1-two-requests-one-sleep",
        why="each task is a hang of its own",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            3.15  post 2
            6.0   wake
            6.4   ready
            6.41  serve 1
            6.51  serve 2
        """),
        found=(
            found("hung-request", "confirmed", "recovered", task=1),
            found("hung-request", "confirmed", "recovered", task=2),
        ),
    ),
    Case(
        name="h1-launch-not-seen",
        why="a launch that is lost, or refused before its line: by the next sleep the queue is empty, so it was freed",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            6.0   wake
            6.4   ready
            6.41  serve 2
            7.5   sleep
            20    wake
            20.4  ready
            20.41 serve 4
        """),
        found=(
            found("hung-request", "confirmed", "recovered", task=1, log_opened_us=2_100_000, log_closed_us=7_500_000),
        ),
    ),
    Case(
        name="h1-internal-posts-are-no-requests",
        why="metrics and slot queries (single form), and the post of a cancel (front = 1), are posted while asleep too",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  internal 1 1
            2.25  internal 2 0
            2.35  post-cancel 3
            6.0   wake
            6.4   ready
            6.41  serve 4
        """),
    ),
    Case(
        name="h1-freed-within-the-grace",
        why="what another request frees within two seconds of the sleep is no incident; the life counts it",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            3.9   wake
            4.3   ready
            4.31  serve 1
            4.5   cleanup
        """),
        lives=({"freed_in_grace": 1},),
    ),
    Case(
        name="h1-freed-right-after-the-grace",
        why="two seconds and a bit: an incident",
        log=log("""
            0     start lv=5
            1     serve 0
            2.1   sleep
            2.15  post 1
            4.101 wake
            4.5   ready
            4.51  serve 1
        """),
        found=(found("hung-request", "confirmed", "recovered", task=1),),
        lives=({"freed_in_grace": 0},),
    ),
    # -- H2 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h2-cancel-asleep",
        why="the client of a task above the mark gives up while the server sleeps on",
        log=log(_BEGIN + "2.1 sleep\n9 cancel 2\n" + woken(20, 4)),
        found=(
            found("hung-request", "confirmed", "abandoned", task=2, log_opened_us=2_100_000, log_closed_us=9_000_000),
        ),
    ),
    Case(
        name="h2-first-task-of-the-process",
        why="nothing was asked of it before: every id is above the mark, 0 too",
        log=log("0 start\n1.3 sleep\n11.4 cancel 0\n"),
        found=(found("hung-request", "confirmed", "abandoned", task=0),),
    ),
    Case(
        name="h2-cancel-during-the-reload",
        why="the loop holds the queue's lock until the reload ends, so nobody who asked for this wake can cancel yet",
        log=log(_BEGIN + "2.1 sleep\n9 wake\n9.2 cancel 2\n9.4 ready\n9.41 serve 2\n9.51 serve 4\n"),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="h2-cancel-after-the-reload",
        why="an impatient client that woke the server properly gives up when the reload took too long",
        log=log(_BEGIN + "2.1 sleep\n9 wake\n9.4 ready\n9.401 cancel 2\n9.41 serve 2\n"),
    ),
    Case(
        name="h2-same-cancel-twice",
        why="one hang, not two",
        log=log(_BEGIN + "2.1 sleep\n9 cancel 2\n9.5 cancel 2\n" + woken(20, 4)),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="h2-cancel-at-the-mark",
        why="the id was seen before the sleep: a late cancel of a request that was served",
        log=log(_BEGIN + "1.2 serve 2\n2.3 sleep\n9 cancel 2\n" + woken(20, 4)),
    ),
    Case(
        name="h2-cancel-below-the-mark",
        why="the same for an older one",
        log=log(_BEGIN + "1.2 serve 7\n2.3 sleep\n9 cancel 3\n" + woken(20, 9)),
    ),
    Case(
        name="h2-cancel-awake",
        why="a client that gives up while the server is awake proves nothing",
        log=log(_BEGIN + "1.2 launch 2\n1.5 cancel 2\n1.6 release 2\n2.7 sleep\n" + woken(20, 4)),
    ),
    Case(
        name="h2-cancel-awake-never-launched",
        why="nor does it where the request was queued behind busy slots and never launched",
        log=log(_BEGIN + "1.2 launch 2\n1.5 cancel 4\n1.6 release 2\n2.7 sleep\n" + woken(20, 6)),
    ),
    Case(
        name="h2-cancelled-awake-and-again-asleep",
        why="the second cancel of a request that was cancelled awake: its id is the mark",
        log=log(_BEGIN + "1.2 launch 2\n1.5 cancel 4\n1.6 release 2\n2.7 sleep\n9 cancel 4\n" + woken(20, 6)),
    ),
    Case(
        name="h2-cancel-after-cleaning-up",
        why="a stop while asleep cancels what lay in the queue: it hung, and the stop lost it",
        log=log(_BEGIN + "2.1 sleep\n30 cleanup\n30.01 cancel 2\n"),
        found=(found("hung-request", "confirmed", "lost", task=2),),
        lives=({"exit": "planned"},),
    ),
    Case(
        name="h2-two-tasks-of-one-request",
        why="a request with several prompts has several tasks, each cancelled with a line of its own",
        log=log(_BEGIN + "2.1 sleep\n9 cancel 2\n9.0001 cancel 3\n" + woken(20, 5)),
        found=(
            found("hung-request", "confirmed", "abandoned", task=2),
            found("hung-request", "confirmed", "abandoned", task=3),
        ),
    ),
    Case(
        name="h2-freed-within-the-grace-and-cancelled-in-that-reload",
        why="another request woke the server within the grace; that its reload was too slow for the client is no hang",
        log=log(_BEGIN + "2.1 sleep\n3.5 wake\n9.0 cancel 2\n9.4 ready\n9.41 serve 2\n9.5 serve 4\n12 cleanup\n"),
        lives=({"freed_in_grace": 1},),
    ),
    Case(
        name="h2-cancelled-asleep-within-the-grace",
        why="nobody freed it: its client gave up while the server slept, soon as it was",
        log=log(_BEGIN + "2.1 sleep\n3.2 cancel 2\n3.5 wake\n3.9 ready\n3.91 serve 4\n"),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="h2-era-a-unstamped",
        why="the same lines without stamps",
        log=log(_BEGIN + "2.1 sleep\n9 cancel 2\n" + woken(20, 4), era="A"),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="h2-in-each-of-two-sleeps",
        why="each sleep has its own hang, with its own identity",
        log=log(_BEGIN + "2.1 sleep\n9 cancel 2\n" + woken(20, 4) + "21.5 sleep\n29 cancel 6\n" + woken(40, 8)),
        found=(
            found("hung-request", "confirmed", "abandoned", task=2, log_opened_us=2_100_000),
            found("hung-request", "confirmed", "abandoned", task=6, log_opened_us=21_500_000),
        ),
    ),
    # -- H3 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h3-format-asleep-era-a",
        why="`Chat format:` is printed between tokenizing and posting; its request was awake and is asleep",
        log=log(
            _BEGIN + "2.1 sleep\n2.2 format\n20 wake\n20.4 ready\n20.41 serve 2\n20.5 format\n20.51 serve 4\n", era="A"
        ),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h3-format-asleep-era-b",
        why="the same with stamps",
        log=log(
            "0 start\n1.0 format\n1 serve 0\n2.1 sleep\n2.2 format\n20 wake\n20.4 ready\n20.41 serve 2\n20.5 format\n20.51 serve 4\n",
            era="B",
        ),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h3-format-asleep-era-c-lv4",
        why="in era C it takes `-lv 4`; the arrival before it is the same request's",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  format
            1.02  serve 0
            2.0   arrive
            2.1   sleep
            2.2   format
            20    wake
            20.4  ready
            20.405 arrive
            20.406 format
            20.41 serve 2
            20.51 serve 4
        """),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h3-format-after-the-wake",
        why="a chat request that wakes the server prints its format after the reload",
        log=log(_BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n20.41 format\n20.42 serve 2\n", era="B"),
    ),
    Case(
        name="h3-format-and-cancel-are-one-request",
        why="format and cancel in one sleep speak of the same request",
        log=log(
            _BEGIN + "2.1 sleep\n2.2 format\n9 cancel 2\n20 wake\n20.4 ready\n20.41 format\n20.42 serve 4\n", era="A"
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    # -- H3b ----------------------------------------------------------------------------------------------------------
    Case(
        name="h3b-arrival-asleep",
        why="an arrival is printed behind the wake check: it passed it awake, and the server slept before it was queued",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.1 sleep\n2.1005 arrive\n9 cancel 2\n"),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="h3b-arrival-asleep-log-ends",
        why="nothing else is needed, but its fate is not known",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.1 sleep\n2.1005 arrive\n"),
        found=(found("hung-request", "confirmed", "unresolved", task=None),),
    ),
    # -- H4 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h4-with-h5",
        why="two launches and one arrival since the sleep, and another arrival just before it: the extra one is that",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 2
            20.51 serve 4
        """),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h4-launched-before-the-waker-arrives",
        why="the old task is launched first; at that moment no arrival since the sleep has been printed at all",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.41 serve 2
            20.5 arrive
            20.51 serve 4
        """),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h4-arrived-long-before",
        why="the extra launch's arrival is older than tokenizing takes, and a refusal is seldom printed: it could have been refused",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            1.2   arrive
            5.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 2
            20.51 serve 4
        """),
        found=(found("hung-request", "possible", "recovered", task=2),),
    ),
    Case(
        name="h4-nothing-waiting",
        why="one request with two prompts launches two tasks: with nobody waiting before the sleep it says little",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 2
            20.51 serve 3
        """),
        found=(found("hung-request", "possible", "recovered"),),
    ),
    Case(
        name="h4-children-of-one-request",
        why="`n` > 1 launches children, which say so",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 2
            20.411 child 3
            20.412 child 4
        """),
    ),
    Case(
        name="h4-embeddings-print-no-arrival",
        why="a server whose launches outnumber its arrivals while awake proves nothing by counting",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            1.1   serve 1
            1.2   serve 2
            1.95  arrive
            2.3   sleep
            20    wake
            20.4  ready
            20.41 serve 4
            20.51 serve 5
        """),
        found=(found("hung-request", "possible", "recovered", task=4),),
    ),
    Case(
        name="h4-several-prompts-long-after-the-wake",
        why="what lay in the queue runs right behind the wake; two prompts in one request minutes later prove nothing",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 3
            200   arrive
            200.1 launch 5
            200.2 launch 6
            201   release 5
            202   release 6
        """),
    ),
    Case(
        name="h4-idle-before-any-launch",
        why="the loop has looked into its queue after the wake and found nothing: the waker has two prompts",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.4001 idle
            20.405 arrive
            20.41 launch 3
            20.411 launch 4
            20.5  release 3
            20.6  release 4
        """),
    ),
    Case(
        name="h4-more-extras-than-waited",
        why="three launches, one arrival since the sleep and one before it: one request launched several, so nothing is sure",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 launch 2
            20.411 launch 4
            20.412 launch 5
        """),
        found=(
            found("hung-request", "possible", "recovered", task=2),
            found("hung-request", "possible", "recovered", task=4),
        ),
    ),
    Case(
        name="h4-waker-still-tokenizing",
        why="the old one runs while the request that woke the server is still read: its launch is the one too many",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.401 arrive
            20.41 serve 2
            21.6  serve 4
        """),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="h4-uncounted-requests-wake-it-each-day",
        why="once it is known that launches come without arrivals, a further one after a wake is not even possible",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.1   sleep
            100   wake
            100.4 ready
            100.41 serve 2
            101.5 sleep
            200   wake
            200.4 ready
            200.41 serve 4
            201.5 sleep
        """),
        found=(found("hung-request", "possible", "recovered", task=2),),
    ),
    Case(
        name="h4-equal-counts",
        why="as many launches as arrivals since the sleep: the one before it was refused",
        log=log("""
            0     start lv=4
            1     arrive
            1.01  serve 0
            2.05  arrive
            2.1   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 3
        """),
    ),
    Case(
        name="h4-refused-before-latest-first",
        why="of two arrivals before the sleep the older was refused and printed nothing; the launch is the later one's",
        log=log("""
            0     start lv=4
            1.0   arrive
            1.2   arrive
            1.21  serve 0
            4.3   sleep
            20    wake
            20.4  ready
            20.405 arrive
            20.41 serve 3
            22    cleanup
        """),
    ),
    # -- H5 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h5-arrival-just-before-log-ends",
        why="it may have hung, or been refused, which prints nothing: the log ends before either shows",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n"),
        found=(found("hung-request", "possible", "unresolved"),),
    ),
    Case(
        name="h5-arrival-just-before-then-awake",
        why="awake again and nothing extra launched: it was refused",
        log=log(
            "0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n20 wake\n20.4 ready\n20.405 arrive\n20.41 serve 3\n"
        ),
    ),
    Case(
        name="h5-arrival-long-before",
        why="older than two seconds it was most likely refused",
        log=log(
            "0 start lv=4\n1 arrive\n1.01 serve 0\n1.5 arrive\n9.1 sleep\n30 wake\n30.4 ready\n30.405 arrive\n30.41 serve 3\n"
        ),
    ),
    Case(
        name="h5-refused-with-a-line",
        why="a refusal that says so takes its arrival with it",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.06 refuse\n2.1 sleep\n"),
    ),
    Case(
        name="h5-then-planned-stop",
        why="a client that waits mostly leaves at a stop, and that would have been printed; nothing was",
        log=log("0 start lv=4\n1 arrive\n1.01 serve 0\n2.05 arrive\n2.1 sleep\n20 cleanup\n"),
        found=(found("hung-request", "possible", "lost"),),
    ),
    # -- H7 -----------------------------------------------------------------------------------------------------------
    Case(
        name="h7-two-launches-behind-a-wake",
        why="at the default verbosity an old one and two clients at once look the same",
        log=log(
            _BEGIN
            + "2.1 sleep\n20 wake\n20.4 ready\n20.41 launch 2\n20.42 release 2\n20.421 launch 4\n20.43 release 4\n"
        ),
        found=(found("hung-request", "possible", "recovered", task=2),),
    ),
    Case(
        name="h7-two-slots",
        why="with two slots both are launched at once",
        log=log(
            _BEGIN
            + "2.1 sleep\n20 wake\n20.4 ready\n20.41 launch 2\n20.411 launch 4\n20.43 release 4\n20.44 release 2\n"
        ),
        found=(found("hung-request", "possible", "recovered", task=2),),
    ),
    Case(
        name="h7-second-launch-later",
        why="the second came half a second after the first had left: a client of its own",
        log=log(
            _BEGIN
            + "2.1 sleep\n20 wake\n20.4 ready\n20.41 launch 2\n20.42 release 2\n20.92 launch 4\n20.93 release 4\n"
        ),
    ),
    Case(
        name="h7-within-the-grace",
        why="woken within two seconds: whatever waited was freed in time",
        log=log(
            _BEGIN + "2.1 sleep\n3.9 wake\n4.3 ready\n4.31 launch 2\n4.32 release 2\n4.321 launch 4\n4.33 release 4\n"
        ),
    ),
    # -- nothing ------------------------------------------------------------------------------------------------------
    Case(
        name="sleep-with-nothing-pending",
        why="what every idle server does",
        log=log(_BEGIN + "2.1 sleep\n" + woken(1000, 2) + "1001.7 sleep\n"),
        lives=({"sleeps": 2, "exit": None},),
    ),
    Case(
        name="slow-reload",
        why="a wake may take as long as the model needs",
        log=log(_BEGIN + "2.1 sleep\n20 wake\n80 ready\n80.1 serve 2\n"),
    ),
    Case(
        name="woken-by-a-metrics-scrape",
        why="a wake without any launch, then asleep again: a scrape or a tokenize request",
        log=log(_BEGIN + "2.1 sleep\n20 wake\n20.4 ready\n21.5 sleep\n40 wake\n40.4 ready\n41.5 sleep\n"),
        lives=({"sleeps": 3},),
    ),
    Case(
        name="long-prompt",
        why="half an hour of prompt processing is slow, not hung; past that it may be looked at",
        log=log(_BEGIN + "2 launch 2\n1700 release 2\n1701.1 sleep\n"),
    ),
    Case(
        name="deferred-behind-a-busy-slot",
        why="queued and deferred while slots are busy, launched afterwards",
        log=log("""
            0     start lv=5
            1     post 0
            1.01  launch 0
            1.5   post 1
            1.51  defer 1
            60    release 0
            60.1  launch 1
            60.2  release 1
            61.3  sleep
        """),
    ),
    Case(
        name="id-allocated-awake-posted-late",
        why="ids are shared with internal posts: one that was allocated early and cancelled asleep is not above the mark",
        log=log("""
            0     start lv=5
            1     post 0
            1.01  serve 0
            1.2   internal 9 1
            2.2   sleep
            9     cancel 8
        """),
    ),
]
