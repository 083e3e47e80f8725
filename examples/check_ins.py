"""Where people check in: private centres on a map, and another number of them for free.

    python examples/check_ins.py -o results/check-ins
    python examples/check_ins.py --data FOLDER      # with gowalla.csv.gz: latitude and longitude of real check-ins

By default the check-ins are generated: cities of very unequal size on five parts of the world.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

import recoup
from recoup import plots
from recoup.demo import city_check_ins

WORLD = {"longitude": (-180, 180), "latitude": (-90, 90)}  # public, and no need to look


def records(folder: Path | None, n_records: int) -> Path | pa.Table:
    """The file with real check-ins, or a generated table."""
    if folder is None:
        table = city_check_ins(n_records=n_records)
        return pa.table(dict(zip(table.columns, table.rows.T, strict=True)))
    for name in ("gowalla.csv.gz", "gowalla.csv"):
        if (folder / name).is_file():
            return folder / name
    raise SystemExit(f"{folder} holds no gowalla.csv.gz: leave out --data to use generated check-ins.")


def draw(path: Path, model: recoup.PrivateKMeans, choices: dict[int, np.ndarray]) -> None:
    """Draw the centres over the inferred check-ins, for two numbers of clusters. All of it comes from the release."""
    (left, right), (bottom, top) = WORLD.values()
    sample = model.inferred_.sample(20_000, random_state=0)
    figure, axes = plots.new_figure(10.6, 3.9, n_axes=2)
    for ax, (n_clusters, centers) in zip(axes, choices.items(), strict=True):
        plots.plot_density(sample, ax, extent=(left, right, bottom, top))
        plots.plot_centers(centers, ax, columns=tuple(WORLD), label=f"{n_clusters} private centres")
        ax.set_title(f"{n_clusters} clusters, from the same release", fontsize=11)
        plots.legend_below(ax, 1)
    path.write_bytes(plots.png(figure))


def main() -> None:
    """Release once, then read the release with two numbers of clusters."""
    parser = argparse.ArgumentParser(description="Private centres of check-ins on a map of the world.")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/check-ins"), help="a new or empty folder")
    parser.add_argument("--data", type=Path, help="a folder with gowalla.csv.gz")
    parser.add_argument("--records", type=int, default=107_000, help="of the generated table")
    parser.add_argument("--epsilon", type=float, default=0.25)
    arguments = parser.parse_args()
    folder = arguments.output
    folder.mkdir(parents=True, exist_ok=True)

    # One person may check in often. Here a record is protected, not a person: see records_per_person.
    model = recoup.PrivateKMeans(n_clusters=5, epsilon=arguments.epsilon, bounds=WORLD, random_state=0)
    model.fit(records(arguments.data, arguments.records), transcript_path=folder / "transcript.json")

    more = recoup.refit(model.transcript_, model.inferred_, n_clusters=8, random_state=0)  # costs nothing
    choices = {5: model.cluster_centers_, 8: more}
    for n_clusters, centers in choices.items():
        print(f"{n_clusters} centres, longitude and latitude in degrees:")
        for longitude, latitude in centers[np.argsort(centers[:, 0])]:
            print(f"  {longitude:8.2f} {latitude:7.2f}")
    print(f"Spent once: epsilon {model.privacy_['spent']:g}.")
    draw(folder / "check-ins.png", model, choices)
    print(f"The picture is {folder / 'check-ins.png'}.")


if __name__ == "__main__":
    main()
