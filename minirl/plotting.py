"""Pictures, one function each: drawn on the `ax` given, or a new one, and returned. Colours are colour-blind safe."""

import matplotlib.pyplot as plt
from cycler import cycler

from minirl.experiments import curve, mean_interval

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
