"""The one base error, so that every failure a person meets says what, where and what to do."""

from __future__ import annotations


class SleepwatchError(Exception):
    """A failure with a sentence for the person and, where there is one, a hint what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class SourceError(SleepwatchError):
    """A file, directory, archive or journal that cannot be read."""


class RuleError(SleepwatchError):
    """A rule file that is wrong: the message names file, line where known, key, and what to write instead."""


class StoreError(SleepwatchError):
    """A database that cannot be opened, is newer than this program, or cannot be written."""


def os_words(error: OSError) -> str:
    """What the operating system says went wrong, as a part of a sentence: ``permission denied``."""
    return (error.strerror or str(error)).lower()
