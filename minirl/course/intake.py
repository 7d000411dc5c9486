"""What was handed in, and by whom: files, folders, nbgrader's layout and zips. Nothing is unpacked to disk or run.

A student is named by a folder, or by a file that lies alone; in what Canvas and Moodle give, by the name and the number
there. What cannot be taken says why.
"""

import io
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath

LARGEST = 100_000_000  # bytes of a notebook, most of them outputs that nobody runs
LARGEST_ZIP = 1_000_000_000  # bytes of a zip, and of all that is in it
MOST = 20_000  # files
MOST_SQUEEZED = 200  # times larger inside than in the zip; beyond it is a bomb
LEFT_OUT = {"__MACOSX", ".ipynb_checkpoints"}
CANVAS = re.compile(r"(?P<name>.+?)(_late)?_(?P<number>\d{3,})_(?P<upload>\d{4,})_.+", re.IGNORECASE)
MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d{3,})_assignsubmission_.+")


class Unusable(ValueError):
    """What was handed in cannot be taken; the sentence says why."""


@dataclass(frozen=True)
class Entry:
    """A file below the folder, or in a zip: the parts of its name, how to read it, or why it is not read."""

    parts: tuple[str, ...]
    read: Callable[[], bytes]
    refused: str = ""

    @property
    def name(self) -> str:
        return "/".join(self.parts)


@dataclass
class Submission:
    """What one student handed in: notebooks to choose from, the likeliest first, or why there is none."""

    student: str
    notebooks: list[Entry] = field(default_factory=list)
    refused: str = ""


def submissions(path: Path, assignment: str) -> list[Submission]:
    """All that was handed in, by student, in the order of their names."""
    if not path.exists():
        raise Unusable(f"there is nothing at {path}")
    folders, entries = found(path)
    folders, entries = without_shell(path, folders, entries)
    folders = {named(name) for name in folders if not name.startswith(".") and name not in LEFT_OUT}
    students = {name: Submission(name) for name in folders}
    for entry in entries:
        student = owner(entry, assignment)
        add(students.setdefault(student, Submission(student)), entry)
    for submission in students.values():
        keep_latest(submission)
        submission.notebooks = likeliest(submission.notebooks, assignment)
    return [students[name] for name in sorted(students)]


def found(path: Path) -> tuple[set[str], list[Entry]]:
    """The folders right below, and all files that may be notebooks."""
    if path.is_file() and path.suffix == ".zip":
        return set(), wanted(unzipped((), partial(read_limited, path, LARGEST_ZIP)))
    if path.is_file():
        return set(), [Entry((path.name,), partial(read_limited, path, LARGEST))]
    folders = {each.name for each in path.iterdir() if each.is_dir() and not each.is_symlink()}
    return folders, wanted(walked(path))


def without_shell(path: Path, folders: set[str], entries: list[Entry]) -> tuple[set[str], list[Entry]]:
    """The same from inside the one folder that all of it lies in: nbgrader's, or one called like the zip."""
    top = {entry.parts[0] for entry in entries if len(entry.parts) > 1} | folders
    shell = next((name for name in ("submitted", path.stem) if top == {name}), None)
    alone = all(entry.parts[0] == shell for entry in entries)
    if not (shell and alone and any(len(entry.parts) > 2 for entry in entries)):
        return folders, entries
    inner = path / shell
    folders = {each.name for each in inner.iterdir() if each.is_dir()} if inner.is_dir() else set()
    return folders, [replace(entry, parts=entry.parts[1:]) for entry in entries]


def wanted(entries: Iterator[Entry]) -> list[Entry]:
    """Without what editors and systems leave behind; Unusable when there are too many."""
    kept = []
    for number, entry in enumerate(entries):
        if number >= MOST:
            raise Unusable(f"more than {MOST} files were handed in: that is no class")
        hidden = any(part in LEFT_OUT or part.startswith(".") for part in entry.parts)
        if hidden:
            continue
        if entry.refused or entry.parts[-1].endswith(".ipynb"):
            kept.append(entry)
        elif len(entry.parts) == 1 and CANVAS.fullmatch(entry.name):  # there a file is a student
            kept.append(replace(entry, refused=f"{entry.name} is not a notebook"))
    return sorted(kept, key=lambda entry: entry.parts)


def walked(folder: Path) -> Iterator[Entry]:
    """Files below a folder, and what is in zips there; links are not followed."""
    for place, inside, files in os.walk(folder, followlinks=False):
        for name in sorted(files + [each for each in inside if Path(place, each).is_symlink()]):
            path = Path(place, name)
            parts = path.relative_to(folder).parts
            if path.is_symlink():
                yield Entry(parts, bytes, f"{name} is a link, and links are not followed")
            elif not path.is_file():
                yield Entry(parts, bytes, f"{name} is not a file")
            elif name.lower().endswith(".zip"):
                yield from unzipped((*parts[:-1], path.stem), partial(read_limited, path, LARGEST_ZIP))
            else:
                yield Entry(parts, partial(read_limited, path, LARGEST))


def read_limited(path: Path, largest: int) -> bytes:
    if path.stat().st_size > largest:
        raise Unusable(f"{path.name} is larger than {largest // 1_000_000} MB")
    return path.read_bytes()


def unzipped(prefix: tuple[str, ...], read: Callable[[], bytes], depth: int = 0) -> Iterator[Entry]:
    """The files in a zip, and in zips in it, as if they lay in a folder of its name; a bad zip is one refused entry."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(read()))
        members = [each for each in archive.infolist() if not each.is_dir() and PurePosixPath(each.filename).parts]
        refuse_hostile(archive, members)
    except Exception as error:  # zipfile lets a dozen kinds out, and a class does not end with one file
        reason = str(error) if isinstance(error, Unusable) else f"it is not a zip that can be read: {error}"
        yield Entry(prefix or ("the zip",), bytes, reason)
        return
    if prefix and not any(each.filename.lower().endswith((".ipynb", ".zip")[: 2 - depth]) for each in members):
        yield Entry(prefix, bytes, f"there is no notebook in {prefix[-1]}.zip")
    for member in members:
        parts = prefix + PurePosixPath(member.filename).parts
        if member.filename.lower().endswith(".zip") and depth == 0:
            yield from unzipped((*parts[:-1], Path(parts[-1]).stem), partial(read_member, archive, member), depth + 1)
        else:
            yield Entry(parts, partial(read_member, archive, member))


def refuse_hostile(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST:
        raise Unusable(f"the zip has more than {MOST} files")
    if sum(member.file_size for member in members) > LARGEST_ZIP:
        raise Unusable(f"the zip unpacks to more than {LARGEST_ZIP // 1_000_000} MB")
    for member in members:
        parts = PurePosixPath(member.filename.replace("\\", "/")).parts
        if ".." in parts or member.filename.startswith(("/", "\\")) or ":" in parts[0]:
            raise Unusable(f"the zip has a file that would land outside its folder: {member.filename}")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise Unusable(f"the zip has a link in it: {member.filename}")
        if member.flag_bits & 1:
            raise Unusable("the zip is encrypted")
        if member.file_size > 1_000_000 and member.file_size > MOST_SQUEEZED * max(member.compress_size, 1):
            raise Unusable(f"the zip is a bomb: {member.filename} is squeezed more than {MOST_SQUEEZED} times")


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """A file of a zip; what its header says of its size is not believed."""
    with archive.open(member) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise Unusable(f"{member.filename} is larger than {LARGEST // 1_000_000} MB")
    return data


def owner(entry: Entry, assignment: str) -> str:
    """Whose it is: the first folder's name, or the file's without the assignment's."""
    if len(entry.parts) > 1:
        return named(entry.parts[0])
    stem = named(Path(entry.parts[0]).stem if entry.parts[0].endswith((".ipynb", ".zip")) else entry.parts[0])
    for ending in (f"_{assignment}", f"-{assignment}"):
        stem = stem.removesuffix(ending) or stem
    return stem


def named(name: str) -> str:
    """NAME_NUMBER of what Canvas (NAME_NUMBER_UPLOAD_FILE) or Moodle (NAME_NUMBER_assignsubmission_file) gives."""
    found = MOODLE.fullmatch(name) or CANVAS.fullmatch(name)
    return f"{found['name']}_{found['number']}" if found else name


def add(submission: Submission, entry: Entry) -> None:
    if entry.refused:
        submission.refused = entry.refused
    else:
        submission.notebooks.append(entry)


def keep_latest(submission: Submission) -> None:
    """Of several uploads to Canvas, the last: its number is the highest."""
    uploads = [(found := CANVAS.fullmatch(entry.parts[0])) and int(found["upload"]) for entry in submission.notebooks]
    last = max(filter(None, uploads), default=None)
    older = [entry for entry, upload in zip(submission.notebooks, uploads, strict=True) if upload != last]
    if older:
        submission.notebooks = [entry for entry in submission.notebooks if entry not in older]
        submission.refused = f"an earlier upload was left out: {', '.join(entry.parts[0] for entry in older)}"


def likeliest(notebooks: list[Entry], assignment: str) -> list[Entry]:
    """Those of the assignment's name that lie in a folder of this name; else those of its name; else all."""
    called_so = [entry for entry in notebooks if entry.parts[-1].lower() == f"{assignment}.ipynb"]
    in_its_folder = [entry for entry in called_so if entry.parts[-2:-1] == (assignment,)]
    return in_its_folder or called_so or notebooks
