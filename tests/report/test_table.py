import numpy as np

from logsuper.report import Table, least, show


def test_columns_of_numbers_are_found():
    cells = (
        "1",
        "-2.5",
        "−2.5",
        ".5",
        "+.1",
        "± 3",
        "< 0.1",
        "10 %",
        "",
        "–",
        "1.2 ± .1",
        "1 min 5 s",
    )
    rows = tuple((cell, "word", cell if i else "2 images") for i, cell in enumerate(cells))
    assert Table("G", ("a", "b", "c"), rows).numeric == [True, False, False]


def test_cells_are_text_for_every_writer():
    rows = [[1, 2.345, np.float64(-0.001), None, np.nan], ["x", (1.0, 0.25), (np.nan, 1.0), "", 0]]
    table = Table("T", list("abcde"), rows)
    assert table.rows == (("1", "2.35", "0.00", "", ""), ("x", "1.00 ± 0.25", "", "", "0"))
    assert table == Table("T", tuple("abcde"), table.rows)


def test_numbers_of_several_seeds_are_mean_and_deviation():
    assert show(np.array([1.5, 2.5])) == "2.00 ± 0.50"
    assert show(np.array([1.5])) == "1.50"
    assert show(np.array([1.5]), ".1f") == "1.5"


def test_shown_cells_are_the_csv_where_there_is_no_other():
    assert Table("Plain", ("a", "b"), [(1.0, 'x, "y"')]).csv() == 'a,b\n1.00,"x, ""y"""\n'


def test_all_digits_are_in_the_csv_of_data():
    data = [("a", "b", "c"), (1 / 3, np.nan, 10**9)]
    assert Table("T", "a", [], data=data).csv() == "a,b,c\n0.333333333,,1000000000\n"


def test_the_least_of_each_column_is_found():
    numbers = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 2.0]])
    assert least(numbers) == {(1, 1), (0, 2), (0, 3)}
    assert least(numbers, row=4, column=2) == {(5, 2), (4, 3), (4, 4)}
