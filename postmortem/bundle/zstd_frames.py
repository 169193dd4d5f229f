"""Where zstd frames begin and end (RFC 8878, sections 3.1.1 and 3.1.2).

The library's reader ends quietly in the middle of a frame when the data do; whether they did must be known.
"""

from __future__ import annotations

from postmortem.bundle.streams import Source

_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50
_RLE_BLOCK = 1


class FrameTracker:
    """Hands the bytes of `source` on and follows frame and block headers, one step a block (up to 128 KiB)."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._skip = 0
        self._header = b""
        self._state = "magic"
        self._has_checksum = False
        self._is_lost = False

    @property
    def is_inside_frame(self) -> bool:
        """Whether the bytes handed on so far end within a frame."""
        return not self._is_lost and (self._state != "magic" or self._skip > 0 or self._header != b"")

    def read(self, count: int, /) -> bytes:
        data = self._source.read(count)
        at = 0
        while at < len(data) and not self._is_lost:
            if self._skip:
                step = min(self._skip, len(data) - at)
                self._skip -= step
                at += step
            else:
                step = min(self._header_bytes() - len(self._header), len(data) - at)
                self._header += data[at : at + step]
                at += step
                if len(self._header) == self._header_bytes():
                    self._advance()
        return data

    def _header_bytes(self) -> int:
        """Bytes of the header that is being collected."""
        return {"magic": 4, "skippable": 4, "descriptor": 1, "block": 3}[self._state]

    def _advance(self) -> None:
        value = int.from_bytes(self._header, "little")
        self._header = b""
        if self._state == "magic":
            self._state = "skippable" if value & ~0xF == _SKIPPABLE else "descriptor"
            # What follows a frame and begins no other is reported by the decoder itself.
            self._is_lost = self._state == "descriptor" and value != _MAGIC
        elif self._state == "skippable":
            self._state, self._skip = "magic", value
        elif self._state == "descriptor":
            self._has_checksum = bool(value & 0b100)
            is_single_segment = bool(value & 0b100000)
            content_size = (1 if is_single_segment else 0, 2, 4, 8)[value >> 6]
            self._skip = (0 if is_single_segment else 1) + (0, 1, 2, 4)[value & 0b11] + content_size
            self._state = "block"
        else:
            is_last, kind, size = value & 1, value >> 1 & 0b11, value >> 3
            self._skip = 1 if kind == _RLE_BLOCK else size
            if is_last:
                self._state = "magic"
                self._skip += 4 if self._has_checksum else 0
