"""What the database says of itself: whose it is, and in which form."""

from __future__ import annotations

APPLICATION = "sleepwatch"
SCHEMA_VERSION = 5
"""What this program reads and writes. Equal to the last migration's; here so that opening does not load them."""
