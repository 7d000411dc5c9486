"""The pictures of the explorers: what they draw are the core's numbers, read back from the artists."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from torch.testing import assert_close

from minirl import SortingPolicy, kl, plotting
from minirl.deltas import DELTAS

pytestmark = pytest.mark.usefixtures("float64")
REWARDS = torch.tensor([1.0, 0.0, 0.0, 2.5], dtype=torch.float64)
LOGITS, REF_LOGITS = torch.tensor([[1.0, 0.2, -0.5, -2.0], [0.0, 0.5, 0.3, 0.0]], dtype=torch.float64)


def policies():
    return SortingPolicy(seed=0).double(), SortingPolicy(seed=1, init_scale=1.0).double()


PICTURES = {
    "deltas": lambda scale, figure: plotting.delta_bars(REWARDS * scale, figure),
    "clipping": lambda scale, figure: plotting.clip_region(1.4 * scale, 0.2, 0.3 * scale, 1.0, figure),
    "kl": lambda scale, figure: plotting.kl_estimators(LOGITS * scale, REF_LOGITS, 4, figure),
    "policy": lambda scale, figure: plotting.policy_heatmaps(*policies(), torch.tensor([3, int(scale), 3]), figure),
    "map": lambda scale, figure: plotting.course_map(["00", f"0{int(scale)}"], figure),
}


def pixels(figure):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_drawing_over_an_earlier_picture_leaves_nothing_of_it(draw):
    reused, new = Figure((7, 3.2)), Figure((7, 3.2))
    draw(2.0, reused)
    before = pixels(reused)
    draw(1.0, reused)
    draw(1.0, new)
    assert (pixels(reused) == pixels(new)).all()
    assert (pixels(reused) != before).any()


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_all_text_lies_inside_the_picture(draw):
    figure = Figure((7, 3.2))
    draw(1.0, figure)
    pixels(figure)
    texts = [text for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text().strip()]
    shown = [text for text in texts if (text.get_visible() and text.axes is not None) or text.figure is figure]
    for text in shown:
        box = text.get_window_extent()
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= 701 and box.y1 <= 321, text.get_text()


@pytest.mark.parametrize("draw", [PICTURES[name] for name in ("clipping", "kl", "policy")])
def test_pictures_with_several_marks_have_labelled_axes_and_a_legend(draw):
    figure = Figure((7, 3.2))
    draw(1.0, figure)
    assert all(ax.get_xlabel() for ax in figure.axes) and figure.legends
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(labels) == len(set(labels)) > 0


def test_bars_are_the_five_deltas_of_the_group():
    (ax,) = plotting.delta_bars(REWARDS, Figure()).axes
    heights = [[bar.get_height() for bar in cluster] for cluster in ax.containers]
    for drawn, delta in zip(heights, DELTAS.values(), strict=True):
        assert_close(torch.tensor(drawn), delta(REWARDS[None])[0])
    assert [label.get_text() for label in ax.get_xticklabels()] == list(DELTAS)
    low, high = ax.get_ylim()
    assert low < np.min(heights) and np.max(heights) < high


def test_bars_carry_their_numbers_only_while_they_can_be_read():
    few, many = (plotting.delta_bars(torch.arange(float(count)), Figure()).axes[0] for count in (3, 9))
    assert [text.get_text() for text in few.texts][-3:] == ["-1", "0", "1"]
    assert not many.texts


def test_bars_of_a_group_of_one_are_refused():
    with pytest.raises(ValueError, match="group_size"):
        plotting.delta_bars(torch.ones(1), Figure())


@pytest.mark.parametrize(
    ("ratio", "delta", "objective", "gradient"),
    [
        (1.0, 1, 1.0, 1.0),
        (0.5, 1, 0.5, 0.5),  # below both bounds, yet pulled back up
        (1.2, 1, 1.2, 1.2),
        (1.5, 1, 1.3, 0.0),
        (1.0, -1, -1.0, -1.0),
        (1.5, -1, -1.5, -1.5),
        (0.85, -1, -0.85, -0.85),
        (0.5, -1, -0.8, 0.0),
        (2.0, 3, 3.9, 0.0),
    ],
)
def test_clip_curves_on_every_side(ratio, delta, objective, gradient):
    found = plotting.clip_curves(torch.tensor([ratio]), 0.2, 0.3, delta)
    assert_close(torch.cat(found), torch.tensor([objective, gradient]))


@pytest.mark.parametrize(("delta", "cut"), [(1, (1.3, 2.5)), (-1, (0, 0.8))])
def test_clip_region_shades_where_the_gradient_is_cut(delta, cut):
    for ax in plotting.clip_region(1.1, 0.2, 0.3, delta, Figure()).axes:
        (shade,) = ax.patches
        assert (shade.get_x(), shade.get_x() + shade.get_width()) == pytest.approx(cut)
    ratios, gradient = ax.lines[3].get_data()
    inside = (ratios > cut[0]) & (ratios <= cut[1])
    assert (gradient[inside] == 0).all() and (gradient[~inside] != 0).all()


def test_clip_region_marks_the_token():
    for ax, value in zip(plotting.clip_region(1.5, 0.2, 0.3, 1, Figure()).axes, (1.3, 0), strict=True):
        x, y = ax.lines[-1].get_data()
        assert (x.item(), y.item()) == pytest.approx((1.5, value))
        assert ax.texts[0].get_text().endswith(f"{value:.2f}")


def test_moments_are_sums_over_the_vocabulary():
    p, q = LOGITS.softmax(-1).tolist(), REF_LOGITS.softmax(-1).tolist()
    moments = plotting.estimator_moments(LOGITS, REF_LOGITS)
    of_ratio = {
        "k1": lambda r: -np.log(r),
        "k2": lambda r: np.log(r) ** 2 / 2,
        "k3": lambda r: r - 1 - np.log(r),
    }
    for name, (values, mean, std) in moments.items():
        plain = [of_ratio[name](b / a) for a, b in zip(p, q, strict=True)]
        expected = sum(a * value for a, value in zip(p, plain, strict=True))
        square = sum(a * value**2 for a, value in zip(p, plain, strict=True))
        assert_close(values, torch.tensor(plain))
        assert mean == pytest.approx(expected) and std == pytest.approx((square - expected**2) ** 0.5)
    assert moments["k1"][1] == pytest.approx(kl.exact(LOGITS, REF_LOGITS).item()) == pytest.approx(moments["k3"][1])


@pytest.mark.parametrize("tokens", [1, 16])
def test_sampled_estimates_have_the_exact_moments(tokens):
    values, mean, std = plotting.estimator_moments(LOGITS, REF_LOGITS)["k3"]
    found = plotting.estimates(values, LOGITS.softmax(-1), tokens)
    spread = std / tokens**0.5
    assert len(found) == 2000 and found.mean() == pytest.approx(mean, abs=4 * spread / 2000**0.5)
    assert found.std() == pytest.approx(spread, rel=0.15)
    assert (found == plotting.estimates(values, LOGITS.softmax(-1), tokens)).all()


def test_kl_picture_shows_both_policies_and_the_exact_moments():
    left, right = plotting.kl_estimators(LOGITS, REF_LOGITS, 16, Figure()).axes
    heights = torch.tensor([[bar.get_height() for bar in cluster] for cluster in left.containers])
    assert_close(heights, torch.stack([LOGITS.softmax(-1), REF_LOGITS.softmax(-1)]))
    assert right.lines[-1].get_xdata()[0] == pytest.approx(kl.exact(LOGITS, REF_LOGITS).item())
    for drawn, (_, mean, std) in zip(
        right.containers, plotting.estimator_moments(LOGITS, REF_LOGITS).values(), strict=True
    ):
        (bar,) = drawn.lines[2][0].get_segments()
        assert bar[:, 0] == pytest.approx([mean - std / 4, mean + std / 4])


def test_equal_policies_have_a_picture_too():
    right = plotting.kl_estimators(LOGITS, LOGITS, 1, Figure()).axes[1]
    assert right.texts[0].get_text() == "0 ± 0"


def test_heat_maps_show_each_policy_and_frame_the_sorted_prompt():
    prompt = torch.tensor([3, 1, 3])
    for policy, ax in zip(policies(), plotting.policy_heatmaps(*policies(), prompt, Figure()).axes, strict=True):
        probs = policy.position_logits(prompt[None])[0].softmax(-1).detach()
        assert_close(torch.tensor(ax.images[0].get_array().data), probs)
        frames = [(bar.get_x() + 0.45, bar.get_y() + 0.45) for bar in ax.patches]
        assert frames == [(1, 0), (3, 1), (3, 2)]
        right = probs[0, 1] * probs[1, 3] * probs[2, 3]
        assert ax.texts[-1].get_text().endswith(f"= {right:.1%}")


def test_course_map_names_every_notebook_and_fills_in_those_that_are_ready():
    (ax,) = plotting.course_map(["00", "03"], Figure()).axes
    numbers = sorted(text.get_text()[:2] for text in ax.texts if text.get_text()[:2].isdigit())
    assert numbers == [f"{number:02}" for number in range(14)]
    assert sum(box.get_facecolor()[-1] > 0 for box in ax.patches if hasattr(box, "get_width")) == 2


@pytest.mark.parametrize("size", [1e-4, 0.05, 0.99, 1.0, 1.01, 7.0, 7.3, 10.0, 999.0])
def test_limits_round_up_and_stay(size):
    assert size <= plotting.round_up(size) * (1 + 1e-9) <= 1.55 * size
    assert plotting.round_up(plotting.round_up(size)) == pytest.approx(plotting.round_up(size))


def test_token_strip_shades_by_value_leaves_prompts_white_and_greys_padding():
    figure = Figure((7, 1.2))
    ax = figure.add_axes((0, 0, 1, 1))
    words, values = ["", "so", "6", "</answer>", "$"], [0.5, float("nan"), 0.0, 1.0, 0.5]
    plotting.token_strip(words, values, range(5), per_line=3, ax=ax)
    red = [box.get_facecolor()[0] for box in ax.patches]
    assert ax.patches[0].get_facecolor() == to_rgba("lightgrey") and ax.patches[1].get_facecolor() == to_rgba("white")
    assert red[3] < red[4] < red[2], "the likelier, the bluer"
    assert [(box.get_x(), round(box.get_y() + box.get_height() / 2)) for box in ax.patches[2:4]] == [(2, 0), (0, 1)]
    pixels(figure)
    assert [text.get_text() for text in ax.texts] == [*words, "0", "1", "2", "3", "4"]
    for box, text in zip(ax.patches, ax.texts, strict=False):
        assert text.get_window_extent().width <= box.get_window_extent().width + 1


def test_token_strip_makes_a_figure_of_its_own_with_a_line_for_every_few_words():
    short, long = (plotting.token_strip(["6"] * count, [0.5] * count, per_line=4).figure for count in (4, 13))
    assert short.get_size_inches()[1] < long.get_size_inches()[1]
    plt.close("all")
