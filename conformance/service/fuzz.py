"""Sends generated requests to the training service of a local cluster, and fails if one is answered with a 5xx status.

Usage: fuzz.py ODH [EXAMPLES [SEED]]: the program `odh`, whose cluster is up, the number of requests for each operation and
phase, and the seed of an earlier run, to repeat it.
"""

import json
import subprocess
import sys
from pathlib import Path

# Streams that do not end by themselves: a test would wait for them.
ENDLESS = ["/api/v1/stream", "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/logs"]


def main() -> int:
    odh, examples = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "50"
    status = subprocess.run([odh, "local", "status", "-o", "json"], check=True, capture_output=True, text=True)
    service = json.loads(status.stdout)["service"]
    token = Path(service["token"]).read_text(encoding="utf-8").strip()
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{service['url']}/openapi.json",
        f"--tls-verify={service['certificateAuthority']}",
        f"--header=Authorization: Bearer {token}",
        # Other tests check the contents of refusals. This one checks only that no request causes an internal error.
        "--checks=not_a_server_error",
        "--phases=examples,coverage,fuzzing",
        f"--max-examples={examples}",
        # Below the limit of one user, so that few requests are refused unread.
        "--rate-limit=90/s",
        "--request-timeout=40",
        "--no-color",
    ]
    command += [f"--exclude-path={path}" for path in ENDLESS]
    if len(sys.argv) > 3:
        command.append(f"--seed={sys.argv[3]}")
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
