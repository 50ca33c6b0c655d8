"""The hourly auth code (spec 7.3): the file format that plugins decode too."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

_PAIRS = ("[]", "{}", "<>", "（）", "《》", "【】")
_MAX_FILE_BYTES = 64 * 1024


def decode_auth_code(encoded: str) -> str | None:
    """The digits in ``code.bin``: digit *i* is the number of characters of bracket pair *i*; None if it has none."""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    counts = [sum(text.count(bracket) for bracket in pair) for pair in _PAIRS]
    return "".join(str(count) for count in counts) if any(counts) else None


class AuthCode:
    """Reads the code that the UserAuth plugin wrote into the home; read anew at each use, for it changes hourly."""

    def __init__(self, home: Path) -> None:
        self._path = home / "Plugin" / "UserAuth" / "code.bin"

    def __call__(self) -> str | None:
        """The code of now, or None when there is none that can be read (callers then refuse, B11)."""
        try:
            with self._path.open("rb") as file:
                return decode_auth_code(file.read(_MAX_FILE_BYTES).decode("ascii", "replace"))
        except OSError:
            return None
