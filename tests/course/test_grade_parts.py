"""What the grader does before and after a kernel: who handed in what, where the answers are, and what is written."""

import csv
import io
import json
import os
import time
import zipfile
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import demo_assignment
import nbformat
import pytest
import torch
from demo_assignment import SOLUTIONS, answer
from handed_in import hand_in
from submissions import RIGHT, book, saved, zipped

from minirl.cli import main
from minirl.course import a1, a2, intake, report
from minirl.course.answers import Cell, answer_to, cells, defines, needs, without_markers
from minirl.course.batch import fingerprint, finished, key, save
from minirl.course.check import ASSIGNMENTS, find, judge
from minirl.course.grade import Course, described, written
from minirl.course.marks import Result, failed, passes
from minirl.course.observe import close, plain, tape
from minirl.course.rebuild import KERNEL, code, placed, rebuilt, template, work
from minirl.course.release import release
from minirl.course.run import Limits, run, what_happened
from minirl.course.witness import agrees, kept, packed, unpacked
from minirl.policy import SortingPolicy


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return demo_assignment.written(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def assignment(root):
    return template("a2", root)


def students(folder, name="a2"):
    return {each.student: [entry.name for entry in each.notebooks] for each in intake.submissions(folder, name)}


def laid(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("{}")
    return folder


# Who handed in what.


def test_flat_files_and_folders(tmp_path):
    laid(tmp_path, "ada.ipynb", "bob_a2.ipynb", "cy/a2.ipynb", "dee/a2/a2.ipynb", "dee/a1/a1.ipynb", "eve/x.ipynb")
    assert students(tmp_path) == {
        "ada": ["ada.ipynb"],
        "bob": ["bob_a2.ipynb"],
        "cy": ["cy/a2.ipynb"],
        "dee": ["dee/a2/a2.ipynb"],
        "eve": ["eve/x.ipynb"],
    }


@pytest.mark.parametrize("path", [".", "submitted"])
def test_nbgraders_layout_from_outside_and_inside(tmp_path, path):
    laid(tmp_path, "submitted/ada/a2/a2.ipynb", "submitted/bob/a2/a2.ipynb", "submitted/bob/a2/timestamp.txt")
    (tmp_path / "submitted" / "cy").mkdir()
    assert [*students(tmp_path / path)] == ["ada", "bob", "cy"]


def test_what_canvas_gives(tmp_path):
    laid(tmp_path, "doejane_12345_67890_a2.ipynb", "muelleranna_LATE_12346_67891_a2-1.ipynb", "a_b_12347_67892_x.ipynb")
    laid(tmp_path, "doejane_12345_67899_a2-2.ipynb", "kimlee_12348_67893_a2.pdf", "notes.txt", "team_1_2_a2.ipynb")
    found = {each.student: each for each in intake.submissions(tmp_path, "a2")}
    assert [*found] == ["a_b_12347", "doejane_12345", "kimlee_12348", "muelleranna_12346", "team_1_2"]
    assert [entry.name for entry in found["doejane_12345"].notebooks] == ["doejane_12345_67899_a2-2.ipynb"]
    assert "earlier upload was left out: doejane_12345_67890_a2.ipynb" in found["doejane_12345"].refused
    assert not found["kimlee_12348"].notebooks and "is not a notebook" in found["kimlee_12348"].refused


def test_what_moodle_gives(tmp_path):
    laid(tmp_path, "José Ruiz_987_assignsubmission_file/a2.ipynb", "Li Ming_988_assignsubmission_file_a2.ipynb")
    (tmp_path / "Zoë Ünal_989_assignsubmission_file").mkdir()
    assert [*students(tmp_path)] == ["José Ruiz_987", "Li Ming_988", "Zoë Ünal_989"]


@pytest.mark.parametrize("top", ["", "class/"])
def test_one_zip_of_all(tmp_path, top):
    (tmp_path / "class.zip").write_bytes(zipped({f"{top}ada/a2.ipynb": b"{}", f"{top}bob/a2.ipynb": b"{}"}))
    assert [*students(tmp_path / "class.zip")] == ["ada", "bob"]


def test_a_zip_of_zips(tmp_path):
    (tmp_path / "class.zip").write_bytes(
        zipped({"ada.zip": zipped({"a2.ipynb": b"{}"}), "bob.zip": zipped({"b/a2.ipynb": b"1"})})
    )
    assert [*students(tmp_path / "class.zip")] == ["ada", "bob"]


def test_one_file_and_nothing(tmp_path):
    laid(tmp_path, "ada.ipynb")
    assert [*students(tmp_path / "ada.ipynb")] == ["ada"]
    with pytest.raises(ValueError, match="there is nothing"):
        students(tmp_path / "none")


@pytest.mark.parametrize(
    "name", ["../x.ipynb", "/x.ipynb", "a/../../x.ipynb", "C:\\x.ipynb", "..\\x.ipynb", "\\x.ipynb"]
)
def test_no_zip_reaches_outside(tmp_path, name):
    (tmp_path / "ada.zip").write_bytes(zipped({name: b"{}"}))
    (found,) = intake.submissions(tmp_path, "a2")
    assert found.student == "ada" and not found.notebooks and "outside" in found.refused


def test_what_a_zip_says_of_its_sizes_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "LARGEST", 1000)
    (tmp_path / "ada.zip").write_bytes(zipped({"a2.ipynb": b"{}" * 900}))
    (found,) = intake.submissions(tmp_path, "a2")
    with pytest.raises(intake.Unusable, match="larger"):
        found.notebooks[0].read()


def test_too_many_files_are_no_class(tmp_path, monkeypatch):
    monkeypatch.setattr(intake, "MOST", 3)
    with pytest.raises(intake.Unusable, match="more than 3 files"):
        students(laid(tmp_path, *(f"s{number}.ipynb" for number in range(5))))


def test_links_to_folders_are_not_followed(tmp_path):
    laid(tmp_path, "elsewhere/a2.ipynb")
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada").symlink_to(tmp_path / "elsewhere")
    (found,) = intake.submissions(tmp_path / "class", "a2")
    assert (found.student, found.notebooks) == ("ada", []) and "link" in found.refused


# Where the answers are.


def test_an_answer_is_found_by_each_of_four_marks():
    stub, source = "# GRADED: q1\ndef f(x):\n    raise NotImplementedError()", "def f(x):\n    return x"
    for cell in (
        Cell(source, grade_id="a2-q1"),
        Cell(source, id="a2-q1"),
        Cell(f"# GRADED: q1 (do not edit)\n{source}"),
        Cell(source),
    ):
        others = [Cell("print(1)"), Cell("# GRADED: q10\ndef g(): ..."), Cell(source, code=False)]
        found = answer_to("a2-q1", "q1", ("f",), stub, [*others, cell])
        assert (found.source, found.places, found.note) == (cell.source, (3,), "")


def test_names_are_read_as_python_reads_them():
    source = (
        "import a.b, c as d\nfrom e import f\n%lsmagic\ndef i(j=k):\n    l = m\nclass n:\n    o = p\nfor q in r: ..."
    )
    assert {"a", "d", "f", "i", "n", "q"} <= defines(source) and "l" not in defines(source)
    assert {"k", "p", "r"} <= needs(source, at_once=True) and "m" not in needs(source, at_once=True)
    assert "m" in needs(source) and defines("def f(:\nclass g") == {"f", "g"}


def test_no_line_orders_nbval():
    from nbval.plugin import find_comment_markers

    source = "x = 1\n  ## NBVAL_RAISES_EXCEPTION \n#PYTEST_VALIDATE_IGNORE_OUTPUT\ny = 2\x0c#NBVAL_SKIP\u2028z"
    assert [*find_comment_markers(source)] and not [*find_comment_markers(without_markers(source))]


def test_helpers_stand_where_they_can_run(root, assignment):
    notebook = book(root, **RIGHT)
    sources = [
        "last = shifted + 1",
        "def early(x):\n    return centered(x)",
        "shifted = token_weights(torch.ones(1, 1, 1))",
    ]
    notebook.cells[0:0] = [nbformat.v4.new_code_cell(source) for source in sources]
    taken = work(assignment, cells(saved(notebook)))
    assert taken.helpers == sources and placed(assignment, taken) == [0, 0, 4]


def test_a_helper_that_redefines_another_comes_after_the_checks_that_stood_before_it(root, assignment):
    """Earlier, it would change what the first one was for; an import, or a cell pasted twice, redefines nothing."""
    notebook = book(root, **RIGHT)
    first, second = "import math\ndef mean(x):\n    return x.mean()", "import math\ndef mean(x):\n    return 0"
    place = 1 + next(at for at, each in enumerate(notebook.cells) if "check(" in each.source and "q1b" in each.source)
    notebook.cells.insert(place, nbformat.v4.new_code_cell(second))
    notebook.cells[0:0] = [nbformat.v4.new_code_cell(source) for source in (first, first, "import math")]
    taken = work(assignment, cells(saved(notebook)))
    assert placed(assignment, taken) == [0, 0, 0, 2]
    made = [(cell.metadata.minirl.kind, cell.source) for cell in rebuilt(assignment, taken, "n").cells]
    (at,) = [at for at, each in enumerate(made) if each == ("helper", second)]
    assert made[at - 1][0] == "check" and "a2-q1b" in made[at - 1][1] and made[at + 1][0] == "answer"


def test_the_rebuilt_notebook_has_nothing_of_the_students_but_sources(root, assignment):
    notebook = book(root, **RIGHT)
    for each in notebook.cells:
        each.metadata["tags"], each.metadata["name"] = ["raises-exception"], "theirs"
    made = rebuilt(assignment, work(assignment, cells(saved(notebook))), "n")
    assert {cell.cell_type for cell in made.cells} == {"code"} and made.metadata.kernelspec.name == "minirl-grade"
    assert all(set(cell.metadata) == {"minirl"} and not cell.outputs for cell in made.cells)
    kinds = [cell.metadata.minirl.kind for cell in made.cells]
    assert kinds == ["begin", "setup", *["answer", "check"] * 4, *["hidden", "canary", "witness"] * 4]
    assert ["hidden(" in cell.source for cell in made.cells] == [False] * 10 + [True, True, False] * 4
    assert not any("2.5, -1.0" in cell.source for cell in made.cells[:10])
    nbformat.validate(made)


def test_an_instructors_example_is_kept_where_a_student_needs_it(root, assignment):
    notebook = book(root, **(RIGHT | {"q5": RIGHT["q5"] + " + 0 * example.sum()"}))
    made = rebuilt(assignment, work(assignment, cells(saved(notebook))), "n")
    assert [cell.metadata.minirl.kind for cell in made.cells].count("between") == 1


COURSE = Path(__file__).parents[2]
REAL = sorted(path.parent.name for path in COURSE.glob("solutions/*/*.ipynb"))


@pytest.mark.parametrize("name", REAL)
def test_each_assignment_of_the_course_can_be_taken_apart(name):
    """Its own source, handed in, is found whole; as students get it, nothing is written yet."""
    whole, public = template(name, COURSE), template(name, COURSE, public=True)
    source, given = (
        cells((COURSE / kind / name / f"{name}.ipynb").read_bytes()) for kind in ("solutions", "assignments")
    )
    assert [part.check_id for part in whole.parts] == [part.check_id for part in public.parts]
    assert written(whole, work(whole, source)) == whole.parts and not work(whole, source).notes
    taken = work(whole, given)
    assert not written(whole, taken) and not taken.helpers
    assert all(found.source is not None for found in taken.answers.values())
    assert all(part.names and part.checked and part.calls for part in whole.parts)
    nbformat.validate(rebuilt(whole, work(whole, source), "n"))


def test_no_assignment_is_taken_for_another():
    """Their questions have the same labels, and the same first lines."""
    for wanted, given in zip(REAL, REAL[1:] + REAL[:1], strict=True):
        whole = template(wanted, COURSE)
        notebook = cells((COURSE / "assignments" / given / f"{given}.ipynb").read_bytes())
        assert {found.source for found in work(whole, notebook).answers.values()} == {None}


def test_a_kernel_without_its_set_up_is_nobodys_fault(tmp_path):
    lines = [{"kind": "begin", "of": "", "event": "begins"}]
    lines += [
        {
            "kind": "begin",
            "of": "",
            "event": "ended",
            "passed": False,
            "trouble": "",
            "error": ["ImportError", "no torch"],
        }
    ]
    record = "".join(f"{json.dumps(line)}\n" for line in lines)
    assert what_happened(record, 1, tmp_path).broken == "in begin: ImportError no torch"


# What is compared outside, and what is written.


def test_numbers_leave_the_kernel_as_they_are():
    for thing in (torch.tensor([[1.5, float("nan")]]), torch.tensor(3), torch.zeros(0, 2), torch.tensor([True, False])):
        back = unpacked(json.loads(json.dumps(packed(thing))))
        assert back.dtype == thing.dtype and back.shape == thing.shape
        assert torch.equal(
            back.nan_to_num() if thing.is_floating_point() else back,
            thing.nan_to_num() if thing.is_floating_point() else thing,
        )
    assert [unpacked(packed(thing)) for thing in (None, True, 3, "x")] == [None, True, 3, "x"]


def test_a_forged_or_missing_witness_agrees_with_nothing():
    ours = [{"parts": [packed(torch.tensor([1.0, 2.0]))], "gradients": [], "changed": []}]
    assert agrees(find("a2.q1a"), ours, ours)
    for theirs in ([], ours * 2, [{"error": "ValueError"}], [{"called": "centered"}], [{**ours[0], "parts": []}]):
        assert not agrees(find("a2.q1a"), ours, theirs)


def test_no_question_takes_the_catalogues_own_answer():
    """It is in the package that students have."""
    for name in (name for assignment in ASSIGNMENTS for name in import_module(f"minirl.course.{assignment}").QUESTIONS):
        question = find(name)
        assert "minirl's own" in judge(question, lambda *inputs, right=question.right: right(*inputs)).message


def test_nothing_learns_from_a_comparison_or_lies_in_one():
    class Liar(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return True

    class Equal:
        def __eq__(self, other):
            return True

    ones = torch.ones(2)
    for thing in (ones.as_subclass(Liar), Equal(), type("S", (str,), {"__eq__": Equal.__eq__, "__hash__": hash})("x")):
        assert not close(ones, plain(thing), 1.0) and not close("x", plain(thing), 1.0)
        assert plain([thing, {"a": thing}]) != [1, {"a": 1}]
    assert type(plain(torch.nn.Parameter(ones))) is torch.nn.Parameter and plain(Fraction(1, 4)) == 0.25
    assert torch.equal(plain(ones.numpy()), ones) and plain({"a": (1, None)}) == {"a": (1, None)}


def record_of(part, answer) -> list[dict]:
    """What leaves a kernel of an answer that is looked at."""
    tape.clear()
    assert judge(find(part.question), answer).status == "passed"
    return [{"given": [kept(each) for each in given], "made": packed(made)} for given, made in tape]


def test_what_is_looked_at_is_judged_again_outside():
    """`looked` passes in the kernel, where its own policy says so; its weights alone do not."""
    parts = {part.question: part for name in ("a1", "a2") for part in template(name, COURSE, public=True).parts}
    right = a2.FACTS
    found = record_of(parts["a2.q1e"], lambda: dict(right))
    assert passes(parts["a2.q1e"], json.loads(json.dumps(found)))
    assert not passes(parts["a2.q1e"], []) and not passes(parts["a2.q1e"], [{"given": [], "made": packed({})}])

    def sorter(seed):
        policy = SortingPolicy(8, 3, dim=32, seed=seed)
        policy.greedy = lambda prompts: (prompts.sort(-1).values[:, None], torch.ones(len(prompts), 1, 3).bool())
        return policy

    assert not passes(parts["a2.q7"], record_of(parts["a2.q7"], sorter))


def test_a_policys_weights_leave_the_kernel_as_they_are():
    policy = SortingPolicy(5, 4, dim=6, seed=3)
    back = unpacked(json.loads(json.dumps(packed(policy))))
    assert all(torch.equal(*pair) for pair in zip(policy.parameters(), back.parameters(), strict=True))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes as Linux shows them")
def test_with_limits_alone_nothing_is_left_running_and_no_record_can_be_forged():
    forged = json.dumps({"kind": "answer", "of": "forged", "event": "ended", "passed": True, "trouble": ""})
    sources = [
        "import os, subprocess\nsubprocess.Popen(['sleep', '87654'], start_new_session=True)",
        f"for each in (1, 2):\n    os.write(each, b'{forged}\\n')",
        "parent = f'/proc/{os.getppid()}'\nassert not os.path.exists('../book/work.ipynb')",
        "[open(f'{parent}/fd/{each}', 'wb') for each in os.listdir(f'{parent}/fd')]",
    ]
    made = [code("answer", source, str(number)) for number, source in enumerate(sources)]
    kernel = {"kernelspec": {**KERNEL, "name": "minirl-grade"}}
    ran = run(nbformat.v4.new_notebook(cells=made, metadata=kernel), Limits(isolation="limits"), 100)
    assert [(of, cell["passed"]) for (_, of), cell in ran.cells.items()][:3] == [("0", True), ("1", True), ("2", True)]
    assert ("answer", "forged") not in ran.cells
    assert not os.geteuid() or not ran.cells["answer", "3"]["passed"]
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if b"87654" in each.read_bytes()]


NASTY = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx", "<script>alert(1)</script>", 'a"b,c\nd', "Zoë Ünal"]


def test_a_mistake_is_counted_where_an_example_follows_its_sentence():
    """What `look` finds ends with the input it was found on; the class's list of mistakes needs the sentence alone."""
    *_, part = template("a1", Path(__file__).parents[2]).parts
    verdict = judge(a1.QUESTIONS["a1.q7"], lambda prompt, vocab_size: None)
    mark = failed(part, ["Wrong", verdict.message], None)
    assert mark.status == "wrong" and mark.mistake == a1.GAVE_UP
    assert mark.message.startswith(a1.GAVE_UP) and "you return None.)" in mark.message


def test_names_are_harmless_in_every_form(tmp_path):
    (tmp_path / "results").mkdir()
    for name in NASTY:
        mark = {"question": "a2.q1a", "check": "", "title": "<b>", "status": "wrong", "points": 0, "of": 2}
        mark |= {"message": "<img onerror=x> & 'so'", "mistake": None, "review": ""}
        result = {"student": name, "assignment": "a2", "status": "graded", "points": 0, "of": 2, "isolation": "full"}
        result |= {"file": "x", "fingerprint": "", "notes": ["<i>"], "questions": [mark]}
        (tmp_path / "results" / f"{key(name)}.json").write_text(json.dumps(result), "utf-8")
    report.write(tmp_path, gradescope=True)
    rows = [*csv.DictReader(io.StringIO((tmp_path / "grades.csv").read_text("utf-8")))]
    assert not [row for row in rows if row["student_id"].startswith(report.FORMULAS)]
    assert sorted(row["student_id"].removeprefix("'") for row in rows) == sorted(NASTY)
    for page in (tmp_path / "feedback").iterdir():
        text = page.read_text("utf-8")
        assert not {"<script", "<img", "<i>", "<b>"} & set(text.replace(">", "> ").split()) and "<img" not in text
        assert "<script>alert" not in text and "&lt;img onerror=x&gt;" in text
    tests = json.loads((tmp_path / "gradescope" / f"{key('+1')}.json").read_text("utf-8"))["tests"]
    assert tests[0]["status"] == "failed" and tests[0]["max_score"] == 2


def test_a_terminal_that_lacks_a_letter_hears_the_rest(tmp_path, monkeypatch):
    """As on Windows, where what a command prints into a file has an encoding of 256 letters."""
    (tmp_path / "results").mkdir()
    mark = {"question": "a2.q1a", "title": "x", "status": "wrong", "points": 0, "of": 2, "message": "", "mistake": "so"}
    result = {"student": "Zoë", "assignment": "a2", "status": "timeout", "points": 0, "of": 2, "isolation": ""}
    result |= {"file": "", "notes": [], "questions": [mark | {"review": ""}]}
    (tmp_path / "results" / "zoe.json").write_text(json.dumps(result), "utf-8")
    said = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr("sys.stdout", said)
    with pytest.raises(SystemExit) as exit:
        main(["report", str(tmp_path)])
    said.flush()
    printed = said.buffer.getvalue()
    assert exit.value.code == 1 and b"1 ? a2.q1a" in printed and b"Zo?: timeout" in printed


@pytest.mark.parametrize("name", ["../../x", "a/b", "CON", "x" * 300, ".", "", "a\0b", "Ada", "ada"])
def test_a_students_name_makes_a_file_name(name):
    made = key(name)
    assert made and "/" not in made and "\0" not in made and made not in (".", "..") and len(made) < 100
    assert key("Ada") != key("ada") and key("Ada").lower() != key("ada").lower()


def test_no_name_takes_another_students_file():
    assert key("ada.") != key("ada") and key(key("ada.")) != key("ada.") and key("con") != "con"


def test_a_class_on_one_screen_moves_no_cursor():
    mark = {"question": "q", "title": "t", "of": 1, "points": 0, "status": "timeout", "mistake": None, "review": ""}
    result = {"student": "\x1b[2J\udc80bob", "status": "timeout", "points": 0, "of": 1, "isolation": "", "file": ""}
    said = report.summary([result | {"questions": [mark], "notes": ["\x1b]0;x\x07", "y"]}])
    assert "bob" in said and said.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["a-zip-with-a-dot", "a-zip-with-a-spoilt-zip"])
def test_one_zip_does_not_end_a_class(root, tmp_path, name):
    hand_in(root, tmp_path / "class", [name, "good-flat"])
    assert [each.student for each in intake.submissions(tmp_path / "class", "a2")] == [name, "good-flat"]


SLOW = {
    "magics": ("x = !ls\n" + "%lsmagic\n!true\n" * 5_000, {"x"}),
    "a sum": ("x = " + " + ".join(["1"] * 2_000), {"x"}),
    "brackets": ("(" * 200_000, set()),
    "more than anybody writes": ("x = 1\n" * 100_000, set()),
    "timed": ("%%time\nx = 1", {"x"}),
    "another language": ("%%bash\nx=1", set()),
}


@pytest.mark.parametrize("source, names", SLOW.values(), ids=SLOW)
def test_no_cell_keeps_a_reader_long(source, names):
    start = time.process_time()
    assert defines(source) == names and needs(source) is not None
    assert time.process_time() - start < 5


def test_mended_hidden_tests_grade_anew(root, tmp_path):
    before = template("a2", root)
    mended = replace(before.parts[0], hidden=before.parts[0].hidden + "# harder")
    both = before, replace(before, parts=[mended, *before.parts[1:]])
    courses = [Course(each, Limits(), fingerprint=described(each)) for each in both]
    one, other = (fingerprint(course, intake.Submission("ada")) for course in courses)
    result = Result("ada", "a2", "graded", 1, 2, fingerprint=one)
    save(result, tmp_path / "ada.json")
    assert finished(tmp_path / "ada.json", one) and not finished(tmp_path / "ada.json", other)


# What students get.


def test_a_release_has_no_secrets_and_is_always_the_same(root, tmp_path, capsys):
    first, second = tmp_path / "one.zip", tmp_path / "two.zip"
    for out in (first, second):
        with pytest.raises(SystemExit) as exit:
            main(["release", "a2", "--root", str(root), "--out", str(out)])
        assert not exit.value.code
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == ["README.md", "a2/a2.ipynb", "assignments/a2/a2.ipynb"]
        texts = [archive.read(name).decode() for name in archive.namelist()]
    assert "11 points" in texts[0] and "minirl check a2/a2.ipynb" in texts[0]
    assert all("hidden(" not in text and "SOLUTION" not in text for text in texts)
    assert not any(body.strip().splitlines()[-1].strip() in text for body in RIGHT.values() for text in texts)


def test_all_assignments_of_the_course_can_be_released_together(tmp_path):
    with zipfile.ZipFile(release(REAL, COURSE, tmp_path / "all.zip")) as archive:
        assert len(archive.namelist()) == 2 * len(REAL) + 1
        for name in REAL:
            written = (COURSE / "assignments" / name / f"{name}.ipynb").read_bytes()
            assert archive.read(f"{name}/{name}.ipynb") == archive.read(f"assignments/{name}/{name}.ipynb") == written


def test_a_release_that_would_tell_is_refused(tmp_path):
    root = demo_assignment.written(tmp_path)
    path = root / "solutions" / "a2" / "a2.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].source += f"\n\nFor example{RIGHT['q2']}"
    nbformat.write(notebook, path)
    with pytest.raises(SystemExit) as exit:
        main(["release", "a2", "--root", str(root), "--out", str(tmp_path / "out.zip")])
    assert exit.value.code == 2 and not (tmp_path / "out.zip").exists()


def test_the_answers_of_the_demo_are_whole():
    assert all(answer(label, body).startswith("# GRADED") for label, (_, _, body, _) in SOLUTIONS.items())
