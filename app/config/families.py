"""Families of keys whose order carries meaning: variables, model texts, detectors (spec vcp-core 2.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.config.problem import Complaint

_SAR_MODEL = re.compile(r"SarModel([0-9]+)")
_DETECTOR = re.compile(r"(Super)?Detector([0-9]+)")
_SECOND_HALF = re.compile(r"(Sar)Prompt([0-9]+)|((?:Super)?Detector)_Output([0-9]+)")


@dataclass(frozen=True, slots=True)
class SarRule:
    """Text for certain models: ``{{SarPrompt<number>}}`` is ``prompt`` when the model is one of ``models``.

    ``models`` are as written in the file, trimmed; they are compared without regard to case. ``prompt`` may be the name
    of a ``.txt`` file.
    """

    number: str
    models: tuple[str, ...]
    prompt: str


@dataclass(frozen=True, slots=True)
class DetectorRule:
    """Replace every ``pattern``, literally, by ``output``; ``name`` is the key that holds the pattern."""

    name: str
    pattern: str
    output: str


@dataclass(frozen=True, slots=True)
class Families:
    """All families, each in environment order: variables of the operating system first, then the order of the file.

    ``variables`` are all keys that begin with ``Tar`` or ``Var``, blank ones included; ``agents`` the legacy ``Agent*``
    entries, kept readable, that ``agent_map.json`` has replaced.
    """

    variables: tuple[tuple[str, str], ...] = ()
    sar: tuple[SarRule, ...] = ()
    detectors: tuple[DetectorRule, ...] = ()
    super_detectors: tuple[DetectorRule, ...] = ()
    agents: tuple[tuple[str, str], ...] = ()


def collect(environ: Mapping[str, str]) -> tuple[Families, tuple[Complaint, ...]]:
    """The families of an ordered environment, and complaints about rules of which one half is missing.

    A detector needs a pattern and a non-empty output, a model text needs models and a prompt; others are not loaded.
    """
    sar: list[SarRule] = []
    detectors: dict[str, list[DetectorRule]] = {"": [], "Super": []}
    complaints: list[Complaint] = []
    for key, value in environ.items():
        if not value:
            continue
        if match := _SAR_MODEL.fullmatch(key):
            other, models = f"SarPrompt{match[1]}", tuple(name.strip() for name in value.split(",") if name.strip())
            prompt = environ.get(other, "")
            if not models:
                continue  # the text's own key is told about
            if prompt:
                sar.append(SarRule(match[1], models, prompt))
            else:
                complaints.append(Complaint(key, f"is not used: {other} is not set or empty"))
        elif match := _DETECTOR.fullmatch(key):
            kind = match[1] or ""
            other = f"{kind}Detector_Output{match[2]}"
            output = environ.get(other, "")
            if output:
                detectors[kind].append(DetectorRule(key, value, output))
            else:
                complaints.append(Complaint(key, f"is not used: {other} is not set or empty"))
        elif match := _SECOND_HALF.fullmatch(key):
            other = f"SarModel{match[2]}" if match[1] else f"{match[3]}{match[4]}"
            first = environ.get(other, "")
            if not (first.strip(" ,") if match[1] else first):
                complaints.append(Complaint(key, f"is not used: {other} is not set or empty"))
    return (
        Families(
            variables=_beginning_with(environ, ("Tar", "Var")),
            sar=tuple(sar),
            detectors=tuple(detectors[""]),
            super_detectors=tuple(detectors["Super"]),
            agents=_beginning_with(environ, ("Agent",)),
        ),
        tuple(complaints),
    )


def _beginning_with(environ: Mapping[str, str], prefixes: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in environ.items() if key.startswith(prefixes))
