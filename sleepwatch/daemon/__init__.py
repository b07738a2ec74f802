"""The daemon: follows logs for months, keeps what it finds, tells of it, and says when it cannot see."""
