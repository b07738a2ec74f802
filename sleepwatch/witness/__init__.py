"""Witnesses: what the kernel and the server itself know where the log says nothing. None of them wakes a server."""
