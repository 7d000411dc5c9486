"""A page for each student, in HTML: sentences and hints, no test and no answer.

One file without scripts. Whatever a student wrote arrives in it as text, never as HTML.
"""

import html
import re

WORDS = {
    "passed": "✔ passed", "wrong": "✘ not right", "error": "✘ error in your code", "not_started": "– not started",
    "timeout": "✘ too slow", "kernel_died": "✘ ended Python", "out_of_memory": "✘ too much memory",
    "needs_review": "? to be looked at", "by_hand": "✎ decided by hand",
    "graded": "graded", "not_attempted": "nothing was written yet", "missing": "nothing was handed in",
    "unreadable": "the file could not be read", "wrong_assignment": "this is another notebook",
    "grader_error": "grading failed; it is not your fault and will be done again",
}  # fmt: skip
SUMMED = {  # the same for a whole submission
    "timeout": "one answer was too slow", "kernel_died": "one answer ended Python",
    "out_of_memory": "one answer took too much memory", "needs_review": "somebody will look at it by hand",
}  # fmt: skip
OPEN = ("needs_review", "grader_error")  # points may still change
ASK = (
    "The grader uses other inputs besides those in the notebook. If something here looks wrong to you, bring this page "
    "to your instructor: a person can change every number on it."
)
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.2rem 0 .2rem}
p{margin:.3rem 0}h1,h3,td,li,p{overflow-wrap:anywhere}small,.of{color:#555;font-weight:normal}
code{font-size:.9em;background:#eee;padding:.1rem .3rem;white-space:pre-wrap}
section{border-left:.4rem solid #999;padding:0 0 0 .9rem;margin:.8rem 0}section h3,section p{margin:0}
section.passed{border-color:#0072b2}section.wrong,section.error{border-color:#d55e00}
section.timeout,section.kernel_died,section.out_of_memory{border-color:#d55e00}
"""


def escaped(text) -> str:
    return html.escape(str(text), quote=True)


def document(title: str, body: str, style: str = "") -> str:
    head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
    head += f"<title>{escaped(title)}</title><style>{STYLE}{style}</style>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body><h1>{escaped(title)}</h1>{body}</body></html>\n"


def page(result: dict) -> str:
    """What a student gets back."""
    so_far = " so far" if result["status"] in OPEN else ""
    words = SUMMED.get(result["status"]) or WORDS.get(result["status"], result["status"])
    head = f"<p><strong>{result['points']:g} of {result['of']:g} points{so_far}</strong>, {escaped(words)}.</p>"
    file = f"<p class='of'>The file: {escaped(result['file'])}</p>" if result["file"] else ""
    notes = [] if result["status"] == "grader_error" else result["notes"]  # of the grader, for who runs it
    listed = "".join(f"<li>{escaped(note[:1].upper() + note[1:])}</li>" for note in notes)
    questions = "".join(map(question, result["questions"]))
    body = f"{head}{file}{listed and f'<ul>{listed}</ul>'}{questions}<p><small>{ASK}</small></p>"
    return document(f"{result['assignment']} · {result['student']}", body)


def question(mark: dict) -> str:
    word, *sentences = found_out(mark)
    said = "".join(f"<p>{with_code(escaped(each))}</p>" for each in sentences)
    heading = f"<h3>{escaped(mark['question'])} {escaped(mark['title'])}</h3>"
    points = (
        f"<p><strong>{escaped(word)}</strong> <span class='of'>· {mark['points']:g} of {mark['of']:g} points</span></p>"
    )
    return f"<section class='{escaped(mark['status'])}'>{heading}{points}{said}</section>"


def with_code(sentence: str) -> str:
    """An escaped sentence; the line that stopped, at its end, is set as code."""
    return re.sub(r" \(line (\d+): (.*)\)$", r", in line \1 of the cell:<br><code>\2</code>", sentence)


def found_out(mark: dict) -> list[str]:
    """What a question got, in a word, and the sentences beside it where there are any."""
    said = "" if mark["status"] == "passed" else mark["message"].removeprefix("not started yet. ")
    said = [each[:1].upper() + each[1:] for each in [said, mark.get("comment")] if each]
    return [WORDS.get(mark["status"], mark["status"]), *said]
