"""What collectives did: flight-recorder dumps, NCCL's own traces, status and topology."""
