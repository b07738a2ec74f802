"""What runs on this host, read without asking any server: processes, units, presets, containers, and where logs go.

Everything here reads files below ``/proc`` and ``/etc`` or runs ``systemctl`` and a container engine's ``inspect``;
nothing ever opens a connection to a server's port. Roots and the runner of commands are parameters, so that a test, or
a copy of another machine's files, is read the same way.
"""
