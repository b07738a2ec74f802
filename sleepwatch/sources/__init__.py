"""Sources: where bytes come from."""
