"""What was found, in plain words, as a table, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logsuper.cli._cleaning import total
from logsuper.cli._console import one_line, print_table, say

if TYPE_CHECKING:
    from logsuper.cli._cleaning import Cleaned
    from logsuper.cli._masks import Run


UNFINISHED = "; learning stopped before its weights had settled, which more images may mend"


def percent(share: float) -> str:
    """Return a share in percent, with two digits that count."""
    value = 100.0 * share
    if value == 0.0 or value >= 9.95:
        return f"{value:.1f} %"
    return f"{value:.2f} %" if value >= 0.1 else f"{value:.2g} %"


def words_of_model(found: dict[str, Any]) -> list[str]:
    """Return sentences about a model."""
    return [_noise(found), _smoothness(found), *([_trees(found)] if found["trees"] else [])]


def _noise(found: dict[str, Any]) -> str:
    kind, noise, error = found["noise_kind"], found["noise"], found.get("noise_error")
    if kind == "gaussian":
        (dark, bright), (first, second) = found["levels"], noise
        return (
            f"Noise: grey levels {dark:.3g} and {bright:.3g}, with standard deviations "
            f"{first:.2g} and {second:.2g}."
        )
    if kind == "flips" and isinstance(noise, float):
        known = "" if error is None else f", with a standard error of {percent(error)}"
        return f"Noise: {percent(noise)} of the pixels are flipped{known}."
    return f"Noise: {found['noise_in_words']}."


def _smoothness(found: dict[str, Any]) -> str:
    if not found["directions"]:
        listed = ", ".join(f"{weight:.2f}" for weight in found["weights"])
        return f"Smoothness: functions with the weights {listed}."
    pairs = zip(found["weights"], found["directions"], strict=True)
    weights = [f"{weight:.2f} {name}" for weight, name in pairs]
    return (
        f"Smoothness: a border between neighbours costs {', '.join(weights[:-1])} and "
        f"{weights[-1]} (in nats)."
    )


def _trees(found: dict[str, Any]) -> str:
    return (
        "Boosted trees look at the surroundings of each pixel; their log-odds count "
        f"{found['trees_weight']:.2f} times."
    )


def print_found(run: Run) -> None:
    """Print what was learned."""
    found = run.found
    if "images" in found:
        images = f"{found['images']} image{'s' * (found['images'] != 1)}"
        labels = "no clean ones" if not found["labelled"] else "with their clean masks"
        rest = "" if found["converged"] else UNFINISHED
        pixels = f"{found['pixels']:,} pixels"
        say(f"Learned from {images} ({pixels}), {labels}{rest}.")
    for line in words_of_model(found):
        say(line)


def print_summary(run: Run, cleaned: Sequence[Cleaned], out: Path, seconds: float) -> None:
    """Print the shares in words, and a table of what was done."""
    from logsuper.report import Table, duration

    shares = total([one.figures for one in cleaned])
    if shares:
        differ = shares["neighbours_differ_before"], shares["neighbours_differ_after"]
        say(
            f"Neighbouring pixels differ in {percent(differ[0])} of the cases before, in "
            f"{percent(differ[1])} after."
        )
        say(
            f"Wrong pixels, as the model expects: {percent(shares['wrong_before'])} before, "
            f"{percent(shares['wrong_after'])} after."
        )
        if not differ[1] and differ[0]:
            say(
                "Every mask is of one colour now, so that nothing was found in them: the expected "
                "share is not to be trusted."
            )
    soft = sum(bool(one.figures.get("cut")) for one in cleaned)
    if soft:
        say(
            f"{soft} mask{'s' * (soft > 1)} with soft or compressed borders "
            f"{'were' if soft > 1 else 'was'} cut at one half "
            "(--threshold sets another level)."
        )
    renamed = [one for one in cleaned if one.output.suffix.lower() != one.source.suffix.lower()]
    if renamed:
        one = renamed[0]
        names = one_line(one.source.name), one_line(one.output.name)
        count = len(renamed)
        say(
            f"{names[0]} was written as {names[1]}, without loss."
            if count == 1
            else f"{count} were written in a lossless format, such as {names[0]} as {names[1]}."
        )
    before = sum(one.before for one in cleaned)
    rows = [("images cleaned", str(len(cleaned) - before))]
    if before:
        rows.append(("finished by an earlier run", str(before)))
    if run.failures:
        rows.append(("left out", str(len(run.failures))))
    if shares:
        rows.append(("pixels", f"{shares['pixels']:,}"))
        rows.append(("changed", percent(shares["changed"])))
        if shares["missing"]:
            rows.append(("missing, filled in", percent(shares["missing"])))
        if "uncertain" in shares:
            rows.append(("uncertain", percent(shares["uncertain"])))
    rows.append(("time", duration(seconds)))
    print_table(Table("Summary", ["what", "result"], rows))
    say(f"Written to: {out}")


def as_content(run: Run, cleaned: Sequence[Cleaned] | None = None, **more: Any) -> dict[str, Any]:
    """Return everything as JSON can hold it."""
    content: dict[str, Any] = {"model": run.found, **more}
    if cleaned is not None:
        content["all"] = total([one.figures for one in cleaned])
        content["files"] = [
            {
                "input": str(one.source),
                "output": str(one.output),
                "finished_before": one.before,
                **{k: v for k, v in one.figures.items() if k not in ("file", "key", "sha256")},
                "shares": total([one.figures]),
            }
            for one in cleaned
        ]
    content["left_out"] = [
        {"input": str(failure.source), "reason": failure.reason} for failure in run.failures
    ]
    content["warnings"] = run.warned
    return content
