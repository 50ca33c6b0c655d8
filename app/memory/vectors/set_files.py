"""The folder of matrices: which files belong to which set."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection
from pathlib import Path

_OURS = re.compile(r"([0-9]+)\.(f32|ivf|marks\.npz)")
BUILDING_PREFIX = ".building-"


def index_paths(folder: Path, set_id: int) -> tuple[Path, Path]:
    """The approximate index of a set, and the marks of its rows."""
    return folder / f"{set_id}.ivf", folder / f"{set_id}.marks.npz"


def remove_set(folder: Path, set_id: int) -> None:
    """Remove the files of a set. Blocking."""
    for path in (folder / f"{set_id}.f32", *index_paths(folder, set_id)):
        path.unlink(missing_ok=True)


def remove_strays(folder: Path, sets: Collection[int]) -> None:
    """Remove files of sets that are gone, and what a killed process left half-built. Blocking.

    For the start, when nothing is being built; files of other names are not touched.
    """
    with contextlib.suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            named = _OURS.fullmatch(path.name)
            if named is not None and int(named[1]) not in sets:
                path.unlink(missing_ok=True)
            elif path.name.startswith(BUILDING_PREFIX) and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
