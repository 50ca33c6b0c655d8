"""What the soak holds against a home: half files, tasks that ran twice, results that were acknowledged and lost."""

from __future__ import annotations

from pathlib import Path

from bench.workshop import Workshop


def test_a_home_that_is_in_order_has_no_faults(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    (tmp_path / "VCPAsyncResults").mkdir()
    (tmp_path / "VCPAsyncResults" / "SoakLater-a.json").write_text('{"message": "a"}')
    (tmp_path / "acknowledged.log").write_text("a\n")
    (tmp_path / "effects.log").write_text("t\nu\n")
    assert workshop.faults() == []


def test_an_edit_saves_further_settings_in_the_place_of_the_old_ones(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    (tmp_path / "config.env").write_text("Key=k\nMemoryEmbedder=hashing\nVarSoak=soak-1-value\n")
    workshop.further["MemoryEmbedder"] = "auto"
    workshop._save(2)
    assert (tmp_path / "config.env").read_text().split() == ["Key=k", "MemoryEmbedder=auto", "VarSoak=soak-2-value"]


def test_half_files_double_runs_and_lost_results_are_faults(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    (tmp_path / "VCPTimedContacts" / ".running").mkdir(parents=True)
    (tmp_path / "VCPTimedContacts" / ".running" / "t.json").write_text('{"taskId": ')
    (tmp_path / "acknowledged.log").write_text("a\n")
    (tmp_path / "effects.log").write_text("t\nt\nu\n")
    half, twice, lost = workshop.faults()
    assert half.startswith("not whole: VCPTimedContacts/t.json")
    assert twice == "t ran 2 times"
    assert "a was acknowledged" in lost


def test_a_task_of_which_nothing_tells_is_lost_and_one_in_a_running_folder_still_waits(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    workshop.tasks |= {"t", "u", "v"}
    for folder, name in (
        ("VCPTimedResults", "t"),
        ("VCPTimedContacts/.running", "t"),
        ("VCPTimedContacts/failed", "v"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{name}.json").write_text(f'{{"taskId": "{name}"}}')
    assert workshop.lost_tasks() == ["u"]
    assert [path.name for path in workshop.waiting] == ["t.json"]
