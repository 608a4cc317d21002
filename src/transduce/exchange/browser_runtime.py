"""onnxruntime-web, which the browser page runs models with: found in a cache, in a folder, or fetched by npm."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

from transduce.storage.atomic import atomic_write

__all__ = ["VERSION", "add_runtime", "runtime_folder"]

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"

CHECKSUMS = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""SHA-256 of the files of this version that the page needs; they are under MIT licence."""

TIMEOUT = 600.0  # seconds for 33 MB
BY_HAND = (
    f"run `npm pack {PACKAGE}@{VERSION} && tar xzf {PACKAGE}-{VERSION}.tgz`, where npm and a network are, and give the "
    "folder: `--runtime package`"
)


def runtime_folder() -> Path:
    """Returns the folder with the files of `CHECKSUMS`, which npm fetches where they are not cached yet.

    Raises ValueError, with the commands to run by hand, where npm cannot fetch them.
    """
    folder = _cache()
    if not _is_intact(folder):
        with tempfile.TemporaryDirectory() as temporary:
            add_runtime(_unpack(_npm_pack(Path(temporary)), Path(temporary)))
    return folder


def add_runtime(folder: Path) -> None:
    """Copies the files of an unpacked npm package into the cache.

    Raises ValueError where a file is missing or is not that of this version.
    """
    source = folder / "dist" if (folder / "dist").is_dir() else folder
    for name, checksum in CHECKSUMS.items():
        if not (source / name).is_file():
            raise ValueError(f"{source} has no {name}, so it is no {PACKAGE} {VERSION}: {BY_HAND}")
        if _checksum(source / name) != checksum:
            raise ValueError(f"{source / name} is not that of {PACKAGE} {VERSION}: {BY_HAND}")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    for name in CHECKSUMS:
        content = (source / name).read_bytes()
        atomic_write(cache / name, lambda path, content=content: path.write_bytes(content))  # type: ignore[misc]


def _cache() -> Path:
    """Returns the folder of this version in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "transduce" / f"{PACKAGE}-{VERSION}"


def _is_intact(folder: Path) -> bool:
    """Returns whether a folder has all files of this version."""
    return all((folder / name).is_file() and _checksum(folder / name) == value for name, value in CHECKSUMS.items())


def _checksum(path: Path) -> str:
    """Returns the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _npm_pack(folder: Path) -> Path:
    """Returns the archive that npm downloads into `folder`."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(f"the page needs {PACKAGE}, and npm, which fetches it, is not installed: {BY_HAND}")
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, encoding="utf-8", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ValueError(f"npm did not fetch {PACKAGE} in {TIMEOUT:g} seconds: {BY_HAND}") from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or f"exit code {error.returncode}").splitlines()[-1]
        raise ValueError(f"npm cannot fetch {PACKAGE} ({reason}): {BY_HAND}") from None
    return folder / f"{PACKAGE}-{VERSION}.tgz"


def _unpack(archive: Path, folder: Path) -> Path:
    """Returns `folder` with the files of the archive that the page needs; raises ValueError for a damaged archive."""
    try:
        with tarfile.open(archive) as package:
            for name in CHECKSUMS:
                member = package.extractfile(f"package/dist/{name}")
                assert member is not None
                (folder / name).write_bytes(member.read())
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise ValueError(f"the archive that npm fetched is damaged ({error}): {BY_HAND}") from None
    return folder
