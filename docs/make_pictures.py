"""Draw the pictures of the documentation again: python docs/make_pictures.py."""

import subprocess
import sys
import tempfile
from pathlib import Path

from recoup import plots
from recoup.demo import fitted, tables
from recoup.domain import Box

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"


def main() -> None:
    """Draw the comparison of the first page, and run the examples for theirs."""
    draw_comparison(HERE / "images" / "demo.png")
    run_examples(HERE / "images")


def draw_comparison(path: Path) -> None:
    """Draw DP-KMEANS beside Recoup at the same epsilon."""
    epsilon = 0.25
    table = tables()[0]
    extent = (table.low[0], table.high[0], table.low[1], table.high[1])
    figure, axes = plots.new_figure(9.6, 4.6, n_axes=2)
    choices = {
        "DP-KMEANS, last iterate": {"algorithm": "lloyd", "postprocess": "none"},
        "Recoup, the same privacy": {},
    }
    box = Box(table.low, table.high)
    from sklearn.cluster import KMeans

    exact = KMeans(table.n_clusters, n_init=10, random_state=0).fit(box.to_unit(table.rows))
    for ax, (title, choice) in zip(axes, choices.items(), strict=True):
        model = fitted(table, epsilon, 0, noise="secure", **choice)
        plots.plot_density(table.rows, ax, extent=extent)
        plots.plot_centers(
            box.from_unit(exact.cluster_centers_), ax, columns=table.columns, kind="exact", label="non-private k-means"
        )
        label = f"private, epsilon = {epsilon:g}"
        plots.plot_centers(model.cluster_centers_, ax, columns=table.columns, kind="private", label=label)
        ax.set_title(title, fontsize=11)
        plots.legend_below(ax, 2)
    path.write_bytes(plots.png(figure))


def run_examples(folder: Path) -> None:
    """Run every example and keep its picture."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        for words in (
            ("customer_segments.py", "-o", out),
            ("check_ins.py", "-o", out / "check-ins"),
            ("handover_curator.py", "-o", out / "handover"),
            ("handover_analyst.py", out / "handover" / "transcript.json", "-o", out / "handover"),
        ):
            subprocess.run([sys.executable, EXAMPLES / words[0], *words[1:]], check=True)
        for picture in out.rglob("*.png"):
            (folder / picture.name).write_bytes(picture.read_bytes())


if __name__ == "__main__":
    main()
