"""Steps, checkpoints, latencies and stacks of a job, in tables and trees of their own."""
