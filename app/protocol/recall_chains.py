"""What stands behind 元思考 in ``[[VCP元思考…]]``: chain, numbers of fragments, switches (memory.md 5.5, C1 to C7)."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_CHAIN = "default"
AUTO_THRESHOLD = 0.65

MAX_STAGES = 50
MAX_K = 50
MAX_NAMES = 50

_PIECES = re.compile(r"([:：]+)([^:：]*)")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ChainCall:
    """One thinking chain as the prompt asks for it.

    ``ks`` are the numbers of fragments by stage; empty: the chain's own. With ``auto`` the chain is chosen by the
    question among all (``only`` these, ``without`` those), from a similarity of ``threshold`` on.
    """

    chain: str = DEFAULT_CHAIN
    ks: tuple[int, ...] = ()
    group: bool = False
    rerank: bool = False
    auto: bool = False
    threshold: float = AUTO_THRESHOLD
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def read_chain_call(text: str) -> tuple[ChainCall, tuple[str, ...]]:
    """What the pieces between colons say, and those that nobody knows. Never raises.

    A piece is a sequence of numbers when most of its parts between hyphens are whole numbers, so ``3-x-0-2`` is one
    (what is no positive number counts as 1) and the chain ``my-theme`` is none. Behind ``Auto`` and a single colon
    stand its threshold and its names: ``::Auto:0.65:Coding,investigation``, ``::Auto:!disco``.
    """
    chain = ""
    ks: tuple[int, ...] = ()
    group = rerank = auto = behind_auto = False
    threshold = AUTO_THRESHOLD
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    unknown: list[str] = []
    for match in _PIECES.finditer(text):
        piece = match[2].strip()
        if not piece:
            continue
        folded = piece.casefold()
        of_auto = behind_auto and len(match[1]) == 1
        behind_auto = of_auto or folded == "auto"
        if folded == "auto":
            auto = True
        elif folded == "group":
            group = True
        elif folded == "rerank":
            rerank = True
        elif of_auto and _NUMBER.fullmatch(piece):
            threshold = min(1.0, float(piece))
        elif (numbers := _numbers(piece)) is not None:
            ks = numbers
        elif of_auto and piece.startswith("!"):
            without = _names(piece[1:])
        elif of_auto:
            only = _names(piece)
        elif not auto and not chain:
            chain = piece
        else:
            unknown.append(piece)
    call = ChainCall(
        DEFAULT_CHAIN if auto else chain or DEFAULT_CHAIN, ks, group, rerank, auto, threshold, only, without
    )
    return call, tuple(piece[:80] for piece in unknown[:20])


def _numbers(piece: str) -> tuple[int, ...] | None:
    parts = [part.strip() for part in piece.split("-")]
    whole = sum(part.isascii() and part.isdigit() for part in parts)
    if 2 * whole <= len(parts):
        return None
    return tuple(_k(part) for part in parts[:MAX_STAGES])


def _k(part: str) -> int:
    if not (part.isascii() and part.isdigit()):
        return 1
    return max(1, min(MAX_K, int(part[:9])))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in re.split("[,，]", text) if name.strip())[:MAX_NAMES]
