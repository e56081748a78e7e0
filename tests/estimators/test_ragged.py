"""Images of very different size cost no more to learn from than equal ones."""

import numpy as np
import pytest
from objective_oracles import long

import logsuper as ls
from logsuper.solvers import Prepared

RAGGED = {
    "small": [(20, 30), (92, 90), (44, 60), (24, 25), (70, 64)],  # learned from whole
    "large": [(30, 40), (250, 180), (64, 64), (100, 97)],  # learned from windows
}


def solved(shapes, monkeypatch):
    """Return the pixels that the default fit solves, a pixel of a cut each, and those it has."""
    count = [0]
    for name in ("perturb", "conditional_means"):
        real = getattr(Prepared, name)

        def counted(self, theta, alpha, n, *args, real=real, **options):
            count[0] += np.size(theta) * n
            return real(self, theta, alpha, n, *args, **options)

        monkeypatch.setattr(Prepared, name, counted)
    clean = [ls.make_silhouettes(1, shape, seed=i)[0] for i, shape in enumerate(shapes)]
    noisy = [ls.Flips(0.1).sample(x, seed=i) for i, x in enumerate(clean)]
    model = ls.MaskDenoiser(0.1).fit(noisy)
    monkeypatch.undo()
    assert model.converged_
    return count[0], sum(x.size for x in clean)


@long
@pytest.mark.parametrize("kind", RAGGED)
def test_a_ragged_folder_solves_no_more_than_twice_the_pixels_of_equal_images(kind, monkeypatch):
    ragged, pixels = solved(RAGGED[kind], monkeypatch)
    side = round(np.sqrt(pixels / len(RAGGED[kind])))
    equal, same = solved([(side, side)] * len(RAGGED[kind]), monkeypatch)
    assert same == pytest.approx(pixels, rel=0.02)
    assert ragged < 2.0 * equal
