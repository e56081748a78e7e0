import numpy as np
import pytest
from scipy import ndimage

from logsuper.datasets import make_silhouettes


@pytest.mark.parametrize("shape", [(50, 50), (16, 16), (33, 90), (128, 64), (200, 240)])
def test_each_is_one_animal_inside_the_frame(shape):
    images = make_silhouettes(40, shape, seed=1)
    assert images.shape == (40, *shape)
    assert images.dtype == np.uint8
    assert images.max() == 1
    for image in images:
        assert ndimage.label(image, structure=np.ones((3, 3)))[1] == 1
        border = np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])
        assert not border.any()
        assert 0.03 < image.mean() < 0.5


def test_has_four_legs_and_a_trunk():
    """Rows through the trunk are one long run; rows through the legs are several short ones."""
    images = make_silhouettes(60, (120, 120), seed=2)
    legs = []
    for image in images:
        rows = image[image.any(axis=1)]
        runs = (np.diff(rows.astype(np.int8), axis=1, prepend=0) == 1).sum(axis=1)
        widest = rows.sum(axis=1).argmax()
        assert rows[widest].sum() > 0.4 * image.any(axis=0).sum()
        legs.append(runs[widest:].max())
    # Legs hide each other in some poses, but never all four in one, and often all can be seen.
    assert min(legs) >= 2
    assert np.mean(np.array(legs) >= 4) > 0.25


def test_poses_sizes_and_directions_vary():
    images = make_silhouettes(100, (50, 50), seed=3)
    assert len({image.tobytes() for image in images}) == 100
    areas = images.mean(axis=(1, 2))
    assert areas.max() > 1.5 * areas.min()
    # The head is up: the highest pixel is nearer to the side the animal looks to.
    high = [np.nonzero(image[image.any(axis=1).argmax()])[0].mean() for image in images]
    middle = [np.nonzero(image.any(axis=0))[0].mean() for image in images]
    looks_right = np.mean(np.array(high) > np.array(middle))
    assert 0.3 < looks_right < 0.7


def test_seed_decides_and_number_does_not():
    five = make_silhouettes(5, seed=7)
    np.testing.assert_array_equal(five, make_silhouettes(5, seed=7))
    np.testing.assert_array_equal(five[:3], make_silhouettes(3, seed=7))
    np.testing.assert_array_equal(five, make_silhouettes(5, seed=np.random.default_rng(7)))
    assert (five != make_silhouettes(5, seed=8)).any()


def test_same_animals_at_any_size():
    """A larger picture, shrunk, is the smaller one but for pixels on the outline."""
    small = make_silhouettes(10, (60, 60), seed=5)
    large = make_silhouettes(10, (240, 240), seed=5)
    shrunk = large.reshape(10, 60, 4, 60, 4).mean(axis=(2, 4)) >= 0.5
    overlap = (small & shrunk).sum(axis=(1, 2)) / (small | shrunk).sum(axis=(1, 2))
    assert overlap.min() > 0.7


def test_none_is_legal():
    assert make_silhouettes(0, (20, 30)).shape == (0, 20, 30)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"n_samples": -1}, ValueError, "n_samples must be at least 0"),
        ({"n_samples": 2.0}, TypeError, "n_samples must be an integer"),
        ({"n_samples": True}, TypeError, "n_samples must be an integer"),
        ({"shape": (50,)}, ValueError, "shape must be a pair"),
        ({"shape": 50}, ValueError, "shape must be a pair"),
        ({"shape": (50, 8)}, ValueError, "width must be at least 16"),
        ({"shape": (50.0, 50)}, TypeError, "height must be an integer"),
    ],
)
def test_bad_input_is_named(arguments, error, words):
    with pytest.raises(error, match=words):
        make_silhouettes(**arguments)
