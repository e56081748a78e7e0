"""`MaskDenoiser` says the same again: seeds, threads, checkpoints, other images beside."""

import numpy as np
import pytest
from denoisers import make_pairs, quick
from objective_oracles import long

from logsuper.learning import LEARNERS

pytestmark = pytest.mark.usefixtures("stopped_early")


@pytest.mark.parametrize("learner", ["auto", "moments"])
def test_same_seed_same_result(pairs, learner):
    noisy, clean = pairs
    runs = []
    for n_jobs in (1, 1, 2):
        denoiser = quick(learner=learner, random_state=3, n_jobs=n_jobs)
        denoiser.fit(noisy[:6], clean[:6])
        runs.append((denoiser.alpha_, denoiser.modular_, denoiser.predict_proba(noisy)))
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@long
@pytest.mark.parametrize("learner", LEARNERS)
def test_threads_change_no_learner(learner):
    noisy, clean = make_pairs(5, rate=0.15)
    one, two = (
        quick(noise=0.15, learner=learner, max_iter=6, n_jobs=n_jobs).fit(noisy, clean)
        for n_jobs in (1, 2)
    )
    assert one.parameters_.alpha.tobytes() == two.parameters_.alpha.tobytes()
    assert repr(one.history_) == repr(two.history_)
    np.testing.assert_array_equal(one.predict_proba(noisy), two.predict_proba(noisy))
    np.testing.assert_array_equal(
        one.sample_posterior(noisy[:2], 2, 0), two.sample_posterior(noisy[:2], 2, 0)
    )


@pytest.mark.parametrize("context", [0, 1])
@pytest.mark.parametrize("learner", ["logistic", "moments", "resample"])
def test_a_fit_goes_on_from_its_checkpoint(learner, context, tmp_path):
    noisy, clean = make_pairs(6)
    path = tmp_path / "fit"

    def make(**params):
        return quick(noise=0.1, learner=learner, context=context, max_iter=70, **params)

    lines = []

    def stop(line):
        if line.objective == line.objective:  # not only a sign of life
            lines.append(line)
        if len(lines) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(options={"checkpoint": path}, callback=stop, n_jobs=2).fit(noisy, clean)
    assert 0 < lines[-1].step < 70
    resumed = make(options={"checkpoint": path}).fit(noisy, clean)
    whole = make().fit(noisy, clean)
    assert repr(resumed.history_) == repr(whole.history_)
    for name in ("alpha", "modular", "beta"):
        found, expected = (getattr(d.parameters_, name) for d in (resumed, whole))
        assert found.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(resumed.predict_proba(noisy), whole.predict_proba(noisy))
    with pytest.raises(ValueError, match="written with other data"):
        make(options={"checkpoint": path}, random_state=1).fit(noisy, clean)


def test_without_a_seed_a_fitted_estimator_decodes_the_same_twice(pairs):
    noisy, clean = pairs
    denoiser = quick(noise=0.1, random_state=None).fit(noisy[:4], clean[:4])
    np.testing.assert_array_equal(denoiser.predict_proba(noisy), denoiser.predict_proba(noisy))


@pytest.mark.parametrize(
    "make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"]
)
def test_generators_are_seeds_too(pairs, make):
    noisy, clean = pairs
    first, second = (quick(noise=0.1, random_state=make(5)).fit(noisy[:4], clean[:4]) for _ in "ab")
    np.testing.assert_array_equal(first.predict_proba(noisy), second.predict_proba(noisy))


@pytest.mark.parametrize("marginals", ["exact", "logistic"])
def test_decoding_in_pieces_changes_nothing(marginals, pairs, monkeypatch):
    from logsuper.estimators import _images

    noisy, _ = pairs
    fitted = quick(noise=0.1, marginals=marginals).fit(*pairs)
    whole = fitted.predict_proba(noisy)
    monkeypatch.setattr(_images, "_PIECE", 700)
    np.testing.assert_allclose(fitted.predict_proba(noisy), whole, rtol=1e-12)


def test_an_image_is_decoded_alike_in_any_company(pairs):
    noisy, clean = pairs
    denoiser = quick(0.1).fit(noisy[:8], clean[:8])
    whole = denoiser.predict_proba(noisy[:6])
    np.testing.assert_array_equal(denoiser.predict_proba(noisy[:6][::-1])[::-1], whole)
    np.testing.assert_array_equal(denoiser.predict_proba(noisy[4:5]), whole[4:5])
    mixed = denoiser.predict_proba([noisy[0][:10], noisy[4]])
    np.testing.assert_array_equal(mixed[1], whole[4])
