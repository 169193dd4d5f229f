"""What hangs on a switch's ports."""
