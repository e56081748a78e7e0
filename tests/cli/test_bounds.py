import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from logsuper.bounds import Bound, Bracket, _lfield
from logsuper.cli import main
from logsuper.cli._answers import best_estimate

DEFAULT = ["exact", "lfield", "logistic", "trw", "superdifferential", "mean_field", "bethe"]


def run(*arguments):
    return CliRunner().invoke(main, ["bounds", *map(str, arguments)])


def write_uai(path, n, factors):
    """Write factors, each a scope and a table of values, as a Markov network."""
    lines = ["MARKOV", str(n), " ".join(["2"] * n), str(len(factors))]
    lines += [" ".join(map(str, [len(scope), *scope])) for scope, _ in factors]
    for _, table in factors:
        lines += ["", str(len(table)), " ".join(map(repr, table))]
    path.write_text("\n".join(lines) + "\n")
    return path


def enumerate_uai(n, factors, evidence=()):
    """Return ln Z and the marginals."""
    x = np.array(list(itertools.product([0, 1], repeat=n)))
    weight = np.ones(len(x))
    for scope, table in factors:
        index = sum(x[:, v] << (len(scope) - 1 - i) for i, v in enumerate(scope))
        weight *= np.array(table)[index]
    for variable, value in evidence:
        weight *= x[:, variable] == value
    return math.log(weight.sum()), weight @ x / weight.sum()


def ring(seed, n=6):
    rng = np.random.default_rng(seed)
    factors = [((i,), rng.uniform(0.5, 2.0, 2).tolist()) for i in range(n)]
    for i in range(n):
        agree, differ = rng.uniform(1.0, 4.0, 2).tolist(), rng.uniform(0.2, 1.0, 2).tolist()
        factors.append(((i, (i + 1) % n), [agree[0], differ[0], differ[1], agree[1]]))
    return factors


@pytest.fixture
def model(tmp_path, seed):
    factors = ring(seed)
    return write_uai(tmp_path / "ring.uai", 6, factors), factors


def test_table(model):
    path, factors = model
    result = run(path)
    assert result.exit_code == 0, result.output
    for name in DEFAULT[1:]:
        assert name in result.stdout
    log_z, _ = enumerate_uai(6, factors)
    assert f"{log_z:.6f}" in result.stdout
    assert f"{log_z / math.log(10):.6f}" in result.stdout
    assert "Certified: ln Z in [" in result.stdout


def test_the_name_of_a_file_is_printed_as_it_is(tmp_path):
    for name in ("[bold]x[!.uai", ":smile:.uai"):
        path = write_uai(tmp_path / name, 2, [((0, 1), [2.0, 1.0, 1.0, 2.0])])
        result = run(path, "--method", "lfield")
        assert result.exit_code == 0, result.output
        assert f"{name}: 2 variables" in result.stdout


def test_a_method_that_fails_on_the_numbers_is_left_out(model, monkeypatch):
    path, _ = model
    for error in (ValueError("the numbers overflow; rescale f"), MemoryError()):

        def fail(*arguments, error=error, **options):
            raise error

        monkeypatch.setattr(_lfield, "log_partition", fail)
        result = run(path, "--method", "lfield", "--method", "bethe")
        assert result.exit_code == 0, result.output
        assert f"lfield: left out, {error or 'there is not enough memory'}" in result.stdout
        assert run(path, "--method", "lfield").exit_code == 2


def test_json(model):
    path, factors = model
    result = run(path, "--json", "--marginals")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    content = json.loads(result.stdout)
    log_z, marginals = enumerate_uai(6, factors)
    assert [row["method"] for row in content["bounds"]] == DEFAULT
    for row in content["bounds"]:
        assert row["log10"] == pytest.approx(row["ln"] / math.log(10))
        excess, slack = row["ln"] - log_z, 1e-9 + 5 * (row["stderr"] or 0.0)
        if row["side"] != "upper":
            assert excess <= slack, row
        if row["side"] != "lower":
            assert excess >= -slack, row
    assert content["variables"] == 6 and content["fixed"] == {}
    assert content["bracket"]["lower"] == pytest.approx(log_z, abs=1e-9)
    assert content["bracket"]["upper"] == pytest.approx(log_z, abs=1e-9)
    assert list(content["marginals"]) == DEFAULT
    assert content["marginals"]["exact"]["values"] == pytest.approx(marginals.tolist(), abs=1e-9)
    for found in content["marginals"].values():
        assert len(found["values"]) == 6
        assert all(0 <= value <= 1 for value in found["values"])


def test_evidence(model, tmp_path):
    path, factors = model
    (tmp_path / "ring.evid").write_text("2 1 1 4 0\n")
    result = run(path, "--evidence", tmp_path / "ring.evid", "--json", "--marginals")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    log_z, marginals = enumerate_uai(6, factors, [(1, 1), (4, 0)])
    assert content["fixed"] == {"1": 1, "4": 0}
    assert content["bounds"][0]["ln"] == pytest.approx(log_z, abs=1e-9)
    assert content["marginals"]["exact"]["values"] == pytest.approx(marginals.tolist(), abs=1e-9)


def test_chosen_methods_only(model):
    path, _ = model
    content = json.loads(run(path, "--method", "bethe", "--method", "lfield", "--json").stdout)
    assert [row["method"] for row in content["bounds"]] == ["bethe", "lfield"]
    values = {row["method"]: row["ln"] for row in content["bounds"]}
    assert content["bracket"] == {
        "lower": values["bethe"],
        "upper": values["lfield"],
        "methods": ["bethe", "lfield"],
    }
    assert json.loads(run(path, "--method", "bethe", "--json").stdout)["bracket"] is None


def test_same_seed_same_estimate(model):
    path, _ = model

    def estimate(seed):
        found = run(path, "--method", "logistic", "--seed", seed, "--json")
        return json.loads(found.stdout)["bounds"][0]["ln"]

    assert estimate(3) == estimate(3) != estimate(4)


def test_marginals_as_a_table(model):
    path, factors = model
    result = run(path, "--marginals", "--method", "exact")
    assert result.exit_code == 0, result.output
    _, marginals = enumerate_uai(6, factors)
    for value in marginals:
        assert f"{value:.4f}" in result.stdout


def test_method_that_does_not_suit_is_listed(model):
    path, _ = model
    result = run(path, "--method", "cardinality", "--method", "lfield")
    assert result.exit_code == 0, result.output
    assert "cardinality: left out" in result.stdout
    content = json.loads(
        run(path, "--method", "cardinality", "--method", "lfield", "--json").stdout
    )
    assert "cardinality" in content["bounds"][0]["skipped"]
    alone = run(path, "--method", "cardinality")
    assert alone.exit_code == 2
    assert alone.stdout == "" and alone.stderr.count("\n") == 1


def test_too_large_for_exact_inference(tmp_path):
    pairs = list(itertools.combinations(range(60), 2))
    factors = [(pair, [1.1, 1.0, 1.0, 1.1]) for pair in pairs]
    path = write_uai(tmp_path / "complete.uai", 60, factors)
    result = run(path, "--budget", "1e6")
    assert result.exit_code == 0, result.output
    assert "exact: left out" in result.stdout
    assert "Certified: ln Z in [" in result.stdout
    assert run(path, "--method", "exact").exit_code == 2


def test_everything_known(tmp_path):
    factors = [((0, 1), [2.0, 1.0, 1.0, 3.0])]
    path = write_uai(tmp_path / "pair.uai", 2, factors)
    (tmp_path / "all.evid").write_text("2 0 1 1 1\n")
    result = run(path, "--evidence", tmp_path / "all.evid", "--json", "--marginals")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    for row in content["bounds"]:
        assert row["ln"] == pytest.approx(math.log(3.0))
    assert content["marginals"]["exact"]["values"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.uai"], "missing.uai"),
        (["repulsive.uai"], "repulsive"),
        (["broken.uai"], "broken.uai"),
        (["noise.uai"], "noise.uai"),
        (["good.uai", "--method", "magic"], "'magic' is not one of auto, exact,"),
        (["good.uai", "--evidence", "missing.evid"], "missing.evid"),
        (["good.uai", "--evidence", "broken.uai"], "broken.uai"),
        (["good.uai", "--budget", "0"], "--budget"),
        (["good.uai", "--budget", "nan"], "--budget"),
        (["good.uai", "--seed", "-1"], "--seed"),
        ([], "FILE"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    write_uai(tmp_path / "good.uai", 2, [((0, 1), [2.0, 1.0, 1.0, 2.0])])
    write_uai(tmp_path / "repulsive.uai", 2, [((0, 1), [1.0, 2.0, 2.0, 1.0])])
    (tmp_path / "broken.uai").write_text("MARKOV\n2\n2 2\n1\n2 0")
    (tmp_path / "noise.uai").write_bytes(bytes(range(256)))
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert words in result.stderr


def test_the_mode_is_a_most_probable_state(model):
    path, factors = model
    content = json.loads(run(path, "--json", "--method", "lfield").stdout)
    best, states = most_probable(6, factors)
    assert content["mode"]["ln"] == pytest.approx(best)
    assert tuple(content["mode"]["x"]) in states
    assert "Mode: ln weight" in run(path, "--method", "lfield").stdout


def most_probable(n, factors, evidence=()):
    """Return the largest log-weight, and all states that have it."""
    found = {}
    for x in itertools.product([0, 1], repeat=n):
        if all(x[variable] == value for variable, value in evidence):
            found[x] = sum(
                math.log(table[int("".join(str(x[v]) for v in scope), 2)])
                for scope, table in factors
            )
    best = max(found.values())
    return best, {x for x, value in found.items() if value > best - 1e-9}


def test_results_in_the_formats_of_the_competitions(model, tmp_path):
    path, factors = model
    (tmp_path / "ring.evid").write_text("1 2 1\n")
    line = (path, "--evidence", tmp_path / "ring.evid", "--write", tmp_path / "new")
    result = run(*line)
    assert result.exit_code == 0, result.output
    log_z, marginals = enumerate_uai(6, factors, [(2, 1)])
    kind, value = (tmp_path / "new" / "ring.uai.PR").read_text().split()
    assert kind == "PR" and float(value) == pytest.approx(log_z / math.log(10), abs=1e-9)
    kind, count, *rest = (tmp_path / "new" / "ring.uai.MAR").read_text().split()
    numbers = np.array(rest, dtype=float).reshape(6, 3)
    assert (kind, count) == ("MAR", "6") and (numbers[:, 0] == 2).all()
    assert numbers[:, 2] == pytest.approx(marginals, abs=1e-9)
    assert numbers[:, 1] == pytest.approx(1 - marginals, abs=1e-9)
    kind, count, *state = (tmp_path / "new" / "ring.uai.MAP").read_text().split()
    assert (kind, count) == ("MAP", "6")
    assert tuple(map(int, state)) in most_probable(6, factors, [(2, 1)])[1]
    for what in ("log10 Z = ", "marginals (by ", "mode (exact"):
        assert f"Written: {what}" in result.stdout
    assert "(exact, by enumeration) to " in result.stdout
    assert str(tmp_path / "new" / "ring.uai.MAP") in result.stdout
    again = run(*line)
    assert again.exit_code == 2 and "is there already" in again.stderr and again.stdout == ""
    assert run(*line, "--force", "--json").exit_code == 0


def write_grid(path, side):
    """Write a grid that no exact method can do with a small budget."""
    fields = [((d,), [1.0, 1.0 + 0.1 * (d % 7)]) for d in range(side * side)]
    rows = [(d, d + 1) for d in range(side * side) if (d + 1) % side]
    columns = [(d, d + side) for d in range(side * (side - 1))]
    write_uai(path, side**2, [*fields, *((pair, [1, 0.5, 0.5, 1]) for pair in rows + columns)])


@pytest.mark.parametrize("method", ["bethe", "lfield", None])
def test_the_estimate_that_is_written_is_the_middle_of_the_best_bracket(tmp_path, method):
    write_grid(tmp_path / "g.uai", 20)
    line = [tmp_path / "g.uai", "--budget", "1e6", "--write", tmp_path / "out", "--json"]
    result = run(*line, *(["--method", method] if method else []))
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    ends = content["bracket"]["lower"], content["bracket"]["upper"]
    written = float((tmp_path / "out" / "g.uai.PR").read_text().split()[1]) * math.log(10.0)
    assert ends[1] - ends[0] > 0.01 and written == pytest.approx(sum(ends) / 2.0)
    by = content["answers"]["log_partition"]["by"]
    assert by.startswith("the middle of the bracket by ") and "nats wide" in by
    assert content["answers"]["marginals"]["by"].startswith("by strips, certified to ")


def test_an_estimate_better_than_the_bracket_is_written(tmp_path):
    below, above = Bound(0.0, "lower", "a", True), Bound(10.0, "upper", "b", True)
    bracket = Bracket(below, above)
    good = Bound(4.0, "estimate", "ais", stderr=0.1)
    assert best_estimate([good], bracket)[0] == 4.0
    assert best_estimate([dataclasses.replace(good, stderr=5.0)], bracket)[0] == 5.0
    assert best_estimate([dataclasses.replace(good, value=11.0)], bracket)[0] == 5.0
    exact = Bound(3.0, "exact", "c", True)
    assert best_estimate([good, exact], bracket) == (3.0, "exact, by c")


def test_reasons_name_nothing_of_python(tmp_path):
    write_grid(tmp_path / "g.uai", 40)
    text = run(tmp_path / "g.uai", "--budget", "1e6").stdout
    assert "exact: left out" in text and "bracket()" not in text and "limit=" not in text


def test_the_shell_completes_methods():
    option = next(p for p in main.commands["bounds"].params if p.name == "methods")
    found = [item.value for item in option.type.shell_complete(None, option, "m")]
    assert found == ["mean_field"]


def test_results_where_nothing_can_be_written(model, tmp_path):
    (tmp_path / "file").touch()
    result = run(model[0], "--write", tmp_path / "file" / "below")
    assert result.exit_code == 2 and "--write: cannot write" in result.stderr
