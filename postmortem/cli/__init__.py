"""The command line: one small module per verb; heavy libraries are imported inside the commands."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
from contextlib import suppress
from typing import Final

import click

from postmortem import __version__
from postmortem.cli.examples import examples
from postmortem.errors import PostmortemError

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


class _Verbs(click.Group):
    """Loads a verb's module only when it is asked for, so that --help stays cheap."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["analyze", "query", "shell", "export", "explain", "formats", "config", "completion"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        from importlib import import_module

        command = import_module(f"postmortem.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "postmortem analyze logs/",
        "postmortem explain xid 79",
        "postmortem COMMAND --help",
    ),
)
@click.version_option(__version__, prog_name="postmortem")
def cli() -> None:
    """What killed the training job: reads the logs it left behind.

    `postmortem analyze BUNDLE` says what died first, where, why, with the lines that prove it, and what it cost.
    """


def main() -> None:
    """Entry point: errors meant for the user become one sentence on stderr and an exit code."""
    # Work is spread over processes, one batch each: threads of polars inside them only wait for each other, for seconds on a busy machine.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # Those of numpy's linear algebra, of which nothing is used, only have to be started.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Little of what one run makes is garbage in cycles; looking for it through all modules and definitions again and again costs 0.2 s.
    gc.set_threshold(300_000, 20, 100)
    # Nor is it collected when the process ends, which takes as long again.
    atexit.register(gc.freeze)
    try:
        code = cli.main(standalone_mode=False)
    except PostmortemError as error:
        from postmortem.report.figures import visible

        # A sentence may quote what stands in a file.
        click.echo(f"postmortem: {visible(str(error))}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("postmortem: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing left to say, and no traceback either.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        with suppress(OSError, ValueError):
            # What stdout still holds would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"postmortem: the output cannot be written: {error.strerror}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
