"""The hourly auth code (spec 7.3): the file format that plugins decode too."""

from __future__ import annotations

import base64
import binascii
import random
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small

CODE_FILE = Path("Plugin") / "UserAuth" / "code.bin"
"""Where the code lies below the home, whichever UserAuth plugin writes it."""

_PAIRS = ("[]", "{}", "<>", "（）", "《》", "【】")
_LOWEST, _HIGHEST = 100_000, 999_999
_MAX_FILE_BYTES = 64 * 1024


def decode_auth_code(encoded: str) -> str | None:
    """The digits in ``code.bin``: digit *i* is the number of characters of bracket pair *i*; None if it has none."""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    counts = [sum(text.count(bracket) for bracket in pair) for pair in _PAIRS]
    return "".join(str(count) for count in counts) if any(counts) else None


def encode_auth_code(code: int, chance: random.Random) -> str:
    """The content of ``code.bin`` for a code of six digits: digit *i* says how many brackets of pair *i*; shuffled."""
    digits = f"{code:06d}"
    brackets = [chance.choice(pair) for digit, pair in zip(digits, _PAIRS, strict=True) for _ in range(int(digit))]
    chance.shuffle(brackets)
    return base64.b64encode("".join(brackets).encode()).decode("ascii")


def write_auth_code(home: Path, chance: random.Random | None = None) -> Path:
    """Put a new code into the home, readable to its owner only; the path of the file. Raises OSError.

    ``chance`` is the system's cryptographic source unless a test brings another (B11).
    """
    chance = chance or random.SystemRandom()
    path = home / CODE_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, encode_auth_code(chance.randint(_LOWEST, _HIGHEST), chance).encode("ascii"), mode=0o600)
    return path


class AuthCode:
    """Reads the code that the UserAuth plugin wrote into the home; read anew at each use, for it changes hourly."""

    def __init__(self, home: Path) -> None:
        self._path = home / CODE_FILE

    def __call__(self) -> str | None:
        """The code of now, or None when there is none that can be read (callers then refuse, B11)."""
        try:
            return decode_auth_code(read_small(self._path, _MAX_FILE_BYTES).decode("ascii", "replace"))
        except OSError:
            return None
