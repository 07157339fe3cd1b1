"""Log lines that a person and grep both read: ``time level node event key=value … job=0x…``."""

from __future__ import annotations

import logging
import sys


def short(value: bytes | str | None) -> str:
    """The first 4 bytes of a hash or address as hex; ids in log lines."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else "0x" + value.hex()
    return text[:10]


class NodeLog:
    """A named logger whose lines are an event and its fields. Hashes are shortened, None is left out."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"verillm.{name}")

    def _line(self, event: str, fields: dict[str, object]) -> str:
        parts = [event]
        for key, value in fields.items():
            if value is None:
                continue
            text = short(value) if isinstance(value, bytes) else str(value)
            parts.append(f"{key}={text!r}" if " " in text else f"{key}={text}")
        return " ".join(parts)

    def debug(self, event: str, **fields: object) -> None:
        self._logger.debug(self._line(event, fields))

    def info(self, event: str, **fields: object) -> None:
        self._logger.info(self._line(event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self._logger.warning(self._line(event, fields))

    def exception(self, event: str, **fields: object) -> None:
        """An error line with the traceback of the exception in flight."""
        self._logger.exception(self._line(event, fields))


def setup_logging(level: str = "INFO") -> None:
    """Send the node's lines to stderr. ``level`` is a name from ``logging``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger("verillm")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
