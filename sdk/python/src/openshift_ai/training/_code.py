"""Ships code with a job: a function, a folder or files, packed into variables of the job and unpacked by every rank.

The service takes jobs and nothing else, so the code travels in the job itself. That bounds its size; data and large packages
belong in a volume or in the image.
"""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import field_error
from ._files import Content, Link, files_of
from ._function import program

if TYPE_CHECKING:
    from ._spec import MPIJobSpec

#: The most bytes of packed code: an object of Kubernetes has it for the Launcher and for the Workers, and holds 1.5 MiB.
MOST_BYTES = 256 << 10
#: Linux takes 128 KiB in one variable.
_PART = 96 << 10
_VARIABLE = "ODH_CODE_"
_MAIN = "odh_function.py"
#: What every rank runs first. Ranks of one Worker unpack at the same time, so the folder appears complete or not at all.
_UNPACK = """
import base64, hashlib, io, os, sys, tarfile, tempfile
parts = sorted((name for name in os.environ if name.startswith("ODH_CODE_")), key=lambda name: int(name[9:]))
packed = base64.b64decode("".join(os.environ.pop(name) for name in parts))
name = "odh-code-%s-%d" % (hashlib.sha256(packed).hexdigest()[:16], os.getuid())
folder = os.path.join(tempfile.gettempdir(), name)
fresh = tempfile.mkdtemp(prefix=name)
with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
    archive.extractall(fresh, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
try:
    os.rename(fresh, folder)
except OSError:
    import shutil
    shutil.rmtree(fresh)
    if os.stat(folder).st_uid != os.getuid():
        sys.exit("%s belongs to another user" % folder)
os.chdir(folder)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
os.execvp(sys.argv[1], sys.argv[1:])
"""


def ship(spec: MPIJobSpec) -> MPIJobSpec:
    """The specification with its code packed into variables and a command that unpacks them."""
    if spec.code is None:
        return spec
    command = list(spec.command)
    if callable(spec.code):
        files: dict[str, Content] = {_MAIN: program(spec.code, spec.code_arguments).encode()}
        command = command or ["python3", _MAIN]
    else:
        files = files_of(spec.code)
    packed = _pack(files)
    python = command[0] if Path(command[0]).name.startswith("python") else "python3"
    text = base64.b64encode(packed).decode()
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)]
    variables = {f"{_VARIABLE}{index}": part for index, part in enumerate(parts)}
    return spec.model_copy(
        update={"code": None, "command": [python, "-c", _UNPACK, *command], "env": {**spec.env, **variables}}
    )


def _pack(files: dict[str, Content]) -> bytes:
    """Packs files. The same files give the same bytes, so that the same job is the same request."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name in sorted(files):
            entry, content = tarfile.TarInfo(name), files[name]
            if isinstance(content, Link):
                entry.type, entry.linkname = tarfile.SYMTYPE, content.target
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
    import gzip

    packed = gzip.compress(plain.getvalue(), mtime=0)
    if len(packed) > MOST_BYTES:
        size = f"{len(packed) >> 10} KiB when packed, more than {MOST_BYTES >> 10} KiB"
        raise field_error("code", f"is {size}", "put data into a volume and packages into the image")
    return packed
