"""Segmentation from scribbles, on drawn scenes."""

import dataclasses
import io

import numpy as np
import pytest
from sklearn.base import clone

import logsuper as ls
from logsuper.estimators import ScribbleSession, Suggestion

SHAPE = (48, 64)


def disc(shape=SHAPE, seed=0, contrast=1.0, noise=0.1):
    """Return a grey disc, its mask, and a stroke inside and one along each end of the last axis."""
    rng = np.random.default_rng(seed)
    grid = np.indices(shape)
    middle = np.array(shape).reshape(-1, *(1,) * len(shape)) / 2
    mask = ((grid - middle) ** 2).sum(axis=0) < (min(shape) / 3) ** 2
    image = contrast * mask + noise * rng.normal(size=shape)
    marks = np.zeros(shape, dtype=np.uint8)
    marks[tuple(slice(s // 2 - 1, s // 2 + 2) for s in shape)] = 1
    marks[..., :2] = marks[..., -2:] = 2
    return image, mask, marks


@pytest.mark.parametrize("seed", range(3))
def test_scenes(seed):
    images, masks, scribbles = ls.make_scenes(6, (64, 80), seed=seed)
    found = ls.ScribbleSegmenter().predict(images, scribbles)
    errors = [np.mean(a != b) for a, b in zip(found, masks, strict=True)]
    # "all background" is wrong by the share of the object
    assert np.mean(errors) < 0.6 * masks.mean() and np.median(errors) < 0.5 * masks.mean()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [SHAPE, (12, 20, 20)])
def test_an_easy_disc(seed, shape):
    image, mask, marks = disc(shape, seed)
    found = ls.segment(image, marks)
    assert np.mean(found.mask != mask) < 0.02
    assert found.mask[marks == 1].all() and not found.mask[marks == 2].any()
    p = found.probability
    assert p.shape == shape and (p[marks == 1] == 1).all() and (p[marks == 2] == 0).all()
    assert p[mask].mean() > 0.9 > 0.1 > p[~mask].mean()
    assert set(found.seconds) == {"mask", "probabilities"}


def test_the_mask_is_the_exact_cut():
    """Against a maximisation put together by hand."""
    from logsuper.estimators._session import Constants, make_field
    from logsuper.learning import contrast_weights

    image, _, marks = disc((9, 11))
    session = ls.ScribbleSegmenter().start(image)
    constants = session._settings.constants
    assert isinstance(constants, Constants)
    found = session.segment(marks).mask
    field = make_field(session.terms(marks), constants)
    theta = np.where(marks.ravel() == 1, np.inf, np.where(marks.ravel() == 2, -np.inf, field))
    cuts = ls.grid_cuts((9, 11), 8, (1.0, 1.0))
    edges = ls.prepare(cuts).edges
    [weights] = contrast_weights(session._compared, edges, (constants.contrast,))
    strength = constants.coupling * np.sqrt(99 / 100_000)
    y, _, _ = ls.prepare(cuts).maximize(theta, [strength] * 4, edge_weights=weights)
    assert (y.reshape(9, 11) == found).all()


def test_channels_are_told_apart():
    image, _, marks = disc()
    colour = np.stack([image, image, image], axis=-1)
    masks = [
        ls.segment(colour, marks, probability=False).mask,
        ls.segment(np.moveaxis(colour, -1, 0), marks, channel_axis=0, probability=False).mask,
        ls.ScribbleSegmenter().start(colour).segment(marks).mask,
        ls.ScribbleSegmenter(channel_axis=-1).start(colour).segment(marks).mask,
    ]
    assert all((mask == masks[0]).all() for mask in masks)
    assert ls.ScribbleSegmenter().start(np.zeros((5, 6, 7))).shape == (5, 6, 7)
    assert ls.ScribbleSegmenter().start(np.zeros((5, 6, 7, 9))).shape == (5, 6, 7)
    assert ls.ScribbleSegmenter(channel_axis=None).start(np.zeros((5, 6, 3))).shape == (5, 6, 3)


def test_many_channels_and_the_unit_of_the_image():
    image, mask, marks = disc()
    rng = np.random.default_rng(1)
    many = np.stack([image, *rng.normal(size=(5, *SHAPE))], axis=-1)
    assert np.mean(ls.segment(many, marks, probability=False).mask != mask) < 0.1
    plain = ls.segment(image, marks, probability=False).mask
    assert (ls.segment(1e6 * image + 7.0, marks, probability=False).mask == plain).all()


def test_a_constant_image_is_divided_by_place():
    _, _, marks = disc()
    found = ls.segment(np.ones(SHAPE), marks)
    assert found.mask.any() and not found.mask.all()
    assert np.isfinite(found.probability).all()


def test_a_session_gives_what_a_single_call_gives():
    images, _, scribbles = ls.make_scenes(1, SHAPE, seed=2)
    session = ls.ScribbleSegmenter().start(images[0])
    first = np.where(scribbles[0] == 0, 0, scribbles[0])
    more = first.copy()
    more[:2] = 2
    for marks in (first, more, first):
        alone = ls.segment(images[0], marks)
        assert (session.segment(marks).mask == alone.mask).all()
        assert (session.probabilities().probability == alone.probability).all()


def test_threads_and_seeds():
    image, _, marks = disc()
    one, two = (
        ls.segment(image, marks, n_jobs=jobs, random_state=3).probability for jobs in (1, 2)
    )
    assert (one == two).all()
    assert (one != ls.segment(image, marks, random_state=4).probability).any()


def test_progress_can_cancel():
    image, _, marks = disc()
    session = ls.ScribbleSegmenter(n_samples=10).start(image)
    session.segment(marks)
    seen = []
    session.probabilities(callback=lambda done, total: seen.append((done, total)))
    assert seen == [(4, 10), (8, 10), (10, 10)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.probabilities(callback=stop)
    assert session.probabilities().probability is not None


def test_doubted_scribbles_are_not_certain():
    image, _, marks = disc(noise=0.05)
    marks[24, 10] = 1  # one pixel outside the disc, by mistake
    hard, sure, unsure = (ls.segment(image, marks, trust=trust) for trust in (1.0, 0.99, 0.6))
    assert hard.mask[24, 10] and hard.probability[24, 10] == 1.0
    assert 1.0 > sure.probability[24, 10] > unsure.probability[24, 10] > 0.0


def test_certified_bounds_hold_the_probabilities():
    image, _, marks = disc((16, 20), contrast=0.5, noise=0.4)
    session = ls.ScribbleSegmenter(neighbors=4, n_samples=64).start(image)
    session.segment(marks)
    found = session.probabilities(certify=True)
    assert (found.lower <= found.probability).all() and (found.probability <= found.upper).all()
    assert (found.upper - found.lower).mean() < 0.5 and "certified bounds" in found.seconds
    eight = ls.ScribbleSegmenter().start(image)
    eight.segment(marks)
    assert eight.probabilities(certify=True).lower is None


def test_bounds_are_those_of_exact_marginals():
    """On an image small enough for exact inference, bounds hold the calibrated exact marginal."""
    from logsuper.estimators._session import calibrated

    image, _, marks = disc((6, 7), contrast=0.5, noise=0.4)
    session = ls.ScribbleSegmenter(neighbors=4).start(image)
    session.segment(marks)
    found = session.probabilities(certify=True)
    constants, terms = session._settings.constants, session.terms(marks)
    hot = constants.temperature
    field = session._field(marks, terms, constants, hot)
    [alpha] = session._alpha(constants, hot)
    edges, weights = session._prepared.edges, session._edge_weights(constants)
    f = ls.Cut(42, edges, alpha * weights) - ls.Modular(np.where(np.isinf(field), 0.0, field))
    known = {int(d): int(field[d] > 0) for d in np.flatnonzero(np.isinf(field))}
    exact = ls.LogSupermodular(f).condition(known).marginals("exact").values.ravel()
    p = calibrated(terms, exact, constants)
    free = marks.ravel() == 0
    assert (found.lower.ravel()[free] <= p[free] + 1e-9).all()
    assert (found.upper.ravel()[free] >= p[free] - 1e-9).all()


def test_suggestions_are_where_the_doubt_is():
    image, _, marks = disc()
    # a second disc of a colour in between, far from all strokes
    image[34:44, 44:54] = 0.5
    found = ls.segment(image, marks)
    regions = found.suggest(2)
    assert regions and isinstance(regions[0], Suggestion)
    assert [r.entropy for r in regions] == sorted((r.entropy for r in regions), reverse=True)
    for region in regions:
        assert region.mask[region.center] and not (region.mask & (marks > 0)).any()
    assert f"near {regions[0].center}: {regions[0].mask.sum()} pixels" in repr(regions[0])
    assert repr(found).startswith(f"<Segmentation of 48x64: {found.mask.mean():.1%} object, ")
    p = found.probability
    sure = dataclasses.replace(found, probability=np.where(p > 0.5, 1.0, 0.0))
    assert sure.suggest() == []


def test_a_suggested_stroke_removes_doubt():
    before, after = [], []
    for seed in range(4):
        images, masks, scribbles = ls.make_scenes(1, SHAPE, seed=seed)
        session = ls.ScribbleSegmenter().start(images[0])
        session.segment(scribbles[0])
        first = session.probabilities()
        marks = scribbles[0].copy()
        for region in first.suggest(1):
            row, column = region.center
            inside = np.zeros(SHAPE, dtype=bool)
            inside[max(0, row - 2) : row + 3, max(0, column - 2) : column + 3] = True
            marks = np.where(inside & (marks == 0), np.where(masks[0] == 1, 1, 2), marks)
        second = session.segment(marks)
        before.append(np.mean(first.mask != masks[0]))
        after.append(np.mean(second.mask != masks[0]))
    assert np.mean(after) <= np.mean(before)


def test_fit_learns_constants_that_do_better_on_other_scenes():
    train, test = ls.make_scenes(6, (40, 56), seed=1), ls.make_scenes(6, (40, 56), seed=2)
    calls = []
    model = ls.ScribbleSegmenter(callback=lambda *at: calls.append(at))
    fitted = model.fit(train.images, train.masks, train.scribbles)
    assert calls and fitted is model
    assert set(model.constants_) >= {"coupling", "geodesic", "clip", "calibration"}

    def errors(segmenter, scenes):
        found = segmenter.predict(scenes.images, scenes.scribbles)
        return np.mean([np.mean(a != b) for a, b in zip(found, scenes.masks, strict=True)])

    assert errors(model, train) <= errors(ls.ScribbleSegmenter(), train) + 1e-12
    p = np.stack(model.predict_proba(test.images, test.scribbles))
    free = test.scribbles == 0
    y = test.masks[free] == 1
    loss = -np.mean(np.log(np.where(y, p[free], 1 - p[free])))
    share = y.mean()
    assert loss < -(share * np.log(share) + (1 - share) * np.log(1 - share))


def test_fit_without_scribbles_and_with_unknown_pixels():
    train = ls.make_scenes(2, (32, 40), seed=3)
    masks = train.masks.astype(float)
    masks[:, 10:12] = np.nan
    model = ls.ScribbleSegmenter(random_state=1).fit(list(train.images), list(masks))
    again = clone(model).fit(list(train.images), list(masks))
    assert model.constants_ == again.constants_


def test_a_failed_fit_leaves_the_estimator_as_it_was():
    train = ls.make_scenes(2, (32, 40), seed=3)
    model = ls.ScribbleSegmenter()

    def stop(done, total):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        model.set_params(callback=stop).fit(train.images, train.masks, train.scribbles)
    assert not hasattr(model, "constants_")


def test_learning_from_held_out_strokes():
    image, mask, marks = disc(noise=0.3)
    marks[22:26, 20:23] = 1
    marks[:2, 30:] = 2
    found = ls.segment(image, marks, learn="strokes", probability=False)
    assert np.mean(found.mask != mask) < 0.1
    single = np.zeros(SHAPE, dtype=np.uint8)  # one stroke of each: nothing can be held out
    single[24, 32], single[0] = 1, 2
    plain = ls.segment(image, single, probability=False).mask
    with pytest.warns(UserWarning, match="nothing was learned; mark a second place"):
        found = ls.segment(image, single, learn="strokes", probability=False)
    assert (found.mask == plain).all()


def test_saving(tmp_path):
    train = ls.make_scenes(2, (32, 40), seed=3)
    model = ls.ScribbleSegmenter(n_samples=8).fit(train.images, train.masks, train.scribbles)
    model.save(tmp_path / "m.npz")
    same = ls.load_model(tmp_path / "m.npz")
    assert same.constants_ == model.constants_ and same.get_params() == model.get_params()
    for a, b in zip(train.images, train.scribbles, strict=True):
        assert (same.segment(a, b).probability == model.segment(a, b).probability).all()


def test_smaller_copies():
    from logsuper.estimators import _scribbles as small

    marks = np.zeros((401, 500), dtype=np.uint8)
    marks[10, 10:200], marks[400, 10] = 1, 2
    assert small.choose_block(marks.shape) == 3 and small.choose_block((200, 200)) == 1
    image = np.arange(401 * 500 * 3, dtype=np.uint16).reshape(401, 500, 3)
    means = small.shrink_image(image, 2, 3)
    assert means.shape == (134, 167, 3) and means.dtype == np.uint16
    assert means[2, 3, 1] == round(image[6:9, 9:12, 1].mean())
    kept = small.shrink_scribbles(marks, 3)
    assert kept.shape == (134, 167) and kept[133, 3] == 2 and (kept[3, 4:66] == 1).all()
    truth = small.shrink_truth(image[..., 0].astype(float), 3)
    assert truth[5, 6] == image[16, 19, 0]
    grown = small.enlarge(kept == 1, 3, marks.shape)
    assert grown.shape == marks.shape and grown[marks == 1].all()


def test_a_large_image_is_cut_at_its_own_size():
    image, mask, marks = disc((300, 240), noise=0.3)
    found = ls.segment(image, marks, probability=False).mask
    assert found.shape == mask.shape and np.mean(found != mask) < 0.01


def test_strokes_that_a_smaller_copy_would_lose():
    image, _, marks = disc((300, 240), noise=0.3)
    marks[:] = 0
    marks[150, 120:130], marks[151, 120] = 1, 2  # the only background pixel shares a block
    found = ls.segment(image, marks, probability=False).mask
    assert not found[151, 120] and found[150, 120:130].all()


BAD = np.zeros(SHAPE, dtype=np.uint8)
GOOD = disc()[2]


@pytest.mark.parametrize(
    ("image", "marks", "options", "error", "message"),
    [
        (np.zeros((4, 5)), GOOD, {}, ValueError, r"scribbles has shape \(48, 64\), but the image"),
        (np.zeros((*SHAPE, 3, 2)), GOOD, {}, ValueError, "image has shape"),
        (np.full(SHAPE, np.nan), GOOD, {}, ValueError, r"image\[0, 0\] = nan"),
        (np.zeros(SHAPE), GOOD.astype(float), {}, TypeError, "scribbles must hold integers"),
        (np.zeros(SHAPE), GOOD + 1, {}, ValueError, "one against the rest"),
        (np.zeros(SHAPE), BAD + 2, {}, ValueError, r"no object \(label 1\)"),
        (np.zeros(SHAPE), BAD + 1, {}, ValueError, r"no background \(label 2\)"),
        (np.zeros(SHAPE, dtype=complex), GOOD, {}, TypeError, "image must hold real numbers"),
        (np.zeros(SHAPE), GOOD, {"trust": 0.4}, ValueError, "trust must be above 0.5"),
        (np.zeros(SHAPE), GOOD, {"learn": "x"}, ValueError, "learn must be one of"),
        (np.zeros(SHAPE), GOOD, {"neighbors": 5}, ValueError, "neighbors must be one of"),
        (np.zeros(SHAPE), GOOD, {"n_samples": 0}, ValueError, "n_samples must be at least 1"),
        (np.zeros(SHAPE), GOOD, {"channel_axis": 7}, ValueError, "channel_axis"),
    ],
)
def test_bad_input(image, marks, options, error, message):
    with pytest.raises(error, match=message):
        ls.segment(image, marks, **options)


def test_more_bad_input(tmp_path):
    image, _, marks = disc()
    session = ls.ScribbleSegmenter().start(image)
    assert isinstance(session, ScribbleSession)
    with pytest.raises(ValueError, match=r"call segment\(scribbles\) first"):
        session.probabilities()
    with pytest.raises(ValueError, match="no probabilities yet"):
        session.segment(marks).suggest()
    with pytest.raises(ValueError, match="cannot be given together with model"):
        ls.segment(image, marks, model=ls.ScribbleSegmenter(), trust=0.9)
    with pytest.raises(TypeError, match="model must be a ScribbleSegmenter"):
        ls.segment(image, marks, model=3)
    fit = ls.ScribbleSegmenter().fit
    with pytest.raises(ValueError, match="one mask per image"):
        fit([image], [])
    with pytest.raises(ValueError, match=r"masks\[0\]\[0, 0\] = 2.0 is neither"):
        fit([image], [np.full(SHAPE, 2.0)])
    with pytest.raises(ValueError, match="no object to draw scribbles on"):
        fit([image], [np.zeros(SHAPE)])
    with pytest.raises(ValueError, match="scribbles has 2 entries, images 1"):
        fit([image], [image > 0.5], [marks, marks])
    with pytest.raises(ValueError, match="images has 1 entries, scribbles 2"):
        ls.ScribbleSegmenter().predict([image], [marks, marks])


def test_a_quick_cut_keeps_the_colours_and_the_next_one_does_not():
    images, _, scribbles = ls.make_scenes(1, (48, 64), seed=3)
    half = np.where(np.arange(64) < 40, scribbles[0], 0)
    session = ls.ScribbleSegmenter().start(images[0])
    first = session.segment(half, quick=True)  # there are none to keep
    np.testing.assert_array_equal(first.mask, ls.segment(images[0], half).mask)
    quick = session.segment(scribbles[0], quick=True)
    assert quick.mask[scribbles[0] == 1].all() and not quick.mask[scribbles[0] == 2].any()
    found = session.segment(scribbles[0])
    np.testing.assert_array_equal(found.mask, ls.segment(images[0], scribbles[0]).mask)


def test_the_constants_that_ship_can_be_saved(tmp_path):
    file = io.BytesIO()
    ls.ScribbleSegmenter(neighbors=4).save(file)
    (tmp_path / "model.npz").write_bytes(file.getvalue())
    loaded = ls.load_model(tmp_path / "model.npz")
    assert loaded.neighbors == 4 and loaded.constants_["clip"] > 0


def test_a_session_learns_from_strokes_as_a_single_call_does():
    images, _, marks = ls.make_scenes(1, (48, 64), seed=5)
    session = ls.ScribbleSegmenter(learn="strokes").start(images[0])
    first = session.segment(marks[0])
    assert "learning" in first.seconds
    alone = ls.segment(images[0], marks[0], learn="strokes", probability=False)
    np.testing.assert_array_equal(first.mask, alone.mask)
    quick = session.segment(marks[0], quick=True)
    assert "learning" not in quick.seconds
    np.testing.assert_array_equal(quick.mask, first.mask)
    np.testing.assert_array_equal(session.segment(marks[0]).mask, first.mask)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_numbers_of_any_type(dtype):
    """Warnings are errors here: nothing overflows, neither in the check nor in a smaller copy."""
    images, _, marks = ls.make_scenes(1, (260, 300), seed=0)
    grey = images[0].mean(axis=-1) / 255.0
    large = (grey * float(np.finfo(dtype).max) / 1.01).astype(dtype)
    if dtype is np.float64:
        large = grey * 1e139
    found = ls.segment(large, marks[0], probability=False).mask
    alone = ls.segment(grey, marks[0], probability=False).mask
    assert np.mean(found != alone) < 0.01
    large[3, 4] = np.inf
    with pytest.raises(ValueError, match=r"image\[3, 4\] = inf \(row 3, column 4\)"):
        ls.segment(large, marks[0])


def test_a_volume_is_called_a_volume():
    volume, marks = np.zeros((4, 8, 9)), np.zeros((4, 8, 9), dtype=np.uint8)
    marks[0, 0, 0], marks[3] = 1, 2
    volume[2, 3, 4] = np.nan
    with pytest.raises(ValueError, match="slice 2, row 3, column 4"):
        ls.segment(volume, marks)
    with pytest.raises(ValueError, match=r"but the volume \(4, 8, 8\)"):
        ls.segment(np.zeros((4, 8, 8)), marks)


def test_a_label_that_vanishes_is_warned_of():
    marks = np.zeros((40, 40), dtype=np.uint8)
    marks[20, 20], marks[:2], marks[-2:], marks[:, :2], marks[:, -2:] = 1, 2, 2, 2, 2
    with pytest.warns(UserWarning, match="the object is nothing but what is marked"):
        ls.segment(np.zeros((40, 40)), marks, probability=False)
    with pytest.warns(UserWarning, match="mark a second place of either"):
        ls.segment(np.arange(1600.0).reshape(40, 40), marks, learn="strokes", probability=False)


def test_no_sign_of_a_fitted_calibration_is_wrong():
    from sklearn.linear_model import LogisticRegression

    from logsuper.estimators._segment_learning import fit_calibration

    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(500), rng.normal(scale=[2.0, 1.0, 1.0, 0.5], size=(500, 4))])
    for truth in ([0.5, 1.0, 0.7, 0.9, -0.4], [0.5, -1.0, 0.7, -2.0, 0.4], [0, 1, -1, 0.5, -2]):
        y = (rng.random(500) < 1.0 / (1.0 + np.exp(-X @ truth))).astype(float)
        _, mean, colour, geodesic, straight = found = fit_calibration(X, y)
        assert min(mean, colour, geodesic) >= 0 and geodesic + straight >= -1e-9
        if truth[3] == 0.9:  # nothing is bound
            rows = X[:, 1:].copy()
            rows[:, 2] -= rows[:, 3]
            spread = rows.std(axis=0)
            other = LogisticRegression(C=1.0, tol=1e-8).fit(rows / spread, y)
            weights = other.coef_[0] / spread
            weights[3] -= weights[2]
            np.testing.assert_allclose(found[1:], weights, atol=1e-3)
            assert found[0] == pytest.approx(other.intercept_[0], abs=1e-3)


def test_levels_of_a_byte_in_any_type_of_integer_and_masked_images():
    images, _, scribbles = ls.make_scenes(1, shape=(32, 40), seed=2)
    expected = ls.segment(images[0], scribbles[0])
    for image in (images[0].astype(np.int64), images[0].tolist(), images[0].astype(">i4")):
        found = ls.segment(image, scribbles[0])
        np.testing.assert_array_equal(found.mask, expected.mask)
        np.testing.assert_array_equal(found.probability, expected.probability)
    masked = np.ma.MaskedArray(images[0], mask=images[0] > 200)
    with pytest.raises(ValueError, match="image has masked entries"):
        ls.segment(masked, scribbles[0])
