"""What students get: assignments without solutions and hidden tests, in one zip, the same to the byte each time."""

import zipfile
from collections.abc import Collection
from pathlib import Path

import minirl
from minirl.course.assign import asked, source_path, text, without_answers
from minirl.course.formats import nbformat

NOT_BEFORE = (1980, 1, 1, 0, 0, 0)  # a zip's first day: no time of its own
READ_ME = """# {titles}

1. Install minirl {version} as the course says, and start JupyterLab in this folder.
2. Open a notebook and write your answers where it says YOUR CODE HERE. Run the check below each of them.
3. Before you hand it in: `minirl check {example}` reads the file as the grader will, and says what counts.

The folder assignments keeps them as they were given, for that command; leave it as it is.

Hand in the notebook itself. Do not rename the first line of an answer, or the functions; all else is yours.
"""


def release(names: list[str], root: Path, out: Path) -> Path:
    """Write the students' zip; ValueError where a line of a solution or a hidden test would be in it."""
    sources = {name: nbformat.read(source_path(name, root), as_version=4) for name in names}
    given = {f"{name}/{name}.ipynb": text(without_answers(source)) for name, source in sources.items()}
    files = given | {f"assignments/{name}": content for name, content in given.items()}
    titles = ", ".join(f"{name} ({sum(each.points for each in asked(sources[name]))} points)" for name in names)
    example = f"{names[0]}/{names[0]}.ipynb"
    files["README.md"] = READ_ME.format(titles=titles, version=minirl.__version__, example=example)
    return packed({name: content.encode() for name, content in files.items()}, out)


def packed(files: dict[str, bytes], out: Path, executable: Collection[str] = ()) -> Path:
    """Write a zip, whole or not at all: the same files, the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    half = out.with_name(f".{out.name}.half")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, NOT_BEFORE)
            entry.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    half.replace(out)
    return out
