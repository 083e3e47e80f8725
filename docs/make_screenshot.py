"""Take the picture of the report in the documentation again: python docs/make_screenshot.py (needs Chromium)."""

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from playwright.sync_api import sync_playwright

import recoup

BOUNDS = {
    "age": (18, 90),
    "orders a year": (0, 60),
    "basket": (0, 300),
    "days since visit": (0, 365),
}
# Name, mean and spread of each column, and the share of customers: four made-up segments.
SEGMENTS = {
    "Young regulars": ((31, 34, 45, 12), (6, 7, 14, 8), 0.34),
    "Big baskets": ((52, 11, 140, 45), (8, 4, 32, 22), 0.29),
    "Pensioners": ((68, 20, 75, 24), (6, 6, 20, 12), 0.22),
    "Nearly gone": ((44, 3, 60, 240), (12, 2, 25, 50), 0.15),
}


def customers(n: int = 12_000, seed: int = 0) -> pa.Table:
    """A table of customers who do not exist."""
    rng = np.random.default_rng(seed)
    segment = rng.choice(len(SEGMENTS), size=n, p=[share for *_, share in SEGMENTS.values()])
    mean, spread = (np.array([s[i] for s in SEGMENTS.values()], dtype=float)[segment] for i in (0, 1))
    rows = rng.normal(mean, spread)
    return pa.table({name: np.clip(rows[:, j], *ends) for j, (name, ends) in enumerate(BOUNDS.items())})


def main() -> None:
    """Fit, write the report, and photograph its upper part."""
    model = recoup.PrivateKMeans(n_clusters=4, epsilon=1.0, bounds=BOUNDS, random_state=0).fit(customers())
    means, names = np.array([mean for mean, *_ in SEGMENTS.values()]), list(SEGMENTS)
    nearest = [int(np.argmin(((means - center) ** 2).sum(axis=1))) for center in model.cluster_centers_]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page_file = Path(folder) / "report.html"
        model.report(page_file, title="Customer segments", names={k: names[i] for k, i in enumerate(nearest)})
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 2050}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = false; })")
        page.select_option("#map-x", "0")
        page.select_option("#map-y", "2")
        shot = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    out = Path(__file__).parent / "images" / "report.png"
    # Few colours would make steps of the shades of the density; all of them cost some kilobytes.
    shot.convert("RGB").save(out, optimize=True)


if __name__ == "__main__":
    main()
