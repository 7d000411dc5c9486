"""Pictures, one function each: drawn on the `ax` given, or a new one, and returned. Colours are colour-blind safe."""

import itertools
import math
from collections.abc import Collection

import matplotlib.pyplot as plt
import numpy as np
import torch
from cycler import cycler
from jaxtyping import Float, Int
from torch import Tensor

from minirl import exact, kl
from minirl.deltas import DELTAS
from minirl.experiments import curve, mean_interval
from minirl.losses import clipped
from minirl.rollout import response_mask

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
DELTA_COLORS = {"raw": RED, "max_only": ORANGE, "centered": BLUE, "leave_one_out": SKY, "normalized": GREEN}


def style() -> None:
    """Set the course's look: legible at notebook width, no top and right frame, colour-blind-safe colours."""
    plt.rcParams.update(
        {
            "figure.figsize": (7, 3.6),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY]),
        }
    )


def learning_curves(runs: dict[str, list[list[dict]]], metric: str, ylabel: str, ax=None):
    """Mean over seeds of `metric` against epochs, with a 95 % band; one line for each entry of `runs`."""
    ax = ax or plt.subplots()[1]
    for label, histories in runs.items():
        epochs, values = curve(histories, metric)
        mean, half = mean_interval(values)
        color = DELTA_COLORS.get(label)
        (line,) = ax.plot(epochs, mean, label=label, color=color)
        ax.fill_between(epochs, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set(xlabel="epoch", ylabel=ylabel)
    ax.legend()
    return ax


def band(x, values, label: str | None = None, color: str | None = None, ax=None):
    """Mean of `values` [seeds, x] as a line, with a 95 % band over the seeds."""
    ax = ax or plt.subplots()[1]
    mean, half = mean_interval(values)
    (line,) = ax.plot(x, mean, label=label, color=color)
    ax.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
    return ax


def response_tree(policy, prompt, names: str, reward, values: bool = False, ax=None):
    """Every response of a small policy as a path from left to right, as wide as it is probable; rewarded ones in bold.

    `names` has a letter for each token. With `values` a node is coloured by, and shows, the reward expected from there.
    """
    ax = ax or plt.subplots(figsize=(7, 4.4))[1]
    place, reach, value = tree_nodes(policy, prompt, names, reward)
    for text, (x, y) in place.items():
        if text:
            ax.plot(*zip(place[text[:-1]], (x, y), strict=True), color=SKY, lw=0.6 + 9 * reach[text], zorder=1)
        color = plt.cm.YlGn(0.65 * value[text]) if values else "white"
        shown = f"{value[text]:.2f}" if values else text[-1:] or "start"
        box = {"boxstyle": "round", "fc": color, "ec": "grey"}
        ax.text(x, y, shown, ha="center", va="center", fontsize=9, bbox=box)
        if len(text) == policy.length or text.endswith(names[policy.end_token]):
            label, weight = f"{text:<{policy.length}} {reach[text]:.3f}", "bold" if value[text] else "normal"
            ax.text(x + 0.16, y, label, va="center", fontsize=9, family="monospace", weight=weight)
    ax.set(xlim=(-0.2, policy.length + 0.7), xticks=range(policy.length + 1), yticks=[], xlabel="tokens written")
    ax.grid(False)
    ax.spines["left"].set_visible(False)
    return ax


def tree_nodes(policy, prompt, names: str, reward):
    """For each beginning of a response: its place (tokens written, row), its probability, its expected reward."""
    every, log_probs = exact.distribution(policy, prompt[None])
    lengths = response_mask(every[0], policy.end_token).sum(-1).tolist()
    texts = ["".join(names[token] for token in row[:n]) for row, n in zip(every[0].tolist(), lengths, strict=True)]
    probs, rewards = log_probs[0].exp().tolist(), reward(prompt[None], every)[0].tolist()
    rows: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        for n in range(len(text) + 1):
            rows.setdefault(text[:n], []).append(row)
    place = {text: (len(text), -sum(below) / len(below)) for text, below in rows.items()}
    reach = {text: sum(probs[row] for row in below) for text, below in rows.items()}
    return place, reach, {text: sum(probs[row] * rewards[row] for row in rows[text]) / reach[text] for text in rows}


PANELS = {
    "reward_mean": "reward, mean of the batch",
    "held_out_exact": "share of held-out prompts answered right",
    "entropy": "entropy in nats per token",
    "grad_norm": "gradient norm before clipping",
    "kl_k3": "KL to the reference (k3) in nats per token",
}


def small_multiples(runs: dict[str, list[dict]], panels: dict[str, str] = PANELS):
    """A figure with one small picture for each metric that any run has, each run in the same colour throughout."""
    shown = [metric for metric in panels if any(metric in epoch for history in runs.values() for epoch in history)]
    figure, axes = plt.subplots(-(-len(shown) // 2), 2, figsize=(9, 2.7 * -(-len(shown) // 2)), squeeze=False)
    for ax, metric in zip(axes.flat, shown, strict=False):
        for history in runs.values():
            points = [(epoch["epoch"], epoch[metric]) for epoch in history if metric in epoch]
            ax.plot(*zip(*points, strict=True)) if points else ax.plot([], [])
        ax.set_title(panels[metric], fontsize="medium", loc="left")
        ax.set_xlabel("epoch")
    for ax in axes.flat[len(shown) :]:
        ax.axis("off")
    figure.legend(axes[0, 0].lines, list(runs), loc="outside upper center", ncols=3)
    return figure


def round_up(size: float) -> float:
    """The next of … 0.7, 1, 1.5, 2, 3, 5, 7, 10 …: limits that stay the same while the data move a little."""
    power = 10.0 ** math.floor(math.log10(size))
    return next(step * power for step in (1, 1.5, 2, 3, 5, 7, 10) if size <= step * power * (1 + 1e-9))


def moving_artists(ax) -> list:
    """What was drawn into the axes. All else (frame, ticks, labels) can be kept from one redraw to the next."""
    return [*ax.images, *ax.patches, *ax.collections, *ax.lines, *ax.texts]


def fixed_axes(figure, columns: int, **grid) -> list:
    """Empty axes side by side at fixed places: the figure's own from an earlier drawing, wiped, or new ones."""
    figure = figure or plt.figure(figsize=(7, 3.2), layout="none")
    if not figure.axes:
        figure.subplots(1, columns, gridspec_kw={"left": 0.1, "right": 0.98, "top": 0.8, "bottom": 0.16, **grid})
    for ax in figure.axes:
        for artist in moving_artists(ax):
            artist.remove()
        ax.containers.clear()
    return figure.axes


def note(ax, text: str) -> None:
    """A line of text above the axes."""
    ax.text(0.5, 1.02, text, transform=ax.transAxes, ha="center", va="bottom")


def legend_above(axes: list) -> None:
    """One legend for all the axes, in a row at the top of the figure."""
    if not axes[0].figure.legends:
        entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        look = {"ncols": 5, "fontsize": 9.5, "columnspacing": 1.2, "handlelength": 1.6, "handletextpad": 0.5}
        axes[0].figure.legend(entries.values(), entries.keys(), loc="upper center", **look)


def delta_bars(rewards: Float[Tensor, " group"], figure=None):
    """One group's rewards under all five deltas, side by side; returns the figure."""
    (ax,), count = fixed_axes(figure, 1, top=0.9), len(rewards)
    deltas = torch.stack([delta(rewards[None])[0] for delta in DELTAS.values()])
    starts = np.arange(len(DELTAS)) * (count + 1.5)
    for start, name, values in zip(starts, DELTAS, deltas.tolist(), strict=True):
        bars = ax.bar(start + np.arange(count), values, color=DELTA_COLORS[name])
        if count <= 6:
            ax.bar_label(bars, [f"{round(value, 2) + 0:g}" for value in values], fontsize=9, padding=2, rotation=90)
    ax.axhline(0, color=BLACK, linewidth=0.8)
    low, high = round_up(max(-deltas.min().item(), 0.1)), round_up(max(deltas.max().item(), 0.5))
    room = 0.18 * (low + high)  # for the numbers at the bars
    ax.set(xlim=(-1, starts[-1] + count), ylim=(-low - room, high + room), ylabel="δ, in units of reward")
    ax.set_xticks(starts + (count - 1) / 2, DELTAS)
    ax.set_xlabel(f"delta, with a bar for each of the {count} responses in order")
    ax.set_title("One group under five deltas (normalized is in standard deviations)", fontsize=11, y=1)
    return ax.figure


def clip_curves(ratios: Float[Tensor, " points"], clip_low: float, clip_high: float, delta: float) -> tuple:
    """The clipped objective (−loss) at each ratio ρ, and its gradient with respect to log π: [points] each."""
    log_probs = ratios.log()[None, None].requires_grad_()
    deltas = torch.full((1, 1), delta).to(ratios)
    objective = -clipped(log_probs, torch.zeros_like(log_probs), deltas, clip_low, clip_high)
    (gradient,) = torch.autograd.grad(objective.sum(), log_probs)
    return objective.detach()[0, 0], gradient[0, 0]


def clip_region(ratio: float, clip_low: float, clip_high: float, delta: float, figure=None):
    """One token's clipped objective and gradient against its ratio, shaded where the gradient is cut to 0."""
    axes = fixed_axes(figure, 2, wspace=0.24)
    ratios = torch.cat([torch.linspace(0.01, 2.5, 500).double(), torch.tensor([ratio]).double()])
    curves = [curve.numpy() for curve in clip_curves(ratios, clip_low, clip_high, delta)]
    cut = (1 + clip_high, 2.5) if delta > 0 else (0, 1 - clip_low)
    ratios = ratios[:-1].numpy()
    for ax, values, name in zip(axes, curves, ("objective", "its gradient by log π"), strict=True):
        ax.axvspan(*cut, color=YELLOW, alpha=0.5, linewidth=0, label="gradient cut to 0")
        for bound in (1 - clip_low, 1 + clip_high):
            ax.axvline(bound, color=GREEN, linestyle=":", label="1 − ε_low, 1 + ε_high")
        ax.plot(ratios, ratios * delta, "--", color=BLACK, linewidth=1, label="not clipped")
        ax.plot(ratios, values[:-1], color=BLUE, linewidth=2.5, label="clipped")
        ax.plot(ratio, values[-1], "o", color=RED, markersize=9, label="this token")
        ax.set(xlim=(0, 2.5), ylim=(-0.1, 2.6) if delta > 0 else (-2.6, 0.1))
        ax.set(xlabel="ratio ρ = π / π_old", ylabel="in units of δ")
        note(ax, f"{name}: {values[-1] + 0:.2f}")
    legend_above(axes)
    return axes[0].figure


def estimator_moments(logits: Float[Tensor, " vocab"], ref_logits: Float[Tensor, " vocab"]) -> dict[str, tuple]:
    """For k1, k2, k3: the value at each token [vocab], and its exact mean and standard deviation under π, in nats."""
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)
    moments = {}
    for name, estimator in kl.KL.items():
        values = estimator(log_p, log_q)
        mean = (log_p.exp() * values).sum()
        moments[name] = (values, mean.item(), (log_p.exp() * (values - mean) ** 2).sum().sqrt().item())
    return moments


def estimates(values: Float[Tensor, " vocab"], probs: Float[Tensor, " vocab"], tokens: int) -> np.ndarray:
    """2,000 estimates, seeded, each the mean value of `tokens` tokens drawn from `probs`."""
    weights = probs.double().numpy()
    counts = np.random.default_rng(0).multinomial(tokens, weights / weights.sum(), size=2000)
    return counts @ values.double().numpy() / tokens


def estimator_rows(ax, logits: Float[Tensor, " vocab"], ref_logits: Float[Tensor, " vocab"], tokens: int) -> None:
    """k1, k2, k3 from `tokens` samples of π, one row each: a histogram above its exact mean ± standard deviation."""
    moments = estimator_moments(logits, ref_logits)
    ends = [mean + side * std / tokens**0.5 for _, mean, std in moments.values() for side in (-3, 3)]
    edges = np.linspace(-round_up(max(-min(ends), 0.05)), round_up(max(*ends, 0.1)), 100)
    for row, (values, mean, std) in zip((2, 1, 0), moments.values(), strict=True):
        counts = np.histogram(estimates(values, logits.softmax(-1), tokens), edges)[0]
        heights = row + 0.65 * counts / max(counts.max(), 1)
        ax.stairs(heights, edges, baseline=row, fill=True, color=SKY, label="2,000 estimates")
        spread = std / tokens**0.5
        ax.errorbar(mean, row - 0.12, xerr=spread, color=RED, fmt="o", capsize=4, label="exact mean ± std")
        ax.text(1.02, row + 0.1, f"{mean:.3g} ± {spread:.3g}", color=RED, transform=ax.get_yaxis_transform())
    ax.set_yticks((2, 1, 0), moments)
    ax.set(xlim=(edges[0], edges[-1]), ylim=(-0.4, 2.8))
    ax.set_xlabel(f"KL(π‖π_ref) from {tokens} token{'s'[: tokens - 1]}, nats")


def kl_estimators(logits: Float[Tensor, " vocab"], ref_logits: Float[Tensor, " vocab"], tokens: int = 1, figure=None):
    """Two policies over a few tokens, and what k1, k2, k3 make of samples of π; returns the figure."""
    left, right = axes = fixed_axes(figure, 2, width_ratios=(2, 3), wspace=0.15, right=0.83)
    places, truth = np.arange(len(logits)), kl.exact(logits, ref_logits).item()
    left.bar(places - 0.2, logits.softmax(-1).numpy(), 0.4, color=BLUE, label="π")
    left.bar(places + 0.2, ref_logits.softmax(-1).numpy(), 0.4, color=ORANGE, label="π_ref")
    left.set(xlabel="token", ylabel="probability", xlim=(-0.6, len(logits) - 0.4), ylim=(0, 1), xticks=places)
    estimator_rows(right, logits, ref_logits, tokens)
    right.axvline(truth, color=BLACK, linestyle="--", label="exact KL")
    note(right, f"exact KL {truth:.3f} nats")
    legend_above(axes)
    return left.figure


def heat_map(ax, probs: Float[Tensor, "token vocab"]) -> None:
    """Probabilities as shades, and in per cent where they round to at least 1."""
    ax.imshow(probs.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for position, token in (probs >= 0.005).nonzero().tolist():
        share = probs[position, token].item()
        ax.text(token, position, f"{share:.0%}", ha="center", va="center", color="white" if share > 0.6 else BLACK)
    ax.grid(visible=False)
    ax.set(xlabel="token", xticks=range(probs.shape[1]), ylabel="position in the answer")
    ax.set_yticks(range(len(probs)), range(1, len(probs) + 1))


def policy_heatmaps(before, after, prompt: Int[Tensor, " prompt"], figure=None):
    """π(token) at each position for one prompt, under two policies; the right answer, sorted(prompt), is framed."""
    axes = fixed_axes(figure, 2, wspace=0.24)
    answer, rows = prompt.sort().values, torch.arange(len(prompt))
    for ax, policy, name in zip(axes, (before, after), ("before", "after"), strict=True):
        probs = policy.position_logits(prompt[None])[0].detach().softmax(-1)
        heat_map(ax, probs)
        frame = {"fill": False, "edgecolor": RED, "linewidth": 3, "label": "right answer"}
        ax.barh(rows.numpy(), 0.9, height=0.9, left=answer.numpy() - 0.45, **frame)
        note(ax, f"{name}: P(right answer) = {probs[rows, answer].prod().item():.1%}")
    legend_above(axes)
    return axes[0].figure


COURSE = {  # stage: its colour, and its notebooks with what they follow
    "a bandit with\ntwo states": (
        BLUE,
        {"00 start here": "", "01 policy gradient": "L17.1–2", "02 baselines": "L17.3–6"},
    ),
    "sorting": (GREEN, {"03 sorting": "L17.7–14, 19–21", "04 ratios,\nclipping, KL": "L17.15–18"}),
    "a pocket-sized\nQwen": (
        ORANGE,
        {
            "05 from sorting\nto language": "L17.1, 22",
            "06 GRPO and\nits critics": "L16, surveys",
            "07 PPO and value\nfunctions": "L16, survey",
            "08 preferences": "L16",
            "09 reasoning\nrecipes": "L16, survey",
            "10 what RL learns": "survey",
            "11 tools": "survey",
        },
    ),
    "Qwen": (RED, {"12 Qwen on\nGSM8K": "GPU", "13 scaling out": ""}),
}


def course_map(ready: Collection[str], figure=None):
    """The course from bandit to Qwen, a stage a row or two; notebooks whose number is in `ready` are filled in."""
    (ax,) = fixed_axes(figure, 1, left=0.01, right=0.99, top=0.98, bottom=0.02)
    row, middles = 0, []
    for stage, (color, notebooks) in COURSE.items():
        middles.append(row + (len(notebooks) > 4) / 2)
        ax.text(0.45, middles[-1], stage, fontweight="bold", ha="center", va="center")
        for place, (name, covers) in enumerate(notebooks.items()):
            x, y, known = 1 + place % 4, row + place // 4, name[:2] in ready
            shade = {"facecolor": (color, 0.3 if known else 0), "edgecolor": color, "linestyle": "-" if known else ":"}
            ax.barh(y, 0.92, height=0.84, left=x, linewidth=1.5, **shade)
            ax.text(x + 0.46, y, f"{name}\n{covers}".strip(), ha="center", va="center", fontsize=9)
        row = y + 1
    for above, below in itertools.pairwise(middles):
        ax.annotate("", (0.45, below - 0.3), (0.45, above + 0.3), arrowprops={"arrowstyle": "->"})
    ax.set(xlim=(0, 5), ylim=(row - 0.5, -0.5))
    ax.set_axis_off()
    return ax.figure


def time_scales(epochs: int, inner_steps: int, reference_every: int, ax=None):
    """The training loop's three clocks, a row each: the policy's steps, its responses, the reference."""
    ax = ax or plt.subplots(figsize=(7, 2.6))[1]
    steps = epochs * inner_steps
    rows = {  # name: (length of one piece in gradient steps, colour, what happens at its start)
        "reference": (inner_steps * reference_every, PURPLE, "copy the policy"),
        "responses": (inner_steps, ORANGE, "sample,\nfreeze log π"),
        "policy": (1, BLUE, ""),
    }
    for place, (length, color, event) in enumerate(rows.values()):
        for start in range(0, steps, length):
            width = min(length, steps - start)
            ax.barh(place, width, left=start, color=color, edgecolor="white", linewidth=2, alpha=0.75)
            ax.text(start + 0.12, place, event, va="center", fontsize=8.5)
    labels = [f"{name}\nevery {length} steps".replace(" 1 steps", " step") for name, (length, *_) in rows.items()]
    ax.set_yticks(range(3), labels)
    ax.set(xlim=(0, steps), ylim=(2.5, -0.5), xlabel="gradient step", xticks=range(0, steps + 1, inner_steps))
    ax.grid(visible=False)
    return ax


def sorting_model(policy, ax=None):
    """The sorting policy from prompt to logits: its weights as boxes, and above them what flows, with its size."""
    ax = ax or plt.subplots(figsize=(7, 3))[1]
    (vocab, dim), places = policy.embedding.shape, range(1, policy.length + 1)
    columns = {  # x: (colour, a name for each row); the sum has one row
        0.0: (SKY, [f"token $x_{s}$" for s in places]),
        1.5: (ORANGE, [f"$C_{s}$\n{dim} × {dim}" for s in places]),
        2.8: (YELLOW, ["sum"]),
        4.1: (BLUE, [f"$D_{t}$\n{dim} × {dim}" for t in places]),
        5.6: (GREEN, [f"logits of\nplace {t}" for t in places]),
    }
    flows = f"look up in E\n{vocab} × {dim}", f"{dim} numbers", f"{dim} numbers", f"compare with E\n{dim} → {vocab}"
    connect_columns(ax, columns)
    for (left, right), flow in zip(itertools.pairwise(columns), flows, strict=True):
        ax.text((left + right) / 2, 0.35, flow, ha="center", va="center", fontsize=9)
    ax.set(xlim=(-0.5, 6.1), ylim=(policy.length + 0.5, 0))
    ax.set_axis_off()
    return ax


def connect_columns(ax, columns: dict) -> None:
    """Boxes in columns, and arrows between them: along each row, or from and to the middle where a column has one."""
    most = max(len(names) for _, names in columns.values())
    rows = {x: range(1, most + 1) if len(names) == most else [(1 + most) / 2] for x, (_, names) in columns.items()}
    for x, (color, names) in columns.items():
        box = {"boxstyle": "round,pad=0.35", "fc": (color, 0.35), "ec": color}
        for y, name in zip(rows[x], names, strict=True):
            ax.text(x, y, name, ha="center", va="center", fontsize=9.5, bbox=box)
    for left, right in itertools.pairwise(columns):
        for row in range(most):
            ends = [(x + side, rows[x][row % len(rows[x])]) for x, side in ((right, -0.4), (left, 0.4))]
            ax.annotate("", *ends, arrowprops={"arrowstyle": "->", "color": "grey"})


def token_strip(words: list[str], values: list[float], notes: Collection = (), per_line=12, cmap="Blues", ax=None):
    """Tokens as boxes, `per_line` in a line, shaded by `values` from 0 to 1; nan is left white, and "" is grey padding.

    `notes`, one a token, stand below the boxes in small print.
    """
    lines = -(-len(words) // per_line)
    if ax is None:
        margins = {"left": 0.01, "right": 0.99, "bottom": 0.01, "top": 0.99}
        ax = plt.subplots(figsize=(7, 0.55 * lines + 0.1), layout="none", gridspec_kw=margins)[1]
    for index, (word, value) in enumerate(zip(words, values, strict=True)):
        row, column = divmod(index, per_line)
        fill = "lightgrey" if not word else "white" if math.isnan(value) else plt.get_cmap(cmap)(0.6 * value)
        ax.barh(row, 0.96, height=0.55, left=column, color=fill, edgecolor="grey", linewidth=0.6)
        size = min(9.5, 750 / per_line / max(len(word), 1))  # so that the longest word fits into its box
        ax.text(column + 0.48, row, word, ha="center", va="center", fontsize=size, parse_math=False)
    for index, text in enumerate(notes):
        row, column = divmod(index, per_line)
        ax.text(column + 0.48, row + 0.42, text, ha="center", va="center", fontsize=8, color="dimgrey")
    ax.set(xlim=(-0.02, per_line), ylim=(lines - 0.4, -0.4))
    ax.set_axis_off()
    return ax
