"""Readable twins of the kernels and of a source: one record at a time, in plain Python.

Floating-point steps are written in the order in which the kernels take them, so totals must be equal to the last bit;
only the projection onto the L1 ball is found another way (by bisection) and may differ by a step of the grid.
"""

import math

GRID = 2**30
INSIDE = 1.0 - 2.0**-40  # how far inside of a ball a projection lands


def unit_row(row, low, high):
    """Clamp a row to its bounds and scale it to [-1, 1]; none if a value is not finite.

    >>> unit_row([5.0, 9.0], [0.0, 0.0], [10.0, 4.0])
    [0.0, 1.0]
    """
    if not all(math.isfinite(v) for v in row):
        return None
    return [2.0 * ((min(max(v, a), b) - a) / (b - a)) - 1.0 for v, a, b in zip(row, low, high, strict=True)]


def project(unit, kind, radius):
    """Move a point of the unit box to the nearest point of the domain.

    >>> [round(v, 6) for v in project([1.0, 0.5], "l1", 1.0)]
    [0.75, 0.25]
    """
    if kind == "box" or size_of(unit, kind) <= radius:
        return list(unit)
    if kind == "l2":
        return [v * (radius * INSIDE / size_of(unit, "l2")) for v in unit]
    low, high = 0.0, max(map(abs, unit))
    for _ in range(200):
        shift = (low + high) / 2
        if sum(max(abs(v) - shift, 0.0) for v in unit) > radius * INSIDE:
            low = shift
        else:
            high = shift
    return [math.copysign(max(abs(v) - high, 0.0), v) for v in unit]


def size_of(unit, kind):
    """The norm that a ball is measured in.

    >>> size_of([3.0, 4.0], "l1"), size_of([3.0, 4.0], "l2")
    (7.0, 5.0)
    """
    return math.fsum(map(abs, unit)) if kind == "l1" else math.sqrt(math.fsum(v * v for v in unit))


def fixed_row(row, domain):
    """A row as integers on the grid of 2^-30, rounded toward zero; none if it is dropped."""
    unit = unit_row(row, domain.low, domain.high)
    return None if unit is None else [int(v * GRID) for v in project(unit, domain.kind, domain.shape()[1])]


def nearest(x, centers):
    """The index of the nearest centre, ties to the lowest.

    >>> nearest([0.0], [[1.0], [-1.0], [0.5]])
    2
    """
    best, smallest = 0, math.inf
    for k, center in enumerate(centers):
        distance = 0.0
        for a, b in zip(x, center, strict=True):
            distance += (a - b) * (a - b)
        if distance < smallest:
            best, smallest = k, distance
    return best


def relative(x, center, radius, norm):
    """x - centre, scaled back to a radius.

    >>> relative([1.0, 1.0], [0.0, 0.0], 1.0, 1)
    [0.5, 0.5]
    """
    moved = [a - b for a, b in zip(x, center, strict=True)]
    size = 0.0
    for v in moved:
        size += abs(v) if norm == 1 else v * v
    size = size if norm == 1 else math.sqrt(size)
    return [v * (radius / size) for v in moved] if size > radius else moved


def bin_of(x, side):
    """The bin of a coordinate in [-1, 1], the last one closed.

    >>> bin_of(-1.0, 4), bin_of(0.0, 4), bin_of(1.0, 4)
    (0, 2, 3)
    """
    return min(int((x + 1.0) / 2.0 * side), side - 1)


def logistic_gradient(x, coefficients, clip, norm):
    """The gradient of the logistic loss of one record, its label last, scaled back to a length.

    >>> logistic_gradient([1.0, -1.0], [0.0, 0.0], 10.0, 2)
    [0.5, 0.5]
    """
    row = [*x[:-1], 1.0]
    sign = 1.0 if x[-1] >= 0 else -1.0
    margin = sign * math.fsum(a * b for a, b in zip(row, coefficients, strict=True))
    slope = -sign * (1.0 / (1.0 + math.exp(margin)) if margin < 0 else math.exp(-margin) / (1.0 + math.exp(-margin)))
    gradient = [slope * v for v in row]
    size = size_of(gradient, "l1" if norm == 1 else "l2")
    return [v * min(1.0, clip / size) for v in gradient] if size else gradient


def mixture(x, weights, means, variances, radii, reaches, norm):
    """Responsibilities of spherical components, their clipped moves and their capped squared lengths from mid-range.

    >>> [round(v, 3) for v in mixture([0.5], [1.0], [[0.0]], [1.0], [0.2], [1.0], 2)]
    [1.0, 0.2, -0.25]
    """
    d = len(x)
    moved = [[a - b for a, b in zip(x, mean, strict=True)] for mean in means]
    densities = [
        math.log(w) - d / 2 * math.log(v) - math.fsum(a * a for a in move) / (2 * v)
        for w, v, move in zip(weights, variances, moved, strict=True)
    ]
    shares = [math.exp(value - max(densities)) for value in densities]
    # As far below 1 as the kernel's, which keeps room for rounding.
    shares = [share / math.fsum(shares) * (1 - 2.0**-31) for share in shares]
    sums, squares = [], []
    for share, mean, move, radius, reach in zip(shares, means, moved, radii, reaches, strict=True):
        sums += [share * v for v in relative(x, mean, radius, norm)]
        squares.append(share * (min(math.fsum(a * a for a in move), reach * reach) - reach * reach / 2))
    return shares + sums + squares


def contribution(query, x):
    """What one record of the unit domain adds to the answer: {index: value}."""
    if query.type_name == "logistic-gradient":
        gradient = logistic_gradient(x, query.coefficients.tolist(), query.clip, query.norm)
        return {0: 1.0} | {1 + j: value for j, value in enumerate(gradient)}
    if query.type_name == "mixture":
        fields = (getattr(query, name).tolist() for name in ("weights", "means", "variances", "radii", "reaches"))
        return dict(enumerate(mixture(x, *fields, query.norm)))
    if query.type_name == "voronoi":
        k, d = query.centers.shape
        cell = nearest(x, query.centers.tolist())
        added = {cell: 1.0}
        if query.sums != "none":
            values = x
            if query.sums == "relative":
                values = relative(x, query.centers[cell].tolist(), float(query.radii[cell]), query.norm)
            added |= {k + cell * d + j: values[j] for j in range(d)}
        if query.squares:
            moved = [a - b for a, b in zip(x, query.centers[cell].tolist(), strict=True)]
            size = 0.0
            for v in moved:
                size += abs(v) if query.norm == 1 else v * v
            size = min(size if query.norm == 1 else math.sqrt(size), float(query.radii[cell]))
            added[k * (1 + d) + cell] = size * size
        return added
    if query.type_name == "moments":
        values = [1.0, *x, *(x[i] * x[j] for i in range(len(x)) for j in range(i, len(x)))]
        return dict(enumerate(values))
    if query.type_name == "power":
        squares, along = 0.0, [0.0] * query.directions.shape[1]
        for v, direction in zip(x, query.directions.tolist(), strict=True):
            squares += v * v
            along = [a + v * b for a, b in zip(along, direction, strict=True)]
        return dict(enumerate([1.0, *x, squares, *(v * a for v in x for a in along)]))
    if query.type_name not in ("grid", "histogram"):
        raise KeyError(f"write the plain twin of a query {query.type_name!r} here")
    marginals = [query.marginal] if query.type_name == "grid" else query.marginals
    added, offset = {}, 0
    for marginal in marginals:
        cell = 0
        for column, side in zip(marginal.columns, marginal.sides, strict=True):
            cell = cell * side + bin_of(x[column], side)
        added[offset + cell] = 1.0
        offset += marginal.size
    return added


def integer_total(query, fixed_rows, factors):
    """The sum over fixed-point records of trunc(contribution * factor), as Python integers."""
    total = [0] * query.size
    for record in fixed_rows:
        if record is not None:
            for index, value in contribution(query, [v / GRID for v in record]).items():
                total[index] += int(value * float(factors[index]))
    return total


def lloyd(points, centers, n_rounds):
    """Lloyd's iteration without noise; an empty cluster keeps its centre.

    >>> lloyd([[0.0], [0.2], [1.0]], [[0.1], [0.9]], 3)
    [[0.1], [1.0]]
    """
    for _ in range(n_rounds):
        counts, sums = [0] * len(centers), [[0.0] * len(c) for c in centers]
        for x in points:
            k = nearest(x, centers)
            counts[k] += 1
            sums[k] = [a + b for a, b in zip(sums[k], x, strict=True)]
        centers = [[s / n for s in row] if n else c for n, row, c in zip(counts, sums, centers, strict=True)]
    return centers
