"""The origins of archives: mirrors, whose downloads are kept, or a local folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from transduce.fetch.catalogue import Archive, Choice, Location
from transduce.fetch.download import Unavailable, download, find_fault
from transduce.fetch.meter import Say
from transduce.fetch.unpack import UnusableError

__all__ = ["LocalFolder", "Mirrors", "Origin"]


class Origin(Protocol):
    """Provides archives to an ArchiveSource."""

    name: str
    folder: Path

    def archive(self, location: Location) -> Path | None:
        """Returns the verified archive of a location; None where `folder` has the text unpacked instead."""

    def is_local(self, choice: Choice) -> bool:
        """Whether the archives of a choice need no download."""

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Returns how many bytes of these archives are missing, as far as sizes are recorded."""

    def error(self, message: str) -> Exception:
        """Returns the error for a text that no archive provides; its message adds the remedy."""


class Mirrors:
    """The mirrors of the catalogue; `folder` keeps the downloaded archives, which are not downloaded again."""

    name = "mirrors"

    def __init__(self, archives: Mapping[str, Archive], folder: Path, say: Say) -> None:
        self.folder, self._archives, self._say = folder, archives, say
        self._verified: dict[str, Path] = {}  # each archive is verified once, which reads all of it

    def archive(self, location: Location) -> Path | None:
        """Returns the archive of the folder, downloaded if it is missing or damaged."""
        if (name := location.archive) not in self._verified:
            self._verified[name] = download(name, self._archives[name], self.folder, self._say)
        return self._verified[name]

    def is_local(self, choice: Choice) -> bool:
        """Whether the folder has all archives of a choice."""
        return all((self.folder / location.archive).exists() for location in choice.values())

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Returns the recorded sizes, without the bytes that earlier downloads have brought."""
        return sum(max(0, (self._archives[name].bytes or 0) - self._downloaded_bytes(name)) for name in names)

    def _downloaded_bytes(self, name: str) -> int:
        files = [self.folder / name, self.folder / f"{name}.part"]
        return sum(file.stat().st_size for file in files if file.exists())

    def error(self, message: str) -> Exception:
        """Returns Unavailable: a later attempt or another origin may succeed."""
        return Unavailable(
            f"{message}\nRun the same command again to resume. If you have the archives or the unpacked texts, name "
            "their folder with --from DIR; --from hub downloads from the Hugging Face hub"
        )


class LocalFolder:
    """A folder of the user with archives, in subfolders as `fetch` keeps them or side by side, or unpacked texts."""

    name = "folder"

    def __init__(self, archives: Mapping[str, Archive], folder: Path) -> None:
        self.folder, self._archives = folder, archives
        self._verified: dict[str, Path] = {}

    def archive(self, location: Location) -> Path | None:
        """Returns the first undamaged archive of that name; raises UnusableError where its text is missing too."""
        if location.archive in self._verified:
            return self._verified[location.archive]
        candidates = [self.folder / location.archive, self.folder / Path(location.archive).name]
        faults = []
        for path in filter(Path.is_file, candidates):
            if (fault := find_fault(path, self._archives[location.archive])) is None:
                self._verified[location.archive] = path
                return path
            faults.append(f"{path} {fault}")
        if (self.folder / location.file).is_file():
            return None
        raise UnusableError("; ".join(faults) or f"{self.folder} has neither {candidates[1].name} nor {location.file}")

    def is_local(self, choice: Choice) -> bool:
        """Returns True: a local folder downloads nothing."""
        return True

    def bytes_to_download(self, names: Iterable[str]) -> int:
        """Returns 0: a local folder downloads nothing."""
        return 0

    def error(self, message: str) -> Exception:
        """Returns ValueError: the user can add the files."""
        return ValueError(
            f"{message}\n--from DIR downloads nothing: add the missing files, or run the command without --from"
        )
