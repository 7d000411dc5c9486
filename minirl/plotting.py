"""Pictures, one function each: drawn on the `ax` given, or a new one, and returned. Colours are colour-blind safe."""

import matplotlib.pyplot as plt
from cycler import cycler

from minirl import exact
from minirl.experiments import curve, mean_interval
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
