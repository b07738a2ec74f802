"""What one look at a port's connections costs, with few and many of them, there and beside it.

``python tests/bench/snapshot.py`` makes real connections on the loopback address and asks the kernel for those of one
port; it ends with status 1 if any connection came to the server from the look itself.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sleepwatch.witness.sockets import connections, pending

LOOKS = 100
MANY = 5_000


class Port:
    """A listener with a number of clients, of which one waits for an answer."""

    def __init__(self, count: int, stack: contextlib.ExitStack) -> None:
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
        self.number: int = self.listener.getsockname()[1]
        self.listener.settimeout(10)
        for _ in range(count):
            self.client = stack.enter_context(socket.create_connection(("127.0.0.1", self.number)))
            self.server = stack.enter_context(self.listener.accept()[0])
        self.client.sendall(b"x" * 1_000)
        self.server.recv(1_000, socket.MSG_WAITALL)

    def is_untouched(self) -> bool:
        """Nobody but the clients made above has connected."""
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.listener.accept()
            return False
        return True


def measure(port: int, found: int) -> list[float]:
    """Milliseconds of each look at this port, which must find so many connections, one of them pending."""
    took = []
    for _ in range(LOOKS):
        begin = time.perf_counter()
        seen = connections(port)
        waiting = pending(seen, asleep_ms=0)
        took.append((time.perf_counter() - begin) * 1e3)
        assert (len(seen), len(waiting)) == (found, 1)
    return took


def main() -> int:
    """Measure and print the table."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * MANY), hard))
    print(f"{'connections to the port':>24} {'beside it':>10} {'median':>9} {'p99':>9}   ms, {LOOKS} looks")
    untouched = True
    for here, beside in ((10, 0), (10, MANY), (MANY, 0)):
        with contextlib.ExitStack() as stack:
            if beside:
                Port(beside, stack)
            port = Port(here, stack)
            took = sorted(measure(port.number, here))
            untouched = untouched and port.is_untouched()
            print(f"{here:>24} {beside:>10} {statistics.median(took):>9.2f} {took[int(0.99 * LOOKS)]:>9.2f}")
    print("connections that came from the looks: none" if untouched else "A LOOK CONNECTED TO THE SERVER")
    return 0 if untouched else 1


if __name__ == "__main__":
    sys.exit(main())
