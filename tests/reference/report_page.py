"""Reports to look at in a browser, and a visit to one that keeps what the page said and asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from recoup import PrivateKMeans

SIZES = {"small phone": (360, 740), "phone": (390, 844), "tablet": (768, 1024), "desk": (1280, 900)}


def written(folder: Path, d=2, n=1500, k=4, columns=None, intervals=True, report=None, **choices) -> Path:
    """The report of a model that was fitted to generated data."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(0.2, 0.8, size=(k, d))
    x = np.clip(rng.normal(centers[rng.integers(k, size=n)], 0.04), 0, 1)
    names = columns or tuple(f"column {j}" for j in range(d))
    table = pa.table(dict(zip(names, x.T, strict=True)))
    bounds = dict.fromkeys(names, (0.0, 1.0))
    model = PrivateKMeans(k, bounds=bounds, random_state=0, **{"epsilon": 2.0} | choices).fit(table)
    path = folder / "report.html"
    model.report(path, intervals=intervals, **report or {})
    return path


class Visit:
    """One opened page, with everything that it said and asked for."""

    def __init__(
        self,
        browser: Any,
        path: Path,
        size: str = "desk",
        scheme: str = "light",
        motion: str = "reduce",
        fragment: str = "",
        script: bool = True,
    ):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion=motion,
            java_script_enabled=script,
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.address = path.as_uri()
        self.page.goto(self.address + fragment)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def picture(self, selector: str = "#map") -> np.ndarray:
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(self.page.locator(selector).screenshot())).convert("RGB"))

    def status(self) -> str:
        return self.page.inner_text("#map-status")

    def step(self) -> int:
        return int(self.page.input_value("#map-step"))

    def centers(self) -> list[tuple[float, float]]:
        marks = self.page.locator("#map-marks circle.after")
        return [(float(m.get_attribute("cx")), float(m.get_attribute("cy"))) for m in marks.all()]

    def colour(self, selector: str = "body", what: str = "backgroundColor") -> str:
        return str(self.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}"))

    def unfold(self) -> None:
        self.page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")

    def width(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth"))
