"""`minirl …` on the command line: the demo, a run of one's own, how good a model is, and pictures of runs.

What costs torch's import is imported where it is used, so that help and mistakes are answered at once.
"""

import inspect
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import Field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, NoReturn, get_args

import typer
from typer import Argument, Context, Option

from minirl import jobs
from minirl.llm import runs as language
from minirl.runs import Refused, append, create, describe, keep_epochs, last_epoch, make_folder, read

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False
)


def show_version(wanted: bool | None) -> None:
    if wanted:
        from minirl import __version__

        print(f"minirl {__version__}")
        raise typer.Exit


def sorting(help: str, **how):
    """An option of the sorting task alone."""
    return Option(help=help, rich_help_panel="The task sorting", **how)


TEACHING = "For those who teach"  # a part of the list of commands
VERSION = Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
RUNS = Argument(metavar="RUN...", help="Folders that minirl train wrote.", show_default=False)

ALL = [field.name for field in fields(language.Settings) if field.name != "task"]
MENDABLE = (ValueError, OSError, ModuleNotFoundError, MemoryError)  # answered by their own sentence and exit code 2
SEEDS = {"min": -(2**63), "max": 2**63 - 1}
LARGEST_EVAL_SEED = SEEDS["max"] // 1_000_003 - 1  # each batch of an evaluation has a seed of its own
STOPS = (KeyboardInterrupt, FloatingPointError, OSError, MemoryError, RuntimeError)


@app.callback()
def minirl(version: Annotated[bool | None, VERSION] = None) -> None:
    """Reinforcement learning for language models, from a two-state bandit to Qwen.

    Start with **minirl demo**. The course itself is in the folder notebooks: **make lab** opens it.
    """


@app.command()
def demo(
    seeds: Annotated[int, Option(min=2, help="Runs with each delta, at least two.")] = 5,
    pocket_epochs: Annotated[int, Option(min=0, help="Epochs of GRPO on the pocket model; 0: only sort.")] = 30,
    out: Annotated[Path, Option(help="Folder for the pictures.")] = Path("artefacts"),
) -> None:
    """Train two policies from rewards alone: one that sorts numbers, and a small language model.

    First the sorting policy with each delta, tested on prompts it has never seen. Then GRPO on word problems with the
    pocket model that ships with minirl: what it gets right before and after. Takes about two minutes. Prints tables and
    answers, and draws learning_curves.png and pocket.png.
    """
    make_folder(out)
    from minirl import demo as parts

    runs = parts.run_all(seeds)
    print(f"\n{parts.describe(runs)}\n\n{parts.table(runs)}\n")
    print(f"Learning curves: {parts.draw(runs, out / 'learning_curves.png')}\n")
    if pocket_epochs:
        from minirl.llm import demo as language_parts

        found = language_parts.run(pocket_epochs)
        print(f"\n{language_parts.describe(found)}\n\n{language_parts.samples(found)}\n")
        print(f"Its curve: {language_parts.draw(found, out / 'pocket.png')}")
    print("Now open the course: make lab (where there is no make: jupyter lab notebooks)")


@app.command()
def train(
    context,
    task: Annotated[str, Option(metavar="NAME", help="What to learn: sorting, word-problems or gsm8k.")] = "sorting",
    recipe: Annotated[
        str | None, Option(metavar="NAME", help="A published method, such as dapo; minirl recipes lists them.")
    ] = None,
    run: Annotated[
        Path | None, Option(help="The run's folder.", show_default="runs/TASK-RECIPE-seedK, or TASK-DELTA-seedK")
    ] = None,
    resume: Annotated[Path | None, Option(metavar="RUN", help="Go on with this run; only --epochs may change.")] = None,
    checkpoint_every: Annotated[
        int, Option(min=0, help="Epochs between checkpoints; 0: none.", show_default="0; for language 5")
    ] = 0,
    reward: Annotated[str, sorting("A function of minirl.sorting.", metavar="NAME")] = "position_match",
    vocab_size: Annotated[int, sorting("How many different numbers there are.", min=1)] = 5,
    length: Annotated[int, sorting("How many numbers a prompt has.", min=1)] = 3,
    held_out: Annotated[float, sorting("Share of all prompts that training never sees.")] = 0.2,
    dim: Annotated[int, sorting("Width of the policy's embedding.", min=1)] = 10,
    init_scale: Annotated[float, sorting("Scale of its decoding matrices; 1 is the lecture's start.")] = 0.1,
    **settings,
) -> None:
    """Train a policy, and keep the run in a folder of its own.

    The folder gets config.json, with all that is needed to repeat the run, metrics.jsonl, one line an epoch, written as
    the epoch ends, and checkpoints. With **--recipe** a run has the settings of that method, but for what is given
    besides. Ctrl-C ends a run early and keeps what is done; **--resume** goes on from the last
    checkpoint as if nothing had happened. Draw a run with **minirl plot**.
    """
    given = given_to(context)
    try:
        wanted = jobs.resumed(resume, context.params, given) if resume else jobs.chosen(context.params, given)
        folder = resume or run or Path("runs") / jobs.name(wanted)
        if not resume and folder.exists():
            make_folder(folder, new=True)
        job = jobs.prepare(wanted)
        if resume:
            job.go_on(folder)
        epochs = job.start()
        if resume:
            keep_epochs(folder, job.done)
            describe(folder, job.settings, job.packages)
        else:
            create(folder, job.settings, job.packages)
    except MENDABLE as error:
        raise Refused(str(error)) from error
    try:
        record(epochs, job.config.epochs, folder, job)
    finally:
        if not resume and not last_epoch(folder):
            shutil.rmtree(folder, ignore_errors=True)


def given_to(context) -> set[str]:
    """The options that stand on the command line."""
    return {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}


def record(epochs: Iterator[dict], total: int, run: Path, job: jobs.Watch | None = None) -> None:
    """Write each epoch as it comes, with a progress bar, and say at the end what there is."""
    from tqdm import tqdm

    job = job or jobs.Watch()
    shown, done = {}, job.done
    try:
        with tqdm(total=total, initial=done, desc=run.name, unit="epoch") as bar:
            for metrics in map(job.described, epochs):
                due = job.due(metrics["epoch"])
                append(run, metrics, sync=due)
                done = metrics["epoch"]
                if due:
                    job.save(run)
                for sentence in job.notices(metrics):
                    bar.write(f"minirl: {sentence}", file=sys.stderr)
                shown |= job.glance(metrics)
                bar.set_postfix(shown, refresh=False)
                bar.update()
    except STOPS as reason:
        more = f"; go on with: minirl train --resume {run}" if job.every and done else ""
        stop(reason, f"{run} keeps the first {done} of {total} epochs{more}" if done else "no epoch was finished")
    print(f"{run} holds config.json and metrics.jsonl; draw them with: minirl plot {run}")


def stop(reason: BaseException, what_is_left: str) -> NoReturn:
    """End with one sentence; the exit code is a shell's own for Ctrl-C, else 1."""
    why = str(reason) or "stopped by hand"
    if isinstance(reason, RuntimeError):
        if "memory" not in why:
            raise reason
        why = "out of memory, so use a smaller micro_batch_size or batch_size, or fewer new tokens"
    print(f"minirl: {why}; {what_is_left}", file=sys.stderr)
    raise typer.Exit(130 if isinstance(reason, KeyboardInterrupt) else 1) from reason


@app.command()
def recipes(
    markdown: Annotated[bool, Option("--markdown", help="One table, in Markdown, with all settings.")] = False,
) -> None:
    """List the published methods that minirl train --recipe knows, and what each does otherwise than GRPO."""
    from minirl.recipes import RECIPES, table

    if markdown:
        print(table())
        return
    for name, recipe in RECIPES.items():
        print(f"{name:<11} {recipe.title}, {recipe.source}\n{'':<11} {recipe.differs}")


@app.command("eval")
def evaluate(
    context,
    task: Annotated[str, Option(metavar="NAME", help="What to solve: word-problems or gsm8k.")] = "word-problems",
    run: Annotated[Path | None, Option(help="Evaluate the newest checkpoint of this run, with its settings.")] = None,
    samples: Annotated[int, Option(min=0, help="Sampled responses to each problem; 0: greedy only.")] = 16,
    k: Annotated[
        str | None, Option(metavar="LIST", help="Draws of pass@k and maj@k.", show_default="1,4,16,… and samples")
    ] = None,
    problems: Annotated[
        int | None, Option(min=1, help="Only the first problems of the test split.", show_default="all; 200 stories")
    ] = None,
    batch_size: Annotated[int, Option(min=1, help="Problems that are sampled at once.")] = 16,
    seed: Annotated[int, Option(min=0, max=LARGEST_EVAL_SEED, help="Of the sampled responses.")] = 0,
    out: Annotated[Path | None, Option(help="The results' folder.", show_default="evals/TASK-MODEL, or in RUN")] = None,
    **settings,
) -> None:
    """Measure how good a model is, or a run: greedy and sampled, strict, lenient and format apart.

    The folder gets samples.jsonl, with every response and its checks, and eval.json, with shares, their 95 % Wilson
    intervals over the problems, pass@k and maj@k. Ctrl-C keeps what is done, and the same command goes on from there.
    """
    try:
        job = jobs.Evaluation(context.params, given_to(context))
        found = watched(job)
    except MENDABLE as error:
        raise Refused(str(error)) from error
    print(job.report(found))


def watched(job: jobs.Evaluation) -> list[dict]:
    """All records of an evaluation, with a progress bar; stopped early, it is said how to go on."""
    from tqdm import tqdm

    records, found, right = job.records(), [], 0
    for sentence in job.said:
        print(f"minirl: {sentence}", file=sys.stderr)
    try:
        with tqdm(total=len(job.problems), desc=job.folder.name, unit="problem") as bar:
            for record in records:
                found.append(record)
                right += record["greedy"][0][job.task.judge]
                bar.set_postfix(greedy=f"{right / len(found):.1%}", refresh=False)
                bar.update()
    except STOPS as reason:
        stop(reason, f"{job.folder} keeps {len(found)} of {len(job.problems)} problems; the same command goes on")
    return found


@app.command()
def plot(
    runs: Annotated[list[Path], RUNS],
    out: Annotated[Path | None, Option(help="The picture's file.", show_default="curves.png in the first RUN")] = None,
) -> None:
    """Draw runs: reward, held-out accuracy, entropy, gradient norm, and KL where it was measured.

    Several runs share each picture, a line for each.
    """
    histories = {}
    for run in runs:
        histories[str(run)], cut = read(run)
        if cut:
            print(f"minirl: the last line of {run} was cut off and is left out", file=sys.stderr)
    out = out or runs[0] / "curves.png"
    out = out if out.suffix else Path(f"{out}.png")
    from minirl import plotting

    plotting.plt.switch_backend("Agg")
    plotting.style()
    try:
        plotting.small_multiples(histories).savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise Refused(f"cannot draw to {out}: {getattr(error, 'strerror', None) or error}") from error
    print(f"Learning curves: {out}")


@app.command(rich_help_panel=TEACHING)
def assign(
    names: Annotated[list[str], Argument(metavar="NAME", help="Assignments, such as a1.", show_default=False)],
    root: Annotated[Path, Option(help="Folder with solutions/ and assignments/.")] = Path("."),
) -> None:
    """Write assignments from their sources: solutions/NAME/NAME.ipynb without answers, hidden tests and outputs.

    The source is the only file that you edit. The same source always gives the same file, to the byte.

    **Example**

        minirl assign a1 a2

    **Reads** solutions/NAME/NAME.ipynb, in nbgrader's format: answers stand between `### BEGIN SOLUTION` and
    `### END SOLUTION`, and what only the grader tests between `### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS`.

    **Writes** assignments/NAME/NAME.ipynb, and prints its path.

    **Refuses** a source of which an answer or a hidden test would survive, and one with a check that rejects its right
    answer or does not know its wrong ones.

    **Exit code**

    - 0: all were written
    - 2: one was refused, and why; those before it were written
    """
    from minirl.course import assign as course

    for name in names:
        try:
            print(course.assign(name, root))
        except (ValueError, OSError) as error:
            raise Refused(f"{name}: {error}") from error


@app.command(rich_help_panel=TEACHING)
def grade(
    name: Annotated[str, Argument(metavar="NAME", help="An assignment, such as a1.", show_default=False)],
    submissions: Annotated[
        Path, Argument(metavar="SUBMISSIONS", help="A folder, a zip, or one notebook.", show_default=False)
    ],
    out: Annotated[Path, Option(metavar="RESULTS", help="The results' folder.")],
    root: Annotated[Path, Option(help="Folder with solutions/.")] = Path("."),
    jobs_: Annotated[
        int | None,
        Option("-j", "--jobs", min=1, help="How many submissions at once.", show_default="half of the cores"),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on in RESULTS; what is finished and unchanged stays.")] = False,
    cell_limit: Annotated[float, Option(min=1, help="Seconds for each cell.")] = 60,
    limit: Annotated[float, Option(min=1, help="Seconds for a submission's cells together.")] = 600,
    memory: Annotated[float, Option(min=2, help="Gigabytes of addresses that a kernel may have.")] = 6,
    isolation: Annotated[
        str | None,
        Option(metavar="KIND", help="full, limits or none; see above.", show_default="the most that works here"),
    ] = None,
    gradescope: Annotated[bool, Option("--gradescope", help="Write Gradescope's results.json for each, too.")] = False,
) -> None:
    """Grade notebooks: points for each question, the mistake by its name, and a page for each student.

    **Examples**

        minirl grade a1 handed-in --out results
        minirl grade a1 handed-in --out results --resume
        minirl grade a1 one.ipynb --out look --root course

    **Reads** solutions/NAME, and in SUBMISSIONS a notebook (STUDENT.ipynb), a folder (STUDENT/NAME.ipynb) or a zip for
    each student. nbgrader's submitted/STUDENT/NAME/NAME.ipynb is known, and what Canvas and Moodle let you download. Of
    several uploads to Canvas the last counts, of several notebooks in a folder the one with most answers. Answers are
    found by grade_id, else by the cell's id, its first line, or the function it defines.

    **Writes** in RESULTS

    - grades.csv: nbgrader's columns, then status, page, and the points of each question
    - report.html: what the class has not understood, and who needs a look
    - feedback/STUDENT.html: what a student gets back; all else is for you
    - results/STUDENT.json as each is ready, and results.json with all of them and the mistakes of the class
    - gradescope/STUDENT.json, with --gradescope

    **Stopping.** Ctrl-C keeps what is done. With --resume only new and changed notebooks are graded; all of them, when
    the source has changed. To grade a student again, delete that file in RESULTS/results. To overrule the grader, see
    **minirl report --help**. To share the work, grade a part of the folder each, and put the files of RESULTS/results
    into one folder.

    **Points** are what the checks gave. Late penalties, bonus and curves are left to your gradebook.

    **Statuses**

    - graded, not_attempted: nothing to do
    - timeout, kernel_died, out_of_memory: a question did this and got 0; the others count
    - needs_review: something passed that should not; no points until somebody looks
    - unreadable, missing, wrong_assignment: nothing to grade
    - grader_error: our fault; --resume tries again

    **Isolation.** A student's file is never run. A notebook is made anew from solutions/NAME, with the student's
    answers and helper cells, and runs in a kernel of its own. *full* (Linux, where namespaces are allowed): no network,
    no other process to see, of your folders only what Python needs, 500 MB in memory to write to, limits; a kernel
    cannot undo this. *limits*: on time, memory, file size and processes, but a submission may read, change and end
    whatever you may: hidden tests, other submissions, results. *none*: Windows. The report says which one was used.

    **What it stops.** Accidents and casual cheating. Points need results that are right outside the kernel, too,
    compared there with the source's own; a trained policy counts by its weights. A check that accepts everything,
    replaced functions, and results that differ give needs_review. minirl's own answers refuse to run. What a student
    reads was said before any hidden test was in the kernel.

    **What it does not stop.** Copies, be it of minirl's text or of a classmate's. Somebody who attacks the kernel that
    his code runs in can see the hidden inputs there, and each result tells him whether he met them. Many processes
    together can use up the machine's memory. Do not grade as root, and where much is at stake, grade in a container.

    **Exit code**

    - 0: all are graded
    - 1: somebody needs a look
    - 2: nothing was done, and why
    - 130: stopped by Ctrl-C
    """
    from minirl.course import batch as course

    try:
        if isolation not in (None, "full", "limits", "none"):
            raise ValueError(f"there is no isolation {isolation!r}; expected one of: full, limits, none")
        limits = course.Limits(cell_limit, limit, int(memory * 1e9), isolation=isolation or "")
        with tidied():
            job = course.Job(name, submissions, out, root, limits, resume)
            graded(job, jobs_ or max((os.cpu_count() or 2) // 2, 1))
        reported(out, gradescope)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


@contextmanager
def tidied() -> Iterator[None]:
    """Whoever is told to end (SIGTERM) ends as by Ctrl-C, and leaves no process and no file of a kernel."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def graded(job, workers: int) -> None:
    """All submissions, with a progress bar; stopped early, it is said how to go on."""
    from tqdm import tqdm

    done = len(job.all) - len(job.todo)
    try:
        with tqdm(total=len(job.all), initial=done, desc=job.name, unit="submission") as bar:
            for result in job.results(workers):
                done += 1
                bar.set_postfix_str(result.status, refresh=False)
                bar.update()
    except KeyboardInterrupt as reason:
        stop(reason, f"{job.out} keeps {done} of {len(job.all)} results; the same command with --resume goes on")


def reported(results: Path, gradescope: bool) -> None:
    """Write what is made of results, print the class on one screen, and exit with 1 where somebody should look."""
    from minirl.course import report

    found = report.write(results, gradescope)
    print(report.summary(found))
    print(f"{results / 'report.html'} shows the class, {results / 'grades.csv'} has the points")
    print(f"{results / 'feedback'} has a page for each student")
    if any(result["status"] not in report.FINE for result in found):
        raise typer.Exit(1)


@app.command("report", rich_help_panel=TEACHING)
def report_(
    results: Annotated[Path, Argument(metavar="RESULTS", help="A folder that minirl grade wrote.", show_default=False)],
    gradescope: Annotated[bool, Option("--gradescope", help="Write Gradescope's results.json for each, too.")] = False,
) -> None:
    """Write a class's results anew from RESULTS/results/*.json, and print them on one screen.

    **Example**

        minirl report results

    **Prints** how many passed each question, the mistakes that were made most often, and who needs a look.

    **Writes** grades.csv, results.json, report.html and the students' pages, as minirl grade does.

    **Deciding by hand.** Write RESULTS/by_hand.csv, in a spreadsheet or an editor, and run this. No grading changes it.

        student_id,question,points,comment
        hana,a1.q3b,1,"The idea is right, but the loop never ends."
        lea,,,We have talked about the cell that hides errors.
        mo,,20,Shown on paper in the office hour.

    A line with a question gives that question the points. One without accepts the result as it is; with points, it says
    what the whole is worth. The student reads the comment. A line holds for what is handed in later, too, until you
    delete it.

    **Exit code**

    - 0: all are graded or decided
    - 1: somebody needs a look
    - 2: a file cannot be followed, and which
    """
    try:
        reported(results, gradescope)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


@app.command()
def check(
    file: Annotated[
        Path, Argument(metavar="FILE", help="Your notebook.", show_default=False, exists=True, dir_okay=False)
    ],
    root: Annotated[Path, Option(help="Folder with assignments/.")] = Path("."),
    cell_limit: Annotated[float, Option(min=1, help="Seconds for each cell.")] = 60,
) -> None:
    """Read your notebook as the grader will, before you hand it in, and say what counts.

    **Example**

        minirl check a1/a1.ipynb

    **Reads** FILE, and the assignment as it was given, from the folder assignments. Your answers may have moved to
    other cells.

    **Prints** for each question whether its check passes, the mistake, or the line that stopped; then the points. It
    runs your answers from top to bottom in a fresh kernel, as whoever opens your notebook would. The grader uses other
    inputs besides. Your file is not changed.

    **Exit code**

    - 0: all checks pass
    - 1: some do not
    - 2: FILE is not an assignment, and why
    """
    from minirl.course import grade as course

    try:
        result = course.checked(file, root, cell_limit)
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error
    for mark in result.questions:
        print(f"{'✔' if mark.status == 'passed' else '✘'} {mark.question} {mark.title}: {mark.message or 'passed.'}")
    for note in result.notes:
        print(f"Note: {note}")
    print(f"{result.file or file}: {result.status}, {result.points:g} of {result.of:g} points in these checks")
    if result.points < result.of:
        raise typer.Exit(1)


@app.command(rich_help_panel=TEACHING)
def release(
    names: Annotated[list[str], Argument(metavar="NAME", help="Assignments, such as a1.", show_default=False)],
    root: Annotated[Path, Option(help="Folder with solutions/.")] = Path("."),
    out: Annotated[Path, Option(help="The students' zip.")] = Path("minirl-assignments.zip"),
) -> None:
    """Pack assignments for students: without solutions, hidden tests and outputs, in one zip.

    **Example**

        minirl release a1 a2 --out students.zip

    **Reads** solutions/NAME/NAME.ipynb.

    **Writes** a zip with NAME/NAME.ipynb, to write into; assignments/NAME/NAME.ipynb, the same once more, for minirl
    check; and a README.md for students. They need minirl installed. The same sources give the same zip, to the byte.

    **Refuses** a zip that would show a line of a solution or of a hidden test.

    **Exit code**

    - 0: the zip is written
    - 2: nothing was written, and why
    """
    from minirl.course import release as course

    try:
        print(course.release(names, root, out))
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


@app.command(rich_help_panel=TEACHING)
def gradescope(
    name: Annotated[str, Argument(metavar="NAME", help="An assignment, such as a1.", show_default=False)],
    root: Annotated[Path, Option(help="Folder with solutions/.")] = Path("."),
    out: Annotated[Path | None, Option(help="The zip.", show_default="NAME-gradescope.zip")] = None,
    index: Annotated[
        str,
        Option(help="One more address where pip looks for packages, such as PyTorch's for CPUs.", show_default="none"),
    ] = "",
) -> None:
    """Pack an autograder for Gradescope: minirl as it is here, an assignment's source, and Gradescope's two scripts.

    Upload the zip where Gradescope asks for an autograder; each submission is then graded by minirl grade.

    **Example**

        minirl gradescope a1

    **Reads** solutions/NAME/NAME.ipynb, and the folder that this minirl is installed from.

    **Writes** a zip for instructors: it holds solutions and hidden tests.

    **Exit code**

    - 0: the zip is written
    - 2: nothing was written, and why
    """
    from minirl.course.gradescope import autograder

    try:
        print(autograder(name, root, out or Path(f"{name}-gradescope.zip"), index))
    except (ValueError, OSError) as error:
        raise Refused(str(error)) from error


@app.command(rich_help_panel=TEACHING)
def leaderboard(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="A folder of hand-ins, one folder each.", show_default=False)
    ],
    data: Annotated[
        Path | None,
        Option(help="GSM8K's folder: are these its problems?", show_default="not checked"),
    ] = None,
    out: Annotated[Path | None, Option(help="A JSON file for all results.", show_default="none")] = None,
) -> None:
    """Check the hand-ins of assignment 5, and rank them by what their samples say.

    **Examples**

        minirl leaderboard handed-in
        minirl leaderboard handed-in --data gsm8k --out ranks.json

    **Reads** in FOLDER a folder for each hand-in: a run, without its checkpoints, and two evaluations in it, made by

        minirl eval --model MODEL --out RUN/before
        minirl eval --run RUN --out RUN/after

    **Prints** a table for each way of measuring, since only what was measured in the same way can be ranked: task,
    prompt, judge, limits, temperature, problems, samples and seed. The model stands beside each name. Below stand what
    is not consistent, with the reason, and notes on hand-ins that share responses or seconds. It takes no GPU.

    **Points.** 9 for a hand-in in which everything fits, and 2 each for a gain above 0, 3 and 6 percentage points,
    interval included, on GSM8K. A smoke run, of a pocket model or on word problems, gets none for its gain. The
    questions of the notebook have points of their own, which minirl grade a5 gives.

    **Writes** with --out what each check said, as JSON.

    **What it protects from.** Every response is graded again from its text and every figure computed again, so what was
    edited is found; so are problems that were chosen, counted twice or taken from the training split (for GSM8K with
    --data), and two sides that were measured in different ways. Files cannot show which model wrote the samples, or on
    what it was trained. Where much is at stake, ask for the checkpoint and run minirl eval on it.

    **Exit code**

    - 0: the ranks are printed, also where some hand-ins are refused
    - 2: there is nothing to rank, and why
    """
    from minirl.course import handin

    try:
        known, said = language.plainly(handin.splits, data)
        for sentence in said:
            print(f"minirl: {sentence}", file=sys.stderr)
        results = handin.assess_all(folder, known)
    except MENDABLE as error:
        raise Refused(str(error)) from error
    print(handin.leaderboard(results))
    if out:
        handin.write_results(out, results)
        print(f"\n{out} holds what each check said")


def or_none(kind: type) -> Callable:
    """What reads an option's text as `kind`, or as None where the word none says so."""

    def read(text):
        try:
            return None if str(text).lower() == "none" else kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is neither a valid {kind.__name__} nor none") from None

    return read


def as_option(field: Field, help: str, panel: str, default: str | None = None) -> inspect.Parameter:
    """A field of a dataclass as an option of the command line."""
    kind, how = field.type, {"help": help[:1].upper() + help[1:], "rich_help_panel": panel}
    if field.name == "seed":
        how |= SEEDS
    if default:
        how["show_default"] = default
    if optional := get_args(kind):  # such as float | None
        how |= {"parser": or_none(optional[0]), "metavar": f"<{optional[0].__name__} or none>"}
        kind, how["show_default"] = object, str(field.default).lower()
    annotation = Annotated[kind, Option(**how)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation)


def notes(settings: type) -> dict[str, str]:
    """The comment beside each field of a dataclass."""
    return dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(settings), re.M))


def language_options(names: Iterable[str]) -> list[inspect.Parameter]:
    found, said = {field.name: field for field in fields(language.Settings)}, notes(language.Settings)
    return [as_option(found[name], said[name], "Problems in words") for name in names]


def config_options() -> list[inspect.Parameter]:
    from minirl.config import AGGREGATIONS, DELTAS, KL, LOSSES, Config

    said, others = notes(Config), {name: str(value) for name, value in language.TRAINING.items()}
    for name, known in {"delta": DELTAS, "loss": LOSSES, "aggregation": AGGREGATIONS, "kl": KL}.items():
        said[name] = f"one of {', '.join(known)}"
    others["learning_rate"] = "{small} with pocket, {other} with other models".format(**language.LEARNING_RATES)
    shown = {name: f"for sorting {getattr(Config, name)}, for language {other}" for name, other in others.items()}
    return [as_option(field, said.get(field.name, ""), "Training", shown.get(field.name)) for field in fields(Config)]


@cache
def add_settings(command) -> None:
    """Give a command the options that dataclasses describe, with the comment beside each field as its help.

    And give it typer's context, which names the options that stand on the command line.
    """
    added = language_options(ALL) + config_options() if command is train else language_options(jobs.EVALUATED)
    signature = inspect.signature(command)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    own[0] = own[0].replace(annotation=Context)
    command.__signature__ = signature.replace(parameters=[*own, *added])


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what the user can mend is answered by one sentence and exit code 2, without a traceback."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal's encoding may lack ✔, ×, or a student's name
    try:
        for name, command in {"train": train, "eval": evaluate}.items():
            if name in arguments:
                add_settings(command)
        sys.exit(app(arguments, standalone_mode=False))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except FloatingPointError as diagnosis:
        print(f"minirl: {diagnosis}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if message := error.format_message():
            print(f"minirl: {message}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
