"""One min-norm point holds the best mask for every brightness threshold.

Shifting the field by a constant asks for a larger or a smaller foreground. Solving for each shift
would be one cut each; the min-norm point of the base polytope gives all of them, nested.
"""

import numpy as np

import logsuper as ls


def main() -> None:
    shape = (50, 50)
    clean = ls.make_silhouettes(1, shape, seed=9)[0]
    grey = clean + np.random.default_rng(9).normal(0.0, 0.6, shape)

    fh, fv = ls.grid_cuts(shape)
    f = fh + fv
    theta = 4.0 * (grey.ravel() - 0.5)
    point = ls.min_norm_point(f, theta)

    print("shift  pixels  wrong")
    for shift in np.linspace(-2.0, 2.0, 9):
        y = point.maximizer(shift)
        _, value = ls.maximize(f, theta + shift)
        assert np.isclose((theta + shift) @ y - f(y), value)
        print(f"{shift:5.1f}  {y.sum():6d}  {np.mean(y != clean.ravel()):5.1%}")


if __name__ == "__main__":
    main()
