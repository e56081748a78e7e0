"""UAI files: what is read is the product of the tables, what is written comes back."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import FAMILIES, brute_log_partition, enumerate_x

from logsuper import LogSupermodular, read_uai, write_uai
from logsuper.bounds import NotApplicable, _elimination
from logsuper.functions import Cut, LogDet, Modular
from logsuper.io import read_evidence


def text_of(n, factors, kind="MARKOV"):
    """Return the file of a list of (scope, table)."""
    lines = [kind, str(n), " ".join(["2"] * n), str(len(factors))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope, _ in factors]
    lines += [
        f"{np.size(table)} {' '.join(map(repr, np.ravel(table).tolist()))}" for _, table in factors
    ]
    return "\n".join(lines)


def brute(n, factors, evidence=()):
    """Return the partition function and the marginals of a product of tables."""
    states = [
        x for x in product([0, 1], repeat=n) if all(x[i] == v for i, v in dict(evidence).items())
    ]
    mass = np.ones(len(states))
    for scope, table in factors:
        cube = np.reshape(table, (2,) * len(scope))
        mass *= [cube[tuple(x[i] for i in scope)] for x in states]
    return mass.sum(), mass @ np.array(states).reshape(len(states), n) / mass.sum()


def exact(model):
    """Return Z and the marginals of a small model."""
    X = enumerate_x(model.f.n)
    log_z = brute_log_partition(model.f)
    mean = np.empty(model.n)
    mean[model.free] = np.exp(-model.f(X) - log_z) @ X
    for element, value in model.fixed.items():
        mean[element] = value
    return np.exp(log_z + model.constant), mean


@pytest.fixture
def read(tmp_path):
    """Read a model from a text."""

    def read(text, evidence=None):
        path = tmp_path / "model.uai"
        path.write_text(text)
        return read_uai(path, evidence)

    return read


def check(read, n, factors, evidence=None):
    z, mean = brute(n, factors, evidence or {})
    model = read(text_of(n, factors), evidence)
    found, marginals = exact(model)
    assert model.n == n
    assert found == pytest.approx(z, rel=1e-12)
    np.testing.assert_allclose(marginals, mean, atol=1e-12)
    return model


def random_factors(rng, n):
    """Return factors of zero, one and two variables, every pair attractive, some pairs twice."""
    factors = [((), [float(rng.exponential())]), (tuple(range(n)), np.full(2**n, 0.3))]
    for _ in range(2 * n):
        factors.append(((int(rng.integers(n)),), rng.exponential(size=2)))
        if n > 1:
            i, j = rng.choice(n, 2, replace=False).tolist()
            table = rng.exponential(size=(2, 2))
            if np.linalg.det(table) < 0:
                table = table[::-1]
            factors.append(((i, j), table))
    return factors


@given(st.integers(1, 6), st.integers(0, 10**6), st.data())
def test_is_the_product_of_its_tables(tmp_path_factory, n, seed, data):
    factors = random_factors(np.random.default_rng(seed), n)
    evidence = data.draw(st.dictionaries(st.integers(0, n - 1), st.integers(0, 1)))
    path = tmp_path_factory.mktemp("uai") / "model.uai"

    def read(text, evidence):
        path.write_text(text)
        return read_uai(path, evidence)

    model = check(read, n, factors, evidence)
    assert model.fixed == evidence


def test_the_last_variable_changes_fastest(read):
    # p(x_2 = 1, x_0 = 0) = 5, and so on; the scope is not sorted
    model = read(text_of(3, [((2, 0), [2.0, 1.0, 5.0, 9.0])]))
    assert exact(model)[0] == pytest.approx(2 * 17)
    assert exact(model)[1] == pytest.approx([10 / 17, 0.5, 14 / 17])


def test_layout_does_not_matter(read):
    plain = text_of(2, [((0, 1), [2.0, 1.0, 1.0, 2.0])])
    for text in (plain.replace("\n", "   "), plain.replace(" ", "\n\t"), plain + "\n\n  "):
        assert exact(read(text))[0] == pytest.approx(6.0)
    assert exact(read(plain.replace("MARKOV", "BAYES")))[0] == pytest.approx(6.0)
    assert exact(read("MARKOV 0 0"))[0] == 1.0
    assert exact(read("MARKOV 0 1 0 1 2.5"))[0] == pytest.approx(2.5)
    assert exact(read("MARKOV 2 2 2 0"))[0] == pytest.approx(4.0)


def test_pairs_are_multiplied_before_they_are_judged(read):
    repulsive, attractive = ((0, 1), [1.0, 2.0, 2.0, 1.0]), ((1, 0), [3.0, 1.0, 1.0, 3.0])
    check(read, 2, [repulsive, attractive])
    with pytest.raises(
        ValueError, match=r"factor 1 on \(0, 1\) with the table \[1.0, 2.0, 2.0, 1.0\] "
    ):
        read(text_of(2, [((0,), [1.0, 1.0]), repulsive]))
    with pytest.raises(ValueError, match=r"factor 0 .* and factor 1 .* is repulsive"):
        read(text_of(2, [((0, 1), [1.0, 9.0, 9.0, 1.0]), attractive]))
    # with one of the two known, it does not matter
    check(read, 2, [repulsive], {1: 1})


def test_many_factors_on_one_pair_take_linear_time(tmp_path):
    def seconds(count):
        path = tmp_path / f"{count}.uai"
        path.write_text(f"MARKOV 2 2 2 {count}" + " 2 0 1" * count + " 4 2 1 1 2" * count)
        start = time.process_time()
        model = read_uai(path)
        spent = time.process_time() - start
        assert float(model.f([1, 0])) == pytest.approx(count * np.log(2.0))
        return spent

    # 30,000 factors are 480 kB, which took seconds
    small = min(seconds(3_000) for _ in range(3))
    assert min(seconds(30_000) for _ in range(2)) < 25 * small


def test_an_error_about_many_factors_is_short(read):
    factors = [((0, 1), [1.0, 2.0, 2.0, 1.0])] * 1000
    with pytest.raises(ValueError, match=r"factor 2 .* and 997 more is repulsive") as error:
        read(text_of(2, factors))
    assert len(str(error.value)) < 1000


def test_rounding_is_not_repulsion(read):
    # p01 p10 / (p00 p11) = 1 but for the last digit
    table = [0.1, 0.3, 0.1 * 3.3, 0.3 * 3.3 * (1 - 1e-15)]
    model = check(read, 2, [((0, 1), table)])
    assert _elimination.log_partition(model.f).certified
    with pytest.raises(ValueError, match="repulsive"):
        read(text_of(2, [((0, 1), [0.1, 0.3, 0.33, 0.99 * (1 - 1e-9)])]))


IMPLIES = [1.0, 1.0, 0.0, 1.0]  # not (1, 0)


@pytest.mark.parametrize(
    ("factors", "fixed"),
    [
        ([((0,), [0.0, 2.0])], {0: 1}),
        ([((0,), [3.0, 0.0]), ((0, 1), [2.0, 1.0, 1.0, 2.0])], {0: 0}),
        ([((0, 1), [0.0, 0.0, 1.0, 2.0])], {0: 1}),
        ([((1, 0), [1.0, 0.0, 2.0, 0.0])], {0: 0}),
        ([((0, 1), [0.0, 0.0, 0.0, 2.0])], {0: 1, 1: 1}),
        # one zero leads to the next: x_0 = 1, which forces x_1 = 1, which forces x_2 = 1
        ([((0,), [0.0, 2.0]), ((1, 2), IMPLIES), ((0, 1), IMPLIES)], {0: 1, 1: 1, 2: 1}),
        ([((0,), [0.0, 2.0]), ((0, 1), IMPLIES), ((1, 2), IMPLIES)], {0: 1, 1: 1, 2: 1}),
        # two tables that only together leave one value
        ([((0, 1), [1.0, 1.0, 0.0, 1.0]), ((0, 1), [1.0, 1.0, 1.0, 0.0])], {0: 0}),
        # what looks repulsive is not, once a variable is known
        ([((0, 1), [0.0, 3.0, 1.0, 1.0]), ((0,), [0.0, 1.0])], {0: 1}),
    ],
)
def test_zeros_fix_variables(read, factors, fixed):
    assert check(read, 3, factors).fixed == fixed


def test_zeros_that_are_not_representable(read):
    implication, equality = [1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0]
    for table in (implication, equality):
        with pytest.raises(
            ValueError, match=r"factor 0 on \(0, 1\) .* small number, or .* evidence"
        ):
            read(text_of(2, [((0, 1), table)]))
        check(read, 2, [((0, 1), table)], {0: 0})
    for table in ([0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]):
        with pytest.raises(ValueError, match="repulsive"):
            read(text_of(2, [((0, 1), table)]))


@pytest.mark.parametrize(
    ("factors", "evidence"),
    [
        ([((0,), [0.0, 0.0])], None),
        ([((0,), [0.0, 1.0])], {0: 0}),
        ([((0, 1), [0.0] * 4)], None),
        ([((0, 1), [1.0, 0.0, 0.0, 1.0])], {0: 0, 1: 1}),
        ([((), [0.0])], None),
        ([((0, 1, 2), [0.0] * 8)], None),
    ],
)
def test_impossible_models(read, factors, evidence):
    with pytest.raises(ValueError, match="the partition function"):
        read(text_of(3, factors), evidence)


GOOD = "MARKOV 2 2 2 2 1 0 2 0 1 2 1.0 3.0 4 2.0 1.0 1.0 2.0"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "ends too early: expected the word MARKOV"),
        ("GRAPH 2", "should begin with MARKOV or BAYES, got 'GRAPH'"),
        ("MARKOV", "the number of variables"),
        ("MARKOV two", "the number of variables should be an integer >= 0, got 'two'"),
        ("MARKOV -1", "got '-1'"),
        ("MARKOV 999999999999999 2 2", "the size of each of 999999999999999 variables"),
        (f"MARKOV {'9' * 5000}", "should be an integer"),
        ("MARKOV 2 2 3 0", "variable 1 has 3 states"),
        ("MARKOV 1 2 888888888888 1 0", "too short for 888888888888 factors"),
        (
            "MARKOV 1 2 1 777777777777",
            "expected the scope of factor 0, at least 777777777777 words",
        ),
        ("MARKOV 2 2 2 1 1 2 2 1 1", r"factor 0 has the variable 2, outside \[0, 2\)"),
        ("MARKOV 2 2 2 1 2 1 1 4 1 1 1 1", "factor 0 names a variable twice"),
        (
            GOOD.replace("4 2.0", "3 2.0"),
            r"factor 1 on \(0, 1\) should have 2\^2 entries, .* says 3",
        ),
        (
            GOOD.replace("3.0", "x"),
            r"table of factor 0 on \(0,\) should be finite numbers >= 0, got 'x'",
        ),
        (GOOD.replace("3.0", "nan"), "got 'nan'"),
        (GOOD.replace("3.0", "1e999"), "got '1e999'"),
        (GOOD.replace("3.0", "-3"), "got '-3'"),
        (GOOD.replace("3.0", "3_0"), "got '3_0'"),
        (GOOD[:-4], "ends too early: expected the table of factor 1"),
        (GOOD + " 1.0", "1 words too many"),
        ("MARKOV 3 2 2 2 1 3 0 1 2 8 1 1 1 1 1 1 1 2", r"factor 0 has 3 variables, \(0, 1, 2\)"),
        (
            "MARKOV 70 " + "2 " * 70 + "1 70 " + " ".join(map(str, range(70))) + " 4 1 1 1 1",
            r"2\^70",
        ),
    ],
)
def test_damaged_files(read, text, match):
    with pytest.raises(ValueError, match=match):
        read(text)


def test_every_truncation_is_refused(read):
    words = GOOD.split()
    for length in range(len(words)):
        with pytest.raises(ValueError, match=r"model\.uai"):
            read(" ".join(words[:length]))


@given(data=st.binary(max_size=60))
def test_garbage_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("uai") / "garbage.uai"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"garbage\.uai"):
        read_uai(path)


def test_missing_files_are_the_system_s_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_uai(tmp_path / "none.uai")


# ---------------------------------------------------------------------------------------- evidence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {}),
        ("1 0", {}),
        ("2 0 1 3 0", {0: 1, 3: 0}),
        ("1\n2 0 1 3 0", {0: 1, 3: 0}),
        ("1 1 1", {1: 1}),
        ("1\n1 1 1", {1: 1}),
    ],
)
def test_evidence_files(tmp_path, text, expected):
    path = tmp_path / "model.uai.evid"
    path.write_text(text)
    assert read_evidence(path) == expected


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "is empty"),
        ("2 0 1", "declares 2 observed variables"),
        ("3 1 0 1", "holds 3 samples"),
        ("2 0 1 0 0", "gives variable 0 two values"),
        ("1 0 x", "the value of variable 0 should be an integer"),
        ("99999999999 0 1", "declares 99999999999"),
    ],
)
def test_damaged_evidence(tmp_path, text, match):
    path = tmp_path / "model.uai.evid"
    path.write_text(text)
    with pytest.raises(ValueError, match=match):
        read_evidence(path)


def test_evidence_from_a_file_and_out_of_range(tmp_path, read):
    evidence = tmp_path / "evidence"
    evidence.write_text("1 1 1")
    assert exact(read(GOOD, evidence))[0] == pytest.approx(1 + 3 * 2)
    for bad in ({2: 0}, {-1: 0}, {"a": 0}):
        with pytest.raises(ValueError, match="evidence names the variable"):
            read(GOOD, bad)
    with pytest.raises(ValueError, match="the value 2, not 0 or 1"):
        read(GOOD, {0: 2})


# ----------------------------------------------------------------------------------------- writing


def same_model(a, b, tolerance=1e-12):
    assert (a.n, a.fixed) == (b.n, b.fixed)
    X = enumerate_x(a.f.n)
    difference = (a.constant - a.f(X)) - (b.constant - b.f(X))
    size = max(1.0, abs(a.constant), float(np.abs(a.f(X)).max()))
    assert np.abs(difference).max() <= tolerance * size


@pytest.mark.parametrize("name", ["modular", "cut", "directed cut", "grid", "cut, wide weights"])
def test_round_trip(tmp_path, name, seed):
    rng = np.random.default_rng(seed)
    for n, constant in ((1, 0.0), (6, 3.7), (6, -5000.0)):
        model = LogSupermodular(FAMILIES[name](rng, n), constant)
        write_uai(model, tmp_path / "model.uai")
        same_model(read_uai(tmp_path / "model.uai"), model)


def test_round_trip_of_fixed_elements(tmp_path, seed):
    rng = np.random.default_rng(seed)
    model = LogSupermodular(FAMILIES["grid"](rng, 6), 1.0).condition({1: 0, 4: 1})
    write_uai(model, tmp_path / "hard.uai")
    same_model(read_uai(tmp_path / "hard.uai"), model)
    write_uai(model, tmp_path / "soft.uai", tmp_path / "soft.uai.evid")
    assert read_evidence(tmp_path / "soft.uai.evid") == {1: 0, 4: 1}
    same_model(read_uai(tmp_path / "soft.uai", tmp_path / "soft.uai.evid"), model)
    everything = model.condition({0: 1, 2: 1, 3: 0, 5: 0})
    write_uai(everything, tmp_path / "all.uai")
    same_model(read_uai(tmp_path / "all.uai"), everything)


def test_extreme_numbers_are_spread_over_factors(tmp_path):
    f = Cut(3, [(0, 1), (1, 2)], [2000.0, 1e-9]) - Modular([5000.0, -1e-12, 0.0])
    model = LogSupermodular(f, 1e4)
    write_uai(model, tmp_path / "model.uai")
    same_model(read_uai(tmp_path / "model.uai"), model)
    with pytest.raises(ValueError, match=r"elements \(0, 1\) .* rescale"):
        write_uai(LogSupermodular(Cut(2, [(0, 1)], 1e9)), tmp_path / "large.uai")
    with pytest.raises(ValueError, match=r"constant .* rescale"):
        write_uai(LogSupermodular(Modular([]), 1e9), tmp_path / "large.uai")
    assert not (tmp_path / "large.uai").exists()


def test_writing_refuses_what_is_not_a_pairwise_model(tmp_path):
    with pytest.raises(NotApplicable, match="write_uai needs a pairwise function, got LogDet"):
        write_uai(LogSupermodular(LogDet(np.eye(3))), tmp_path / "model.uai")
    with pytest.raises(TypeError, match="model must be a LogSupermodular, got a Cut"):
        write_uai(Cut(2, [(0, 1)]), tmp_path / "model.uai")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------- the competition's files


@pytest.mark.parametrize("number", [11, 12, 13])
def test_published_answers(number, uai2014):
    path = uai2014 / f"Segmentation_{number}.uai"
    model = read_uai(path)
    bound = _elimination.log_partition(model.f).shifted(model.constant)
    published = path.with_name(f"{path.name}.PR").read_text().split()[1]
    assert f"{bound.value / np.log(10):.6g}" == published
    # MAR, then the number of variables, then for each: 2, P(0), P(1)
    words = path.with_name(f"{path.name}.MAR").read_text().split()[2:]
    expected = np.array(words, dtype=float).reshape(-1, 3)[:, 2]
    np.testing.assert_allclose(_elimination.marginals(model.f), expected, atol=1e-6)


def test_a_repulsive_competition_file_is_refused(uai2014):
    with pytest.raises(ValueError, match=r"factor 101 on \(1, 2\) .* is repulsive"):
        read_uai(uai2014 / "Grids_11.uai")
