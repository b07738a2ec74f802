"""sleepwatch: finds requests that llama-server's sleep mode lost or crashed on."""

__version__ = "0.1.0"
