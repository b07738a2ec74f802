"""Tells people of incidents: who is told what and when, in which words, and that it arrives.

``policy`` decides, ``message`` words it, ``outbox`` keeps it until it has arrived, ``courier`` starts the process that
sends it (``deliver``), and ``desk`` is what the daemon calls. docs/notify.md.
"""
