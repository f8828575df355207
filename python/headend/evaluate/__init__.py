"""What RFC 9743 asks of a new congestion control, measured: `headend evaluate`, or `python -m headend.evaluate`."""
