"""postmortem: tells what killed a GPU training job, from the logs it left behind."""

__version__ = "0.1.0"
