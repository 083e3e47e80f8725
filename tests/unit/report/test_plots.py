"""Pictures hold what they should, and say so when they are not private."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from recoup import plots
from recoup.algorithms.kmeans.lloyd import KMeans
from recoup.domain import Box
from recoup.driver import release
from recoup.errors import ParameterError
from recoup.inference.choose import ClusterCurve
from recoup.inference.infer import infer
from recoup.inference.inferred import refit
from recoup.inference.intervals import Intervals
from recoup.privacy.statement import NOT_PRIVATE
from recoup.transcript.transcript import Transcript


def transcript(n_columns=2, noise="secure", delta=0, columns=None):
    domain = Box([0.0] * n_columns, [10.0] * n_columns, columns)
    rows = np.random.default_rng(1).uniform(0, 10, size=(300, n_columns))
    x = rows
    if columns is not None:
        import pyarrow as pa

        x = pa.table(dict(zip(columns, rows.T, strict=True)))
    algorithm = KMeans(n_clusters=3, n_rounds=4)
    return release(algorithm, x, domain=domain, epsilon=2, delta=delta, noise=noise, random_state=0)


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_every_centre_has_a_path_from_start_to_end(n_columns):
    released = transcript(n_columns)
    figure, (ax,) = plots.new_figure()
    assert plots.plot_rounds(released, ax=ax) is ax
    assert len(ax.lines) == 3
    assert all(len(line.get_xdata()) == 5 for line in ax.lines)
    start = released.context.domain.from_unit(released.rounds[0].query.centers)
    assert sorted(line.get_xdata()[0] for line in ax.lines) == pytest.approx(sorted(start[:, 0]))
    assert plots.png(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_budget_adds_up_to_what_was_spent(delta):
    released = transcript(delta=delta)
    _, (ax,) = plots.new_figure()
    plots.plot_budget(released, ax=ax)
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches]
    assert max(tops) == pytest.approx(float(released.amount_spent))
    assert ax.get_ylabel() == ("epsilon" if delta == 0 else "rho")
    assert {"counts", "sums", "spent before"} <= set(ax.get_legend_handles_labels()[1])


def test_simulated_noise_is_marked_once_in_every_picture():
    released = transcript(noise="simulated")
    for draw in (plots.plot_rounds, plots.plot_budget):
        _, (ax,) = plots.new_figure()
        draw(released, ax=ax)
        draw(released, ax=ax)
        assert texts(ax) == [NOT_PRIVATE]
    _, (ax,) = plots.new_figure()
    plots.plot_centers([[1.0, 2.0]], simulated=True, ax=ax)
    assert texts(ax) == ["0", NOT_PRIVATE]


def test_secure_noise_is_not_marked():
    released = transcript()
    for draw in (plots.plot_rounds, plots.plot_budget):
        _, (ax,) = plots.new_figure()
        assert texts(draw(released, ax=ax)) == []


def test_columns_name_the_axes_and_dollars_are_no_formulas():
    figure, (ax,) = plots.new_figure()
    plots.plot_rounds(transcript(columns=("price $", "cost $ x_1")), ax=ax)
    assert ax.get_xlabel() == r"price \$"
    plots.png(figure)


def test_a_pair_of_columns_can_be_chosen():
    _, (ax,) = plots.new_figure()
    plots.plot_centers([[1.0, 2.0, 3.0]], pair=(2, 0), ax=ax)
    assert ax.collections[0].get_offsets().tolist() == [[3.0, 1.0]]
    with pytest.raises(ParameterError, match="columns 0 to 2"):
        plots.plot_centers([[1.0, 2.0, 3.0]], pair=(0, 3), ax=ax)


def test_a_transcript_without_rounds_cannot_be_drawn():
    empty = transcript()
    empty = Transcript(context=empty.context, algorithm=empty.algorithm, simulated=False)
    with pytest.raises(ParameterError, match="no rounds"):
        plots.plot_rounds(empty)


def test_the_frame_of_a_density_is_the_declared_one():
    _, (ax,) = plots.new_figure()
    plots.plot_density(np.random.default_rng(0).uniform(size=(50, 2)), ax=ax, extent=(-5, 5, -2, 2))
    assert ax.get_xlim() == (-5, 5)
    assert ax.get_ylim() == (-2, 2)


def test_before_and_after_are_joined_pair_by_pair():
    released = transcript()
    after = refit(released)[[2, 0, 1]] + 0.01
    _, (ax,) = plots.new_figure()
    plots.plot_before_after(released, after, ax=ax)
    assert len(ax.lines) == 3
    assert all(np.ptp(line.get_xdata()) < 0.02 for line in ax.lines)
    assert ax.get_legend_handles_labels()[1] == ["before inference", "after inference"]


@pytest.mark.parametrize("n_columns", [1, 3])
def test_intervals_reach_from_end_to_end(n_columns):
    centers = np.full((2, n_columns), 5.0)
    sizes = {"size_low": np.ones(2), "size_high": np.ones(2)}
    found = Intervals(level=0.9, n_draws=39, center_low=centers - 1, center_high=centers + 3, **sizes)
    _, (ax,) = plots.new_figure()
    plots.plot_intervals(found, centers, simulated=True, ax=ax)
    ends = ax.collections[0].get_segments()[0]
    assert ends[:, 0].tolist() == [4.0, 8.0]
    assert texts(ax) == [NOT_PRIVATE]


def test_residuals_stand_where_the_diagnostics_say():
    released = transcript(noise="simulated")
    data = infer(released, random_state=0)
    _, (ax,) = plots.new_figure()
    plots.plot_residuals(released, data, ax=ax)
    expected = [value for r in data.diagnostics.residuals for value in r.by_block.values()]
    assert [float(c.get_offsets()[0, 0]) for c in ax.collections] == pytest.approx(expected)
    assert [t.get_text() for t in ax.get_yticklabels()][:2] == ["round 1, counts", "round 1, sums"]
    assert texts(ax) == [NOT_PRIVATE]


def test_only_chains_have_a_trace():
    released = transcript()
    _, (ax,) = plots.new_figure()
    with pytest.raises(ParameterError, match="mcmc"):
        plots.plot_trace(infer(released, "consistency"), ax=ax)
    data = infer(released, "mcmc", n_steps=500, n_chains=2, random_state=0)
    plots.plot_trace(data, ax=ax)
    assert [line.get_ydata().tolist() for line in ax.lines] == [
        t.tolist() for t in data.diagnostics.log_likelihood_trace
    ]


def test_scores_by_epsilon_hold_every_method_and_reference():
    _, (ax,) = plots.new_figure()
    scores = {"a": {1.0: 2.0, 0.25: 4.0}, "b": {0.25: 3.0, 1.0: 1.5}}
    plots.plot_wcss(
        scores, errors={"a": {0.25: 0.1, 1.0: 0.1}, "b": {0.25: 0.1, 1.0: 0.1}}, references={"c": 1.0}, ax=ax
    )
    assert set(ax.get_legend_handles_labels()[1]) == {"a", "b", "c"}
    assert ax.lines[0].get_xdata().tolist() == [0.25, 1.0]
    assert texts(ax) == [NOT_PRIVATE]


def test_drawing_leaves_no_global_state_behind():
    program = (
        "import sys; from recoup import plots; f, (ax,) = plots.new_figure(); plots.plot_centers([[0, 1]], ax=ax);"
        "plots.png(f); assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def curve(**changes):
    loss = np.array([9.0, 4.0, 1.0, 0.9])
    ends = {"loss": loss, "loss_low": 0.9 * loss, "loss_high": 1.1 * loss, "gap": loss, "gap_error": loss}
    said = {"suggested": 3, "outcome": "conclusive", "sentence": ""} | changes
    return ClusterCurve(n_clusters=np.arange(1, 5), **ends, **said)


@pytest.mark.parametrize(
    ("outcome", "label"),
    [("conclusive", "suggested: 3"), ("at least", "suggested: at least 3"), ("not conclusive", None)],
)
def test_the_curve_of_losses_marks_what_is_suggested_and_asked_for(outcome, label):
    ax = plots.plot_curve(curve(outcome=outcome), asked=4, simulated=True)
    assert ax.lines[0].get_ydata().tolist() == [9.0, 4.0, 1.0, 0.9]
    assert ax.get_legend_handles_labels()[1] == ["interval", "loss", *([label] if label else []), "asked for: 4"]
    assert texts(ax) == [NOT_PRIVATE]


def test_the_heat_map_has_a_cell_for_each_cluster_and_column():
    released = transcript(3, columns=("a $", "b", "c"))
    centers = np.array([[1.0, 5.0, 2.0], [9.0, 5.0, 4.0]])
    ax = plots.plot_profiles(released, centers)
    cells = np.asarray(ax.images[0].get_array())
    np.testing.assert_allclose(cells, [[-0.4, 0.0, -0.1], [0.4, 0.0, 0.1]])
    assert texts(ax) == ["1", "5", "2", "9", "5", "4"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1"]
    assert plots.png(ax.figure).startswith(b"\x89PNG")
    assert len(texts(plots.plot_profiles(released, np.full((60, 3), 5.0)))) == 0  # no room for words
    with pytest.raises(ParameterError, match="centres"):
        plots.plot_profiles(released, [[1.0]])


def test_clusters_are_numbered_and_only_the_private_ones():
    assert texts(plots.plot_centers([[0, 1], [2, 3], [4, 5]])) == ["0", "1", "2"]
    assert texts(plots.plot_centers([[0, 1], [2, 3]], kind="exact")) == []


def test_intervals_know_their_centres_or_ask_for_them():
    ends = {"center_low": np.array([[0.0, 1.0]]), "center_high": np.array([[2.0, 3.0]])}
    sizes = {"size_low": np.array([1.0]), "size_high": np.array([2.0])}
    with pytest.raises(ParameterError, match="give them"):
        plots.plot_intervals(Intervals(level=0.9, n_draws=39, **ends, **sizes))
    known = Intervals(level=0.9, n_draws=39, centers=np.array([[1.0, 2.0]]), columns=("x", "y"), **ends, **sizes)
    assert plots.plot_intervals(known).get_xlabel() == "x"
