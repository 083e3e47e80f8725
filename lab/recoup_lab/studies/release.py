"""Release against scikit-learn's Lloyd, and growth with N and K: ratios within one run."""

import time

import numpy as np
from sklearn.cluster import KMeans

import recoup


def best(function, repeats=3):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    rng = np.random.default_rng(0)
    seconds = {}
    for n, d, k in ((250_000, 10, 10), (500_000, 10, 10), (500_000, 10, 20), (500_000, 2, 15)):
        x = np.clip(rng.uniform(-0.6, 0.6, (k, d))[rng.integers(0, k, n)] + 0.08 * rng.normal(size=(n, d)), -1, 1)
        domain = recoup.L1Ball([-1.0] * d, [1.0] * d)

        def release(x=x, k=k, domain=domain):
            recoup.release(recoup.KMeans(n_clusters=k, n_rounds=5), x, domain=domain, epsilon=1.0)

        release()
        ours = seconds[n, d, k] = best(release)
        theirs = best(lambda x=x, k=k: KMeans(k, n_init=1, max_iter=5, tol=0, random_state=0).fit(x))
        print(f"N={n} d={d} K={k} T=5: release / scikit-learn Lloyd {ours / theirs:.2f} ({ours:.3f} s, {theirs:.3f} s)")
    print(f"twice the records: {seconds[500_000, 10, 10] / seconds[250_000, 10, 10]:.2f} times the time")
    print(f"twice the clusters: {seconds[500_000, 10, 20] / seconds[500_000, 10, 10]:.2f} times the time")


if __name__ == "__main__":
    main()
