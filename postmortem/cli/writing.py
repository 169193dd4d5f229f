"""The outputs of one run: all of them get into place at the end, or none does; redacted ones are searched for names first."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from postmortem import outputs

if TYPE_CHECKING:
    from postmortem.redaction import Masks


class Written:
    """A context manager: files are written beside their names and moved when the block ends well.

    With `masks` each file is read again as it was written, and a name in any of them raises RedactionError: then none is left.
    """

    def __init__(self, masks: Masks | None) -> None:
        self._masks = masks
        self._stack = ExitStack()

    def __enter__(self) -> Written:
        self._stack.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._stack.__exit__(kind, error, trace)

    def page(self, target: Path, page: str) -> None:
        """Write an HTML page."""
        path = self._write(target, page)
        if self._masks is not None:
            from postmortem.redaction import check_html

            check_html(path.read_text(encoding="utf-8"), self._masks, str(target))

    def text(self, target: Path, text: str) -> None:
        """Write a text file."""
        path = self._write(target, text)
        if self._masks is not None:
            from postmortem.redaction import check_text

            check_text(path.read_text(encoding="utf-8"), self._masks, str(target))

    def database(self, target: Path, source: Path) -> None:
        """Copy a closed database."""
        path = self._stack.enter_context(outputs.partial(target))
        path.write_bytes(source.read_bytes())
        if self._masks is not None:
            from postmortem.redaction import check_database

            check_database(path, self._masks)

    def map(self, target: Path) -> None:
        """Write the map of the masks, readable for its owner alone."""
        assert self._masks is not None
        path = self._stack.enter_context(outputs.partial(target))
        path.touch(mode=0o600)
        path.write_text(self._masks.to_json(), encoding="utf-8")

    def json(self, document: str) -> str:
        """A document for stdout, searched for names."""
        if self._masks is not None:
            from postmortem.redaction import check_json

            check_json(document, self._masks, "the JSON document")
        return document

    def shown(self, text: str) -> str:
        """A text for stdout, searched for names."""
        if self._masks is not None:
            from postmortem.redaction import check_text

            check_text(text, self._masks, "the summary")
        return text

    def _write(self, target: Path, text: str) -> Path:
        path = self._stack.enter_context(outputs.partial(target))
        path.write_text(text, encoding="utf-8", errors="replace")
        return path
