"""What follows from the settings is made once, and anew when they are others."""

from __future__ import annotations

from pathlib import Path

from app.config.settings import Settings
from app.config.snapshot import load
from app.services.in_force import InForce


def test_what_follows_from_the_settings_is_made_once_for_each_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.env").write_text("Key=k\n", encoding="utf-8")
    in_force = InForce(load(tmp_path, {}), "k")
    made: list[Settings] = []

    def make(settings: Settings) -> int:
        made.append(settings)
        return settings.node_max_frame_mb

    of_now = in_force.following(make)
    assert made == []
    assert of_now() == of_now() == in_force.settings.node_max_frame_mb
    assert made == [in_force.settings]

    (tmp_path / "config.env").write_text("Key=k\nNodeMaxFrameMB=7\n", encoding="utf-8")
    in_force.config = load(tmp_path, {})
    assert of_now() == of_now() == 7
    assert len(made) == 2
