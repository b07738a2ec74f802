"""Speaks to a llama-server: where it listens and what it wants to be told (:mod:`.target`), one request and its answer
(:mod:`.exchange`), and the one question that disturbs nothing (:mod:`.props`).
"""
