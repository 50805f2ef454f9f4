"""Gives the wheel the tag of the platform that its program was built for."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(BuildHookInterface[Any]):
    """Reads the tag from `ODH_PLATFORM`, for example `manylinux_2_34_x86_64`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Sets the tag: any Python 3, one platform."""
        del version
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ODH_PLATFORM']}"
