"""What a reading found, for machines (one JSON document, or one incident a line) and for people (plain text)."""

from __future__ import annotations

from sleepwatch.report.blindness import blindness
from sleepwatch.report.document import SCHEMA_VERSION, document, incident_entry, json_text, jsonl
from sleepwatch.report.places import Opener, line_numbers, raw_texts
from sleepwatch.report.table import block, table

__all__ = [
    "SCHEMA_VERSION",
    "Opener",
    "blindness",
    "block",
    "document",
    "incident_entry",
    "json_text",
    "jsonl",
    "line_numbers",
    "raw_texts",
    "table",
]
