"""The class on one page, in HTML: what it has not understood, question by question, and who needs a look."""

from statistics import mean, median
from urllib.parse import quote

from minirl.course.marks import FINE
from minirl.course.pages import SUMMED, WORDS, document, escaped
from minirl.course.tally import KINDS, kinds, ranked, reasons, shares, taken

TO_DO = {
    "timeout": "The other answers count. Accept this by hand, or grade again with a longer <code>--cell-limit</code>.",
    "kernel_died": "The other answers count. Accept this by hand.",
    "out_of_memory": "The other answers count. Accept this by hand, or grade again with more <code>--memory</code>.",
    "needs_review": "Open the notebook and look for what is named here. Take it out and grade again, or decide.",
    "unreadable": "There is nothing to grade. Ask for the file again.",
    "missing": "There is nothing to grade. Ask for a notebook.",
    "wrong_assignment": "There is nothing to grade. Ask for the right notebook.",
    "grader_error": "Our fault, not the student's. Grade it again; if this stays, report it to us.",
}
SETTLE = (
    "<p><strong>To decide by hand</strong>, write a line into <code>by_hand.csv</code> beside this page and run "
    "<code>minirl report</code>. Its columns are <code>student_id,question,points,comment</code>. A line without a "
    "question accepts the result as it is; one with a question gives it the points. The student reads the comment. No "
    "grading changes that file.</p>"
    "<p><strong>To grade again</strong>, run the same command with <code>--resume</code>: it takes new and changed "
    "notebooks, and those whose file in <code>results</code> beside this page you delete.</p>"
)
THREATS = (
    "Grading stops accidents and casual cheating: a student's code runs with the checks in one process, so it does not "
    "protect against somebody who attacks it in earnest."
)
ISOLATION = {
    "full": "no network, no other processes, no files but its own, and limits on time and memory",
    "limits": "limits on time and memory, but with the network and all files of this user",
    "none": "no protection at all on this system",
}
MOST = 10  # mistakes at the top
IN_SHORT = {**WORDS, **SUMMED, "needs_review": "needs a look"}
STYLE = """
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #ddd;padding:.3rem .6rem .3rem 0;text-align:left;vertical-align:top;font-weight:normal}
thead th{font-weight:bold}.n{text-align:right;white-space:nowrap;width:2.5rem}.id{white-space:nowrap;width:4rem}
.bar{display:flex;height:1rem;margin:.25rem 0;background:#f4f4f4}.bar i,.key i{print-color-adjust:exact}
.key i{display:inline-block;width:1.6rem;height:.8rem;margin-right:.4rem}
.key span{margin-right:1.2rem;white-space:nowrap}
.k0{background:#0072b2}.k1{background:repeating-linear-gradient(45deg,#e69f00 0 5px,#fff2d0 5px 8px)}
.k2{background:#ccc}.k3{background:repeating-linear-gradient(90deg,#882255 0 3px,#fff 3px 5px)}
.share{width:60%}.who{width:30%}@media(max-width:30rem){.wide{display:none}.share{width:45%}}
"""


def class_page(found: list[dict], whole: dict) -> str:
    parts = [
        overview(found),
        mistakes(whole),
        questions(whole),
        to_look_at(found),
        everybody(found),
        small_print(found),
    ]
    return document(f"{found[0]['assignment']} · the class", "".join(parts), STYLE)


def overview(found: list[dict]) -> str:
    """How many have what share of the points."""
    points, of = taken(found), found[0]["of"]
    said = f"; mean {mean(points):.1f}, median {median(points):g} of {of:g} points" if points else ""
    rows = [
        f"<tr><th scope='row'>{name}</th><td class='share'>{bar([count], len(points))}</td><td>{count}</td></tr>"
        for name, count in shares(points, of).items()
    ]
    head = f"<p>{len(found)} submissions, {len(points)} of them graded without trouble{said}.</p>"
    return f"{head}<p>How many reached what share of the points:</p><table>{''.join(rows)}</table>" if points else head


def bar(counts: list[int], of: int) -> str:
    """A piece for each count; not for who listens, as the numbers stand beside it."""
    widths = enumerate(100 * count / max(of, 1) for count in counts)
    pieces = "".join(f"<i class='k{place}' style='width:{width:.2f}%'></i>" for place, width in widths)
    return f"<div class='bar' aria-hidden='true'>{pieces}</div>"


def mistakes(whole: dict) -> str:
    made = ranked(whole)
    rows = "".join(mistake(count, says, id) for count, id, says in made[:MOST])
    more = f"<p class='of'>{len(made) - MOST} more stand at their questions.</p>" if len(made) > MOST else ""
    body = f"<table>{rows}</table>{more}" if rows else "<p>No mistake that is known by name was made.</p>"
    return f"<h2>What the class has not understood</h2>{body}"


def mistake(count: int, says: str, id: str = "") -> str:
    name = id and f"<td class='id'>{escaped(id)}</td>"
    return f"<tr><td class='n'>{count} ×</td>{name}<td>{escaped(says)}</td></tr>"


def questions(whole: dict) -> str:
    key = "".join(f"<span><i class='k{place}'></i>{kind}</span>" for place, kind in enumerate(KINDS))
    rows = "".join(question(id, each) for id, each in whole["questions"].items())
    return f"<h2>Question by question</h2><p class='key'>{key}</p>{rows}" if rows else ""


def question(id: str, each: dict) -> str:
    found = kinds(each)
    said = ", ".join(f"{count} {kind}" for kind, count in found.items() if count)
    made = {**each["mistakes"], "wrong, for a reason that has no name here": each["unnamed"]}
    made["an error in the student's own code"] = each["statuses"].get("error", 0)
    rows = "".join(mistake(count, says) for says, count in made.items() if count)
    heading = f"{escaped(id)} {escaped(each['title'])} <span class='of'>· {each['of']:g} points</span>"
    return f"<h3>{heading}</h3>{bar([*found.values()], sum(found.values()))}<p>{said}</p><table>{rows}</table>"


def to_look_at(found: list[dict]) -> str:
    look = [result for result in found if result["status"] not in FINE]
    if not look:
        return "<h2>To look at</h2><p>Nobody.</p>"
    rows = "".join(
        f"<tr><td class='who'>{link(result)}</td><td><strong>{escaped(words(result))}</strong> · <span class='of'>"
        f"{escaped(': '.join(reasons(result)))}</span><br>{TO_DO.get(result['status'], '')}</td></tr>"
        for result in look
    )
    return f"<h2>To look at: {len(look)}</h2><table>{rows}</table>{SETTLE}"


def everybody(found: list[dict]) -> str:
    rows = "".join(
        f"<tr><td class='who'>{link(result)}</td><td class='n'>{result['points']:g}</td><td>{escaped(words(result))}"
        f"{', by hand' if result.get('by_hand') else ''}</td><td class='wide of'>{escaped(result['file'])}</td></tr>"
        for result in found
    )
    head = "<thead><tr><th>Student</th><th class='n'>Points</th><th>Status</th><th class='wide'>File</th></tr></thead>"
    return f"<h2>Everybody</h2><table>{head}{rows}</table>"


def words(result: dict) -> str:
    return IN_SHORT.get(result["status"], result["status"])


def link(result: dict) -> str:
    return f"<a href='feedback/{quote(result['key'])}.html'>{escaped(result['student'])}</a>"


def small_print(found: list[dict]) -> str:
    kinds = sorted({result["isolation"] for result in found} & set(ISOLATION))
    said = "".join(f" Isolation: {kind} ({ISOLATION[kind]})." for kind in kinds)
    return f"<p><small>{THREATS}{said}</small></p>"
