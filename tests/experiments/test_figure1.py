import csv
import io

import numpy as np
import pytest
from PIL import Image

from logsuper.datasets import gaussian_mixture_graph
from logsuper.experiments import Job, figure1
from logsuper.report import Finding

SMALL = {"points": 6, "counts": [0, 1, 3, 6], "n_samples": 60}
INDEX = {curve.key: i for i, curve in enumerate(figure1.CURVES)}


@pytest.fixture(scope="module")
def result():
    return figure1.compute(Job((0, 1, 2)), **SMALL)


def test_shapes(result):
    shape = (3, 2, 4, len(figure1.CURVES))
    for part in (result.value, result.stderr, result.seconds, result.solves):
        assert part.shape == shape
    assert result.mean.shape == result.band()[0].shape == shape[1:]
    assert np.isfinite(result.value).all()
    assert (result.seconds > 0).all()


def test_bounds_bound(result):
    """Lower <= exact <= upper; an estimate of an upper bound may be a few errors below."""
    exact = result.value[..., INDEX["exact"]]
    for i, curve in enumerate(figure1.CURVES):
        excess = result.value[..., i] - exact
        slack = 1e-9 + 5.0 * np.nan_to_num(result.stderr[..., i])
        if curve.side == "lower":
            assert (excess <= slack).all(), curve.key
        else:
            assert (excess >= -slack).all(), curve.key
    assert (result.value[..., INDEX["lfield"]] - exact).max() > 1.0


def test_exact_agrees_with_enumeration(result):
    decay, k = 1, 2  # c = 3, three points given in each cluster
    for s, seed in enumerate(result.seeds):
        cut = gaussian_mixture_graph(6, 3.0, seed=seed).cut
        x = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
        agree = x[:, :3].all(axis=1) & ~x[:, 6:9].any(axis=1)
        expected = np.logaddexp.reduce(-cut(x[agree]))
        assert result.value[s, decay, k, INDEX["exact"]] == pytest.approx(expected, rel=1e-10)


def test_everything_given_leaves_nothing_to_bound(result):
    for s, seed in enumerate(result.seeds):
        for c, decay in enumerate(result.decays):
            graph = gaussian_mixture_graph(6, decay, seed=seed)
            assert result.value[s, c, -1] == pytest.approx(-graph.cut(graph.labels), rel=1e-12)
    assert (result.solves[:, :, -1] == 0).all()


def test_only_sampled_bounds_have_errors_and_take_the_samples(result):
    for i, curve in enumerate(figure1.CURVES):
        free = (slice(None), slice(None), slice(0, 3), i)
        assert np.isnan(result.stderr[free]).all() == (not curve.sampled)
        if curve.sampled:
            assert (result.stderr[free] >= 0).all()
            assert (result.solves[free] >= SMALL["n_samples"]).all()


def test_curve_left_out_for_large_models():
    found = figure1.compute(Job((0,)), decays=[3.0], counts=[1, 2], points=10, n_samples=20)
    exact = found.value[0, 0, :, INDEX["exact"]]
    assert np.isnan(exact[0])  # 18 free elements
    assert np.isfinite(exact[1])
    first, *_, cost = figure1.make_section(found).tables
    rows = list(csv.DictReader(io.StringIO(first.csv())))
    assert [row["k"] for row in rows if row["method"] == "exact"] == ["2"]
    exact = [row for row in cost.rows if row[0] == "exact"]
    assert len(exact) == 1 and "nan" not in exact[0] and "" not in exact[0]


def test_band_is_students_interval(result):
    low, high = result.band()
    at = (0, 1, INDEX["lfield"])
    values = result.value[:, 0, 1, INDEX["lfield"]]
    radius = 4.302652729911275 * values.std(ddof=1) / np.sqrt(3)  # t quantile, 2 degrees
    assert low[at] == pytest.approx(values.mean() - radius)
    assert high[at] == pytest.approx(values.mean() + radius)
    one = figure1.compute(Job((0,)), decays=[1.0], counts=[6], points=6)
    assert np.array_equal(one.band()[0], one.mean)


def test_crossing_is_found(result):
    value = result.value.copy()
    value[1, 0, 1, INDEX["lfield"]] = result.best_lower[1, 0, 1] - 2.0
    value[1, 0, 1, INDEX["logistic"]] = result.best_lower[1, 0, 1] - 2.0
    stderr = result.stderr.copy()
    stderr[1, 0, 1, INDEX["logistic"]] = 0.5
    broken = figure1.Result(
        **{**vars(result), "value": value, "stderr": stderr},
    )
    nats, errors = broken.crossing(INDEX["lfield"])
    assert nats[1, 0, 1] == pytest.approx(2.0) and (nats > 0).sum() == 1
    assert np.isposinf(errors[1, 0, 1])
    nats, errors = broken.crossing(INDEX["logistic"])
    assert errors[1, 0, 1] == pytest.approx(4.0)
    assert not result.crossing(INDEX["lfield"])[0].any()


# ---- the same numbers again ----------------------------------------------------------------------


def same(one, two):
    return all(
        np.array_equal(getattr(one, key), getattr(two, key), equal_nan=True)
        for key in ("value", "stderr", "solves")
    )


def test_same_seeds_same_numbers_whatever_the_processes(result):
    assert same(result, figure1.compute(Job((0, 1, 2), n_jobs=2), **SMALL))


def test_numbers_of_a_data_set_do_not_depend_on_the_others(result):
    alone = figure1.compute(Job((2,)), **{**SMALL, "counts": [1]})
    assert np.array_equal(alone.value[0, :, 0], result.value[2, :, 1])


def test_resumes_where_it_was_stopped(result, tmp_path, monkeypatch):
    done = []

    def stop(count, total):
        done.append(count)
        assert total == 6  # three data sets, two decays
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        figure1.compute(Job((0, 1, 2), partial=tmp_path, progress=stop), **SMALL)
    assert done == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 3

    computed = []
    model = figure1._model
    monkeypatch.setattr(
        figure1, "_model", lambda *arguments: computed.append(arguments[1]) or model(*arguments)
    )
    job = Job((0, 1, 2), partial=tmp_path)
    resumed = figure1.compute(job, **SMALL)
    assert same(result, resumed)
    assert computed == [1] * 4 + [2] * 8
    again = figure1.compute(job, **SMALL)
    assert len(computed) == 12
    assert np.array_equal(again.seconds, resumed.seconds)
    figure1.compute(Job((0,), partial=tmp_path), **{**SMALL, "n_samples": 61})
    assert len(computed) == 20


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def section(result):
    return figure1.make_section(result)


def test_picture(section):
    (picture,) = section.pictures
    with Image.open(io.BytesIO(picture.png)) as image:
        assert min(image.info["dpi"]) > 199
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[0] > 1200 and pixels.shape[1] > 1600
    assert (pixels != 255).any(axis=2).mean() > 0.02


def test_table_for_programs(result, section):
    rows = list(csv.DictReader(io.StringIO(section.tables[0].csv())))
    assert len(rows) == 2 * 4 * len(figure1.CURVES)
    assert list(rows[0]) == [
        *("decay", "k", "method", "side"),
        *("mean", "low", "high", "stderr", "seconds", "solves"),
    ]
    low, high = result.band()
    for row in rows:
        at = (
            result.decays.index(float(row["decay"])),
            result.counts.index(int(row["k"])),
            INDEX[row["method"]],
        )
        for name, expected in (("mean", result.mean), ("low", low), ("high", high)):
            assert float(row[name]) == pytest.approx(expected[at], rel=1e-8)
        sampled = figure1.CURVES[at[2]].sampled and int(row["k"]) < 6
        assert (row["stderr"] != "") == sampled


def test_section_for_people(result, section):
    assert [table.name for table in section.tables] == [
        *("figure1", "figure1_c3", "figure1_order", "figure1_exact", "figure1_cost")
    ]
    assert section.seeds == result.seeds
    shown = " ".join(cell for table in section.tables for row in table.rows for cell in row)
    for curve in figure1.CURVES:
        assert curve.label.replace("$", "") in shown
    assert "nan" not in shown and "-0.00 " not in shown
    for table in section.tables:
        assert len(table.rows) > 3
        assert {len(row) for row in table.rows} == {len(table.head)}
    findings = [part for part in section.text if isinstance(part, Finding)]
    assert len(findings) == 3 and all("nan" not in part.found for part in findings)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"decays": [-1.0]}, ValueError, r"decays\[0\] = -1 is negative"),
        ({"decays": [float("nan")]}, ValueError, r"decays\[0\] must be finite"),
        (
            {"counts": [51]},
            ValueError,
            r"counts\[0\] = 51, but a cluster has only 50",
        ),
        ({"counts": [1.5]}, TypeError, r"counts\[0\] must be an integer"),
        ({"points": 0, "counts": [0]}, ValueError, "points must be at least 1"),
        ({"n_samples": 1}, ValueError, "n_samples must be at least 2"),
        ({"counts": [1, 1]}, ValueError, "counts has an entry twice"),
        ({"decays": []}, ValueError, "decays is empty"),
    ],
)
def test_bad_arguments(options, error, words):
    with pytest.raises(error, match=words):
        figure1.compute(Job(), **options)
