"""The benchmarks of tiles run, and compare what they claim to compare."""

from benchmarks import tile_cases, tiles


def test_speeds_are_measured_on_equal_labels(tmp_path, capsys):
    page = tmp_path / "tiles.md"
    arguments = ["speed", "scale", "--speed-size", "512", "--repeat", "1", "--out", str(page)]
    assert tiles.main(arguments) == 0
    assert "tiles, 2" in capsys.readouterr().out
    assert "10^12 pixels" in page.read_text(encoding="utf-8")


def test_random_cases_are_counted(capsys):
    assert tile_cases.main(15) == 0
    assert "15 of 15 cases" in capsys.readouterr().out
    assert tile_cases.attack(20) == 0
    assert "20 of 20 cases of white noise" in capsys.readouterr().out


def test_the_picture_is_drawn(tmp_path):
    assert tiles.main(["--picture", str(tmp_path / "tiles.png")]) == 0
    assert (tmp_path / "tiles.png").stat().st_size > 10_000
