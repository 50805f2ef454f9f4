"""Where a rank runs."""

import os
import socket


def host_name() -> str:
    """The pod's name: its host name, but where pods have no host name of their own (the embedded cluster's plain mode) what
    ``ODH_POD_NAME`` says."""
    return os.environ.get("ODH_POD_NAME") or socket.gethostname()
