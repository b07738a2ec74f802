"""Frees a hung request: a completion of one token wakes the server, and what lay in its queue runs with it.

A client-side mitigation of a defect in the server, not its fix. What is sent (:mod:`.request`), one wake from the look
at ``/props`` to what came of it (:mod:`.attempt`), the daemon's answer to a hang (:mod:`.responder`), and the same in
front of a real request (:mod:`.warm`).
"""
