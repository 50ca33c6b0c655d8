"""The command that the conformance tool starts: hands its scenario on to ``client.py``, where the client is.

Imports little, since it starts a hundred times.
"""

import os
import socket
import sys


def main() -> int:
    place, url = sys.argv[1:3]
    quoted = [_quoted(os.environ.get(f"MCP_CONFORMANCE_{name}", "")) for name in ("SCENARIO", "CONTEXT")]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place)
        line = f'{{"url": {_quoted(url)}, "scenario": {quoted[0]}, "context": {quoted[1]}}}\n'
        client.sendall(line.encode())
        answer = client.makefile(encoding="utf-8").readline().strip()
    sys.stderr.write(f"{answer}\n")
    return int(answer != "[]")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text)


if __name__ == "__main__":
    sys.exit(main())
