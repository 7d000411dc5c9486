"""Pictures of a language run: where its memory goes, how it scores under several checks, what a figure is worth."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from minirl.llm import memory, plans
from minirl.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY

CHECK_COLORS = {"strict": BLUE, "boxed": ORANGE, "lenient": GREEN, "format": PURPLE}
Share = dict[str, float]  # share, low, high, as in minirl.llm.evaluation


def once(ax, **how) -> None:
    """A legend with every label once, however many things bear it."""
    handles, labels = ax.get_legend_handles_labels()
    found = dict(zip(labels, handles, strict=True))
    ax.legend(found.values(), found.keys(), **how)


def stacked(ax, rows: dict[str, dict[str, float]], colors: Sequence[str]) -> None:
    """A horizontal bar a row, with a piece for each of its parts, from top to bottom."""
    ax.set_axisbelow(True)
    for place, parts in enumerate(rows.values()):
        left = 0.0
        for (name, size), color in zip(parts.items(), colors, strict=True):
            ax.barh(place, size, left=left, color=color, label=name)
            left += size
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)


def memory_parts(plan: plans.Plan) -> dict[str, float]:
    """GB on paper: always there, the weights again in bfloat16, the largest phase, and an allocator's gaps."""
    found = memory.estimate(plans.published(plan.model), plan.workload())
    always = found.weights + found.gradients + found.optimizer + found.reference
    phases = found.kv_cache + found.sampling_logits, found.scoring, found.activations + found.update_logits
    parts = {"always there": always, "bfloat16 copies": found.half_copies, "largest phase": max(phases)}
    return {name: size / 1e9 for name, size in (parts | {"gaps": found.peak - sum(parts.values())}).items()}


def memory_bars(ax=None):
    """Every model on every card that has settings for it, with the card's budget as a line."""
    ax = ax or plt.subplots(figsize=(7, 2.8))[1]
    known = [(model, card) for card, models in plans.CARDS.items() for model in models]
    rows = {f"{model.split('/')[-1]}, {card} GB": memory_parts(plans.plan_for(model, card)) for model, card in known}
    stacked(ax, rows, (BLUE, GREEN, ORANGE, SKY))
    for place, (_, card) in enumerate(known):
        ends = [place - 0.45, place + 0.45]
        ax.plot([plans.budget(card) / 1e9] * 2, ends, color=BLACK, linewidth=2, label="budget")
    ax.set(xlabel="memory in GB, on paper")
    once(ax, ncols=5, loc="lower center", bbox_to_anchor=(0.35, 1), columnspacing=1, handlelength=1.2)
    return ax


def score_bars(scores: dict[str, dict[str, Share]], checks: Sequence[str], ax=None):
    """A group of bars for each entry, one for each check, with 95 % intervals."""
    ax = ax or plt.subplots(figsize=(7, 3))[1]
    for place, check in enumerate(checks):
        found = np.array([[100 * score[check][key] for key in ("share", "low", "high")] for score in scores.values()]).T
        where = np.arange(len(scores)) + 0.8 * (place - (len(checks) - 1) / 2) / len(checks)
        ends = abs(found[1:] - found[0])
        look = {"color": CHECK_COLORS[check], "label": check, "error_kw": {"linewidth": 1}}
        ax.bar(where, found[0], 0.8 / len(checks), yerr=ends, **look)
    ax.set_xticks(range(len(scores)), scores)
    ax.set(ylabel="% of problems, 95 % interval", ylim=(0, 105))
    ax.legend(ncols=len(checks), loc="lower center", bbox_to_anchor=(0.5, 1))
    return ax


def score_pairs(pairs: dict[str, tuple[Share, Share]], ax=None):
    """A row for each entry: its share before and after, with 95 % intervals."""
    ax = ax or plt.subplots(figsize=(7, 0.6 + 0.38 * len(pairs)))[1]
    for place, pair in enumerate(pairs.values()):
        for each, color, label, shift in zip(pair, (BLUE, ORANGE), ("before", "after"), (-0.13, 0.13), strict=True):
            ax.plot([100 * each["low"], 100 * each["high"]], [place + shift] * 2, color=color, linewidth=2)
            ax.plot(100 * each["share"], place + shift, "o", color=color, label=label)
    ax.set_yticks(range(len(pairs)), pairs)
    ax.set(ylim=(len(pairs) - 0.5, -0.5))
    once(ax, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
    return ax


def rate_histogram(rates: Sequence[float], samples: int, ax=None):
    """How many problems were solved in 0, 1, … of all `samples`; those that teach nothing are marked."""
    ax = ax or plt.subplots(figsize=(7, 2.8))[1]
    levels = np.arange(samples + 1)
    counts = np.bincount([round(rate * samples) for rate in rates], minlength=samples + 1)
    dropped = (levels == 0) | (levels == samples)
    ax.bar(levels[~dropped], counts[~dropped], color=BLUE, label="stays")
    ax.bar(levels[dropped], counts[dropped], color=RED, hatch="//", edgecolor="white", label="dropped")
    ax.set(xlabel=f"right answers of {samples}", ylabel="problems", xticks=levels)
    ax.legend()
    return ax


def widths(half_width, marked: dict[int, str], ax=None):
    """Half of an interval in points against the number of problems, with some numbers marked."""
    ax = ax or plt.subplots(figsize=(4, 3))[1]
    sizes = np.geomspace(20, 10_000, 60).round().astype(int).tolist()
    ax.loglog(sizes, [half_width(size) for size in sizes], color=BLUE)
    for size, name in marked.items():
        ax.plot(size, half_width(size), "o", color=RED)
        place = {"xytext": (6, 5), "textcoords": "offset points"}
        ax.annotate(f"{name}: ± {half_width(size):.1f}", (size, half_width(size)), **place)
    ax.set(xlabel="test problems", ylabel="± points, 95 %")
    ax.set_xticks((20, 100, 1000, 10_000), ("20", "100", "1,000", "10,000"))
    ax.set_yticks((1, 2, 5, 10, 20), (1, 2, 5, 10, 20))
    ax.minorticks_off()
    return ax
