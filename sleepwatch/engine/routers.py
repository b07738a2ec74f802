"""A router and its children: whose port and model it is, and what the router's words say of a child. Pure.

A router starts one server process for each model, and prints their lines behind ``[port] ``. Its log clock is its own.
"""

from __future__ import annotations

from sleepwatch.engine.lives import LifeState
from sleepwatch.engine.verdicts import Exit
from sleepwatch.model import Event


def port_at_router(port: str) -> str:
    """The port by which its own router knows a child; behind several routers a child's port is ``outer/inner``."""
    return port.rsplit("/", 1)[-1]


def model_at(router: LifeState, port: str) -> str:
    """The model that serves at a port; where the router was not seen to start it, the port itself."""
    return router.spawned.get(port, (port, None))[0]


def child_with_model(router: LifeState, model: str) -> LifeState | None:
    """The child that was last started for a model."""
    ports = _ports_of(router, model)
    return next((router.children[port] for port in reversed(ports) if port in router.children), None)


def is_being_stopped(child: LifeState) -> bool:
    """Is its router about to stop it?"""
    if child.parent is None or child.origin.port is None:
        return False
    spawned = child.parent.spawned.get(port_at_router(child.origin.port))
    return spawned is not None and spawned[0] in child.parent.stopping_models


def child_clock_us(router: LifeState, port: str, event: Event) -> int | None:
    """A moment on the router's clock, on the child's: the child's clock starts with its spawn."""
    spawn = router.spawned.get(port)
    if spawn is None or spawn[1] is None or event.clock_us is None:
        return None
    return event.clock_us - spawn[1]


def exit_of_child(router: LifeState, child: LifeState, event: Event) -> Exit:
    """How a child ended, by its router's word (``router.exited``) and what was told before."""
    model, status = str(event.fields["model"]), event.fields["status"]
    told = child.exit if child.exit is not None and child.exit.event is not None else None
    # The stock router reports 1 for every signal (subprocess.h); patched ones 128+n or -n.
    signal = status - 128 if 128 < status < 160 else -status if -65 < status < 0 else None
    end = Exit(
        event=event,
        by="router",
        signal=signal,
        status=status,
        planned=status == 0 or model in router.stopping_models,
        at_us=child_clock_us(router, _ports_of(router, model)[-1], event),
        sure=True,
        others=[],
    )
    if told is not None and told.event is not None:  # by the kernel, which knows the signal
        end.signal = told.signal if signal is None else signal
        end.others.append(told.event)
    return end


def take_over_requests(router: LifeState) -> None:
    """A router that dies owns the requests of its children."""
    for index, child in enumerate(router.children.values()):
        if child.ended or child.exit is not None:
            continue
        for number, request in enumerate(child.ledger.in_flight()):
            router.ledger.busy[-1 - index * 10_000 - number] = request


def _ports_of(router: LifeState, model: str) -> list[str]:
    return [port for port, (name, _) in router.spawned.items() if name == model]
