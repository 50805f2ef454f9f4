"""Gives the wheel the tag of the platform that its program was built for, and what is beside the program."""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(BuildHookInterface[Any]):
    """Reads the tag from `ODH_PLATFORM`, for example `manylinux_2_34_x86_64`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Sets the tag (any Python 3, one platform), and adds man pages and completions below `share`."""
        del version
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ODH_PLATFORM']}"
        # File by file: of a folder, hatchling would leave out what git ignores, and all is built below `target`.
        for path in Path(self.root, "share").rglob("*"):
            if path.is_file():
                build_data["shared_data"][str(path)] = path.relative_to(self.root).as_posix()
