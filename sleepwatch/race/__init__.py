"""Drives a real llama-server into the race between its sleep and a request, and measures what happens.

A throwaway server is started on a free loopback port (:mod:`.server`), one request is placed against the moment it
falls asleep (:mod:`.trial`), what the client saw is judged (:mod:`.client`), and the offsets at which it matters are
searched coarse, then fine (:mod:`.window`). :mod:`.sweep` runs it all, :mod:`.report` says it, :mod:`.keep` keeps it.

The instrument recognises log lines by itself and shares nothing with the rules: it is what they are judged by.
"""
