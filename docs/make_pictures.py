"""Draw the pictures of the documentation again: python docs/make_pictures.py."""

from pathlib import Path

from recoup import plots
from recoup.demo import fitted, tables
from recoup.domain import Box


def main() -> None:
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
        plots.plot_density(ax, table.rows, extent=extent)
        plots.plot_centers(
            ax, box.from_unit(exact.cluster_centers_), columns=table.columns, kind="exact", label="non-private k-means"
        )
        label = f"private, epsilon = {epsilon:g}"
        plots.plot_centers(ax, model.cluster_centers_, columns=table.columns, kind="private", label=label)
        ax.set_title(title, fontsize=11)
        plots.legend_below(ax, 2)
    (Path(__file__).parent / "images" / "demo.png").write_bytes(plots.png(figure))


if __name__ == "__main__":
    main()
