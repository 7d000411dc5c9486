"""Explorers: pictures with controls, live where widgets run and still pictures where they don't.

The pictures are functions in `plotting`; here are only the controls, what counts as good input, and a quick redraw.
"""

import base64
import html
import io
import math
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from minirl import plotting

LABEL, SLIDER = {"description_width": "8.5em"}, {"width": "20.5em"}
MESSAGE = '<b role="alert" style="color: var(--jp-error-color0, #b00020)">{}</b>'


def parse(text: str) -> list:
    """The numbers in a text, between commas or blanks, brackets allowed; ValueError names what is not a number."""
    parts = re.sub(r"[\[\](),;]", " ", text.replace("−", "-")).split()
    for part in parts:
        try:
            finite = math.isfinite(float(part))
        except ValueError:
            finite = False
        if not finite:
            raise ValueError(f"“{part[:20]}” is not a finite number; please type numbers with commas between them.")
    return [float(part) for part in parts]


def listed(numbers: Iterable) -> str:
    """Numbers as a reader would type them."""
    return ", ".join(f"{float(number):g}" for number in numbers)


class Dial(NamedTuple):
    """A number's name and its slider: from `low` to `high` by `step`. A whole `step` means whole numbers only."""

    name: str
    low: float
    high: float
    step: float

    def check(self, number: float, limit: float | None) -> None:
        """ValueError unless the number is on the slider, or at most ±limit where there is one."""
        low, high = (self.low, self.high) if limit is None else (-limit, limit)
        whole = isinstance(self.step, int)
        if not low <= number <= high or (whole and number % 1):
            wanted = "a whole number" if whole else "a number"
            raise ValueError(f"{self.name} is {number:g}; expected {wanted} from {low:g} to {high:g}.")

    def slider(self):
        kind = widgets.IntSlider if isinstance(self.step, int) else widgets.FloatSlider
        ends = {"min": self.low, "max": self.high, "step": self.step}
        return kind(
            value=self.low, description=self.name, style={"description_width": "initial"}, layout=SLIDER, **ends
        )


class Numbers(widgets.VBox):
    """Numbers to type into a text field or to move with sliders, one for each; the two stay in step.

    At most as many as `dials`, at least `least`. Up to ±`limit`, if given, may be typed: the sliders then stretch.
    """

    def __init__(self, label: str, numbers: Iterable, dials: list, least: int | None = None, limit=None):
        self.label, self.dials, self.least, self.limit = label, dials, least or len(dials), limit
        self.following = False
        self.text = widgets.Text(listed(numbers), description=label, style=LABEL, continuous_update=False)
        self.text.layout.width, self.text.tooltip = "auto", "type numbers with commas between them, then press Enter"
        self.sliders = widgets.Box(layout={"flex_flow": "row wrap"})
        super().__init__([self.text, self.sliders], layout={"flex": "1 1 22em"})

    def on_move(self, callback: Callable) -> None:
        self.text.observe(callback, "value")

    def read(self) -> list:
        """The numbers in the text field, or a ValueError with one sentence about the first thing that is wrong."""
        numbers, most = parse(self.text.value), len(self.dials)
        if not self.least <= len(numbers) <= most:
            wanted = most if self.least == most else f"{self.least} to {most}"
            raise ValueError(f"Expected {wanted} numbers in “{self.label}”, got {len(numbers)}.")
        for dial, number in zip(self.dials, numbers, strict=False):
            dial.check(number, self.limit)
        return numbers

    def follow(self, numbers: list) -> None:
        """Put the sliders where the numbers are."""
        self.following = True
        if len(numbers) != len(self.sliders.children):
            self.sliders.children = [dial.slider() for dial in self.dials[: len(numbers)]]
            for slider in self.sliders.children:
                slider.observe(self.slider_moved, "value")
        for slider, number in zip(self.sliders.children, numbers, strict=True):
            slider.min, slider.max = min(slider.min, number), max(slider.max, number)
            slider.value = number
        self.following = False

    def slider_moved(self, change: dict) -> None:
        """The text field is what counts: write the sliders' numbers there."""
        if not self.following:
            self.text.value = listed(slider.value for slider in self.sliders.children)


class Choice(widgets.ToggleButtons):
    """One of a few values, to click."""

    def __init__(self, label: str, options: dict):
        super().__init__(options=options, description=label, style={**LABEL, "button_width": "5em"})
        self.layout = {"width": "100%", "display": "flex", "flex_flow": "row", "align_items": "center"}

    def on_move(self, callback: Callable) -> None:
        self.observe(callback, "value")

    def read(self):
        return self.value

    def follow(self, value) -> None:
        """Nothing else shows the value."""


class Screen:
    """A figure redrawn many times: its frame, ticks and labels are kept for as long as they stay the same."""

    def __init__(self, draw: Callable):
        self.draw, self.figure, self.kept, self.frame = draw, Figure((7, 3.2), 100, layout="none"), None, None
        self.canvas = FigureCanvasAgg(self.figure)

    def png(self, *values) -> bytes:
        """The picture of these values as a PNG."""
        with plt.rc_context():
            plotting.style()
            self.draw(*values, figure=self.figure)
            self.compose()
        file = io.BytesIO()
        Image.fromarray(np.asarray(self.canvas.buffer_rgba())).convert("RGB").save(file, "png", compress_level=1)
        return file.getvalue()

    def compose(self) -> None:
        """Draw what moves onto the frame that is kept, and the frame itself only if it changed."""
        moving = [(ax, artist) for ax in self.figure.axes for artist in plotting.moving_artists(ax)]
        frame = [(ax.get_xlim(), ax.get_ylim(), ax.get_xlabel(), [*ax.get_xticks()]) for ax in self.figure.axes]
        if frame != self.kept:
            for _, artist in moving:
                artist.set_visible(False)
            self.canvas.draw()
            self.kept, self.frame = frame, self.canvas.copy_from_bbox(self.figure.bbox)
        self.canvas.restore_region(self.frame)
        for ax, artist in sorted(moving, key=lambda pair: pair[1].zorder):
            artist.set_visible(True)
            ax.draw_artist(artist)


class Explorer(widgets.VBox):
    """Controls above a picture. Its output holds both, and each viewer shows one: Jupyter the controls that move the
    picture, GitHub, PDF and web pages the picture as a PNG.
    """

    def __init__(self, name: str, controls: list, draw: Callable):
        self.name, self.controls, self.screen = name, controls, Screen(draw)
        self.picture, self.message = widgets.Image(format="png", width=700, height=320), widgets.HTML()
        self.picture.layout.object_fit, self.message.layout.min_height = "contain", "2.2em"
        self.show(self.read())
        for control in controls:
            control.on_move(self.move)
        super().__init__([widgets.Box(controls, layout={"flex_flow": "row wrap"}), self.message, self.picture])
        self.add_class(name.replace("_", "-"))

    def read(self) -> list:
        return [control.read() for control in self.controls]

    def show(self, values: list) -> None:
        """Redraw, and only then let the controls follow: what cannot be drawn leaves everything as it was."""
        self.picture.value = self.screen.png(*values)
        for control, value in zip(self.controls, values, strict=True):
            control.follow(value)

    def move(self, change: dict | None = None) -> None:
        """A control was moved: a new picture, or one sentence about what is wrong under the last good picture."""
        try:
            self.show(self.read())
            self.message.value = ""
        except ValueError as error:
            self.message.value = MESSAGE.format(html.escape(str(error)))

    def _repr_mimebundle_(self, **kwargs) -> dict:
        still = {
            "text/plain": f"{self.name}: a still picture; run the cell in Jupyter to move its controls",
            "image/png": base64.b64encode(self.picture.value).decode(),
        }
        return {**super()._repr_mimebundle_(**kwargs), **still}


def explore_deltas(rewards: Iterable = (1, 0, 0, 2)) -> Explorer:
    """Edit the rewards of one group and see all five deltas side by side."""
    dials = [Dial(f"response {number}", 0.0, 5.0, 0.25) for number in range(1, 13)]
    group = Numbers("rewards", rewards, dials, least=2, limit=1000)

    def draw(numbers, figure):
        plotting.delta_bars(torch.tensor(numbers, dtype=torch.float64), figure)

    return Explorer("explore_deltas", [group], draw)


def explore_clipping(ratio: float = 1.1, clip_low: float = 0.2, clip_high: float = 0.2) -> Explorer:
    """Move one token's ratio, both clip bounds and the sign of δ; see the clipped objective and its gradient."""
    dials = [Dial("ratio ρ", 0.05, 2.5, 0.05), Dial("ε_low", 0.0, 1.0, 0.01), Dial("ε_high", 0.0, 1.0, 0.01)]
    numbers = Numbers("ρ, ε_low, ε_high", (ratio, clip_low, clip_high), dials)

    def draw(numbers, delta, figure):
        plotting.clip_region(*numbers, delta, figure)

    return Explorer("explore_clipping", [numbers, Choice("sign of δ", {"δ > 0": 1.0, "δ < 0": -1.0})], draw)


def explore_kl(logits: Iterable = (1, 0, 0, -1), ref_logits: Iterable = (0, 0, 0, 0)) -> Explorer:
    """Move the logits of π and π_ref; see the exact KL(π‖π_ref), and k1, k2, k3 with their exact mean and spread."""
    dials = [Dial(f"token {token}", -5.0, 5.0, 0.1) for token in range(8)]
    policies = [Numbers(name, x, dials, least=2) for name, x in (("logits of π", logits), ("of π_ref", ref_logits))]

    def draw(numbers, ref_numbers, tokens, figure):
        if len(numbers) != len(ref_numbers):
            raise ValueError(f"π has {len(numbers)} tokens, π_ref has {len(ref_numbers)}; expected the same number.")
        plotting.kl_estimators(torch.tensor(numbers), torch.tensor(ref_numbers), tokens, figure)

    samples = Choice("tokens sampled", {str(count): count for count in (1, 4, 16, 64)})
    return Explorer("explore_kl", [*policies, samples], draw)


def explore_policy(before, after, prompt: Iterable | None = None) -> Explorer:
    """Type a prompt and see how two sorting policies, one before and one after training, would answer it."""
    if (before.vocab_size, before.length) != (after.vocab_size, after.length):
        raise ValueError("the policies before and after must have the same vocab_size and length")
    dials = [Dial(f"number {place}", 0, before.vocab_size - 1, 1) for place in range(1, before.length + 1)]
    default = [token % before.vocab_size for token in reversed(range(before.length))]
    numbers = Numbers("prompt", default if prompt is None else prompt, dials)

    def draw(tokens, figure):
        plotting.policy_heatmaps(before, after, torch.tensor(tokens).long(), figure)

    return Explorer("explore_policy", [numbers], draw)
