"""Where the tags of a note are asked for: settings in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_MAX_TOKENS = 40_000
DEFAULT_PROMPT_FILE = "TagMaster.txt"


@dataclass(frozen=True, slots=True)
class TagModel:
    """Where tags are asked for. ``base_url`` ends before ``/v1`` (D12)."""

    base_url: str
    key: str
    model: str
    max_tokens: int
    prompt_file: str
    proxy: str | None


def read_tag_model(environment: Mapping[str, str]) -> tuple[TagModel | None, str, tuple[str, ...]]:
    """The tag model, or why there is none, and warnings for stderr."""
    warnings: list[str] = []
    values = {name: environment.get(name, "").strip() for name in ("TagModel", "API_URL", "API_Key")}
    missing = [name for name, value in values.items() if not value]
    if missing:
        names = ", ".join(missing)
        return None, f"没有设置 {names} / not set: {names}", ()
    given = environment.get("TagModelMaxTokens", "").strip()
    max_tokens = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0
    if not max_tokens:
        max_tokens = DEFAULT_MAX_TOKENS
        if given:
            warnings.append(f"TagModelMaxTokens={given!r} is not a positive number; {max_tokens} is used")
    model = TagModel(
        base_url=values["API_URL"].rstrip("/").removesuffix("/v1").rstrip("/"),
        key=values["API_Key"],
        model=values["TagModel"],
        max_tokens=max_tokens,
        prompt_file=environment.get("TagModelPrompt", "").strip() or DEFAULT_PROMPT_FILE,
        proxy=environment.get("UpstreamProxy", "").strip() or None,
    )
    return model, "", tuple(warnings)
