"""Reports how far a training is, by the protocol of Kubeflow Trainer.

Where the operator has an endpoint, it puts its address, a token and an authority into the pods of TrainJobs and MPIJobs; what is
posted there is shown as ``status.trainerStatus``. Elsewhere there is no address, and nothing is reported.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

TIMEOUT_SECONDS = 5


def report(percent: int, remaining_seconds: float, metrics: dict[str, float]) -> None:
    """Sends a report. One that cannot be sent is worth a line, not the training."""
    address = os.environ.get("KUBEFLOW_TRAINER_SERVER_URL")
    if not address:
        return
    status = {
        "progressPercentage": percent,
        "estimatedRemainingSeconds": round(remaining_seconds),
        "metrics": [{"name": name, "value": f"{value:.4f}"} for name, value in metrics.items()],
        "lastUpdatedTime": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    try:
        # The token is renewed while the job runs.
        token = Path(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read_text().strip()
        request = urllib.request.Request(
            address,
            data=json.dumps({"trainerStatus": status}).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        trusted = ssl.create_default_context(cafile=os.environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=trusted):
            pass
    except (OSError, KeyError) as error:
        detail = error.read().decode(errors="replace") if isinstance(error, urllib.error.HTTPError) else ""
        print(f"the progress could not be reported: {error} {detail}", file=sys.stderr, flush=True)
