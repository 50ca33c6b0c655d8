"""A worker whose model does what its texts say; run by its path, with the folder of the worker program.

``die`` kills the process, ``hang`` never answers, ``bad`` has no vector, ``fault`` raises, ``wait`` works for a while,
``net``, ``exec``, ``write`` and ``fork`` try what a worker may not. Every other text gets its length and whether it is
a query.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv.pop(1))
import worker_program


class Scripted:
    dimension = 4
    parallel = True

    def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        return [self._row(text, query) for text in texts]

    def _row(self, text: str, query: bool) -> list[float]:
        word = text.split()[0]
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "hang":
            time.sleep(3600)
        if word == "wait":
            time.sleep(0.3)
        if word == "fault":
            raise ValueError(text)
        if word == "bad":
            return [float("nan"), 0, 0, 0]
        if word == "print":
            print("noise among the frames", flush=True)
        attempt = {
            "net": lambda: socket.create_connection(("127.0.0.1", int(text.split()[1]))),
            "exec": lambda: subprocess.run(["true"]),
            "write": lambda: Path(text.split()[1]).write_bytes(b"x"),
            "fork": os.fork,
        }.get(word)
        if attempt is not None:
            try:
                attempt()
            except PermissionError:
                return [0, 0, 1, 0]
            return [0, 0, 0, 1]
        return [float(len(text)), float(query), 0, 0]


worker_program.ENGINES["scripted"] = Scripted
if __name__ == "__main__":
    if {"API_Key", "HOME", "PATH"} & os.environ.keys():
        raise SystemExit("a worker must not see the server's environment")
    worker_program.main(["scripted" if len(sys.argv) < 2 else sys.argv[1], *sys.argv[2:]])
