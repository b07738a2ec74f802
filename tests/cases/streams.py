"""Shapes of files: carriage returns, damage, colours, restarts, excerpts, several writers in one file."""

from __future__ import annotations

from tests.cases.case import Case, found
from tests.cases.hangs import woken
from tests.cases.made import coloured, joined, journal, log

HANG = "0 start\n1 serve 0\n2.1 sleep\n9 cancel 2\n20 wake\n20.4 ready\n20.41 serve 4\n"
HUNG = (found("hung-request", "confirmed", "abandoned", task=2),)
PLAIN = log(HANG)


CASES = [
    Case(name="plain", why="the log all these are made of", log=PLAIN, found=HUNG),
    Case(name="crlf", why="carriage returns of a terminal or of Windows", log=log(HANG, end="\r\n"), found=HUNG),
    Case(
        name="colours",
        why="`--log-colors on`: escapes around stamp and level, resets at the next line's start",
        log=coloured(PLAIN),
        found=HUNG,
    ),
    Case(name="colours-crlf", why="both", log=coloured(PLAIN).replace(b"\n", b"\r\n"), found=HUNG),
    Case(name="era-b", why="the lines of era B", log=log(HANG, era="B"), found=HUNG),
    Case(name="era-a", why="and of era A", log=log(HANG, era="A"), found=HUNG),
    Case(name="era-a-crlf", why="and those of Windows", log=log(HANG, era="A", end="\r\n"), found=HUNG),
    Case(
        name="nul-and-invalid-utf-8",
        why="byte tokens and torn blocks leave any bytes between the lines",
        log=PLAIN.replace(b"0.09.000.000 W", b"\0\0\0\xff\xfe\x80token \xc3\x28\n\n0.09.000.000 W"),
        found=HUNG,
    ),
    Case(
        name="nul-block-of-a-crashed-machine",
        why="a file system that lost the last blocks fills them with zeros",
        log=PLAIN + b"\0" * 4096 + b"\n" + log("0 start n=1\n1 serve 0\n").replace(b"0.00.002.000", b"0.00.002.901"),
        found=(*HUNG, found("crash", "possible", "restarted")),
    ),
    Case(name="truncated-last-line", why="cut in the middle of its last line", log=PLAIN[:-30], found=HUNG),
    Case(name="no-newline-at-the-end", why="cut right before its last line feed", log=PLAIN[:-1], found=HUNG),
    Case(
        name="torn-sleep-line",
        why="the dying server's last write stops in its stamp, and the shell's line follows on",
        log=log("0 start\n1 serve 0\n2.1 sleep\n")
        + b"0.02.1/opt/run.sh: line 3: 1377 Segmentation fault      (core dumped) llama-server --sleep-idle-seconds 1\n"
        + log("0 start\n1 serve 0\n").replace(b"0.00.002.000", b"0.00.002.901"),
        found=(found("sleep-crash", "probable", "restarted", signal=11),),
    ),
    Case(
        name="glued-line",
        why="the one text that the server prints without a line feed stands before a record",
        log=log("0 start lv=5\n1 post 0\n1.01 serve 0\n2.1 sleep\n")
        + b"No parser definition detected, assuming pure content parser.0.02.150.000 D que          post: new task, id = 2/1, front = 0\n"
        + log("20 wake\n20.4 ready\n20.41 serve 2\n20.5 post 4\n20.51 serve 4\n"),
        found=(found("hung-request", "confirmed", "recovered", task=2),),
    ),
    Case(
        name="glued-elsewhere",
        why="behind any other text a record is no record",
        log=log("0 start lv=5\n1 post 0\n1.01 serve 0\n2.1 sleep\n")
        + b"I say: 0.02.150.000 D que          post: new task, id = 2/1, front = 0\n"
        + log("20 wake\n20.4 ready\n20.41 post 4\n20.51 serve 4\n"),
    ),
    Case(
        name="restart-without-a-supervisor",
        why="one file, two lives, no other writer's line: the clock fell, and a stop was printed",
        log=log(HANG + "30 cleanup\n" + HANG),
        found=HUNG * 2,
        lives=({"exit": "planned"}, {"exit": None}),
    ),
    Case(
        name="restart-without-a-start-marker",
        why="the first lines of the second life were rotated away: its clock is below a minute and far below the last",
        log=log(
            "0 start\n300 serve 0\n301.1 sleep\n309 cancel 2\n" + woken(320, 4) + "400 serve 6\n"
            "3 serve 0\n4.1 sleep\n8 cancel 2\n"
        ),
        found=(*HUNG, found("hung-request", "confirmed", "abandoned", task=2), found("crash", "possible", "restarted")),
    ),
    Case(
        name="stepped-clock",
        why="the system clock was set back half an hour: same ids, no start marker, still above a minute: no restart",
        log=log(
            "0 start\n1 serve 0\n4000 serve 2\n2200 serve 4\n2201.1 sleep\n2300 wake\n2300.4 ready\n2300.41 serve 6\n"
        ),
        lives=({"requests": 4},),
    ),
    Case(
        name="stepped-clock-a-little",
        why="a step of a third of a second between two lines of a sleep",
        log=log("0 start\n1 serve 0\n402.1 enter\n401.8 entered\n409 cancel 2\n"),
        found=(found("hung-request", "confirmed", "abandoned", task=2),),
    ),
    Case(
        name="begins-inside-a-sleep",
        why="the excerpt's first line is the wake: what lay in the queue is not known",
        log=log("20 wake\n20.4 ready\n20.41 serve 8\n20.45 serve 9\n21.6 sleep\n"),
    ),
    Case(
        name="begins-inside-a-sleep-with-a-cancel",
        why="no sleep was seen to begin: a cancel proves nothing",
        log=log("19 cancel 7\n20 wake\n20.2 cancel 8\n20.4 ready\n20.41 serve 8\n21.6 sleep\n"),
    ),
    Case(
        name="begins-inside-a-request",
        why="its launch is above the excerpt",
        log=log("19 release 7\n20 launch 9\n21 release 9\n22.1 sleep\n40 wake\n40.4 ready\n40.41 serve 11\n"),
    ),
    Case(
        name="ends-inside-a-request",
        why="the excerpt ends before the release",
        log=log("0 start\n1 serve 0\n2 launch 2\n"),
        lives=({"exit": None},),
    ),
    Case(
        name="ends-inside-a-sleep",
        why="asleep at its end, like any idle server",
        log=log("0 start\n1 serve 0\n2.1 sleep\n"),
        lives=({"exit": None},),
    ),
    Case(
        name="a-wake-line-is-missing",
        why="a launch while asleep: lines are missing, so nothing in that sleep is certain",
        log=log(
            "0 start lv=5\n1 post 0\n1.01 serve 0\n2.1 sleep\n20.41 post 4\n20.42 serve 4\n20.5 post 6\n20.51 serve 6\n"
        ),
    ),
    Case(
        name="two-servers-in-one-file",
        why="two processes started by one script, without a carrier: which line is whose cannot be told",
        log=log("""
            0.002  init
            0.005  verbosity 3
            0.008  load
            0.0523 | srv  llama_server: initializing ...
            0.054  verbosity 3
            0.300  ready
            0.301  loaded
            0.302  listen 8080
            0.311  ready
            0.312  loaded
            0.313  listen 8081
            1.0    launch 0
            1.002  launch 0
            1.1    release 0
            1.2    launch 1
            1.3    release 0
            2.1    enter
            2.1003 entered
            3.0    cancel 2
            3.4    release 1
            3.5    launch 3
            6.0    cancel 5
            7.0    release 3
            9.0    wake
            9.4    ready
        """),
        found=(
            found("crash", "possible", "restarted"),
            found("hung-request", "possible", "abandoned", task=2),
        ),
    ),
    Case(
        name="two-servers-far-apart-in-one-file",
        why="one started a thousand seconds after the other: of two clocks only the new one is followed, and rightly",
        log=log("""
            0     start
            1     serve 0
            1000  serve 2
            0     start
            1002  sleep
            1.9   serve 0
            1004  wake
            1004.4 ready
            2.2   serve 2
            1005  serve 6
            3.4   sleep
            1005.5 cancel 8
            13    cancel 4
            1020  sleep
        """),
        found=(
            found("hung-request", "confirmed", "abandoned", task=4, log_opened_us=3_400_037),
            found("crash", "possible", "restarted"),
        ),
    ),
    Case(
        name="two-servers-at-lv4-in-one-file",
        why="what arrives while one of them sleeps is the other's: the next sleep line comes without a wake between",
        log=log("""
            0.002  init
            0.0023 | srv  llama_server: initializing ...
            0.3    ready
            0.301  loaded
            0.302  listen 8080
            0.31   ready
            0.311  loaded
            0.312  listen 8081
            1.0    arrive
            1.001  serve 0
            1.2    arrive
            1.201  serve 0
            2.1    sleep
            2.15   arrive
            2.16   arrive
            2.2    sleep
            9.0    wake
            9.4    ready
            9.5    arrive
            9.501  serve 4
        """),
        found=(found("crash", "possible", "restarted"),),
    ),
    Case(
        name="two-servers-in-one-journal",
        why="a journal tells them apart by pid",
        log=joined(
            journal(
                "0 start\n1 serve 0\n2.1 sleep\n3.2 cancel 2\n20 wake\n20.4 ready\n20.41 serve 4\n",
                pid=700,
                unit="llama-a",
            ),
            journal(
                "0 start port=8081\n1 serve 0\n1.5 launch 5\n1.6 cancel 5\n3 release 5\n4.1 sleep\n",
                pid=800,
                unit="llama-b",
            ),
        ),
        found=(found("hung-request", "confirmed", "abandoned", task=2, server="llama-a.service"),),
    ),
    Case(
        name="sleep-mode-rst",
        why="the process starts itself anew at sleep: the clock begins again, the pid stays, it is the same life",
        log=joined(
            journal("0 start\n1 serve 0\n62.1 sleep\n", pid=700)
            + journal("0.1 | x\n0 start\n1 serve 0\n2.2 sleep\n", pid=700, unit=None, started=63)
        ),
        lives=({"exit": None},),
    ),
    Case(
        name="pid-used-again",
        why="the same pid with a clean stop between is a new life",
        log=joined(
            journal("0 start\n1 serve 0\n62.1 cleanup\n", pid=700)
            + journal("0.0001 | x\n0.001 start\n1 serve 0\n2.2 sleep\n", pid=700, unit=None, started=70)
        ),
        lives=({"exit": "planned"}, {"exit": None}),
    ),
    Case(name="empty", why="nothing in, nothing out", log=b"", lives=()),
    Case(name="only-line-feeds", why="nor from these", log=b"\n\r\n\n" * 50, lives=()),
    Case(name="only-zeros", why="nor from these", log=b"\0" * 70_000, lives=()),
    Case(
        name="a-byte-order-mark", why="an editor's mark before the first line", log=b"\xef\xbb\xbf" + PLAIN, found=HUNG
    ),
]
