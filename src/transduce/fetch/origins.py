"""Where archives are: on mirrors, with those kept that were had before, or in a folder of one's own."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from transduce.fetch.catalogue import Archive, Choice, Location
from transduce.fetch.download import Unavailable, download, fault
from transduce.fetch.unpack import UnusableError

__all__ = ["Folder", "Mirrors", "Origin"]

Say = Callable[[str], None]


class Origin(Protocol):
    """What reading archives needs to know of where they are."""

    name: str
    folder: Path

    def archive(self, location: Location) -> Path | None:
        """The archive of a location, whole; None where its text is in the folder without it, unpacked."""

    def is_at_hand(self, choice: Choice) -> bool:
        """Whether a choice is better than others because nothing has to be got for it."""

    def bytes_to_get(self, names: Iterable[str]) -> int:
        """How many bytes of the archives of these names are not here yet, as far as known."""

    def refusal(self, message: str) -> Exception:
        """The error for what could not be had, with what to do about it."""


class Mirrors:
    """The mirrors of the catalogue; `folder` keeps what they gave, and what is there whole is not asked for again."""

    name = "mirrors"

    def __init__(self, archives: Mapping[str, Archive], folder: Path, say: Say) -> None:
        self.folder, self._archives, self._say = folder, archives, say
        self._whole: dict[str, Path] = {}  # each is checked once, for that means to read all of it

    def archive(self, location: Location) -> Path | None:
        """From the folder, or else downloaded into it."""
        if (name := location.archive) not in self._whole:
            self._whole[name] = download(name, self._archives[name], self.folder, self._say)
        return self._whole[name]

    def is_at_hand(self, choice: Choice) -> bool:
        """What was downloaded before."""
        return all((self.folder / location.archive).exists() for location in choice.values())

    def bytes_to_get(self, names: Iterable[str]) -> int:
        """All but what was downloaded before, whole or in part."""
        return sum(max(0, (self._archives[name].bytes or 0) - self._had(name)) for name in names)

    def _had(self, name: str) -> int:
        files = [self.folder / name, self.folder / f"{name}.part"]
        return sum(file.stat().st_size for file in files if file.exists())

    def refusal(self, message: str) -> Exception:
        """Nobody's fault: it may succeed another time, or by another way."""
        return Unavailable(
            f"{message}\nThe same command goes on where it stopped. With --from DIR it takes archives, or the texts "
            "unpacked, that you have got elsewhere; with --from hub it asks the hub"
        )


class Folder:
    """A folder of one's own that has archives, as `fetch` keeps them or side by side, or the texts unpacked."""

    name = "folder"

    def __init__(self, archives: Mapping[str, Archive], folder: Path) -> None:
        self.folder, self._archives = folder, archives
        self._whole: dict[str, Path] = {}

    def archive(self, location: Location) -> Path | None:
        """The first of that name that is whole."""
        if location.archive in self._whole:
            return self._whole[location.archive]
        candidates = [self.folder / location.archive, self.folder / Path(location.archive).name]
        faults = []
        for path in filter(Path.is_file, candidates):
            if (found := fault(path, self._archives[location.archive])) is None:
                self._whole[location.archive] = path
                return path
            faults.append(f"{path} {found}")
        if (self.folder / location.file).is_file():
            return None
        raise UnusableError("; ".join(faults) or f"{self.folder} has neither {candidates[1].name} nor {location.file}")

    def is_at_hand(self, choice: Choice) -> bool:
        """All alike."""
        return True

    def bytes_to_get(self, names: Iterable[str]) -> int:
        """Nothing is got."""
        return 0

    def refusal(self, message: str) -> Exception:
        """The user's to mend."""
        return ValueError(f"{message}\nNothing is downloaded with --from DIR: add what is missing, or leave --from out")
