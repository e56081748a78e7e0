"""Choose the projects that pay for the tools they share, exactly.

Each project brings a revenue; each tool is bought once, however many projects use it. The cost of
a set of projects is a coverage function, so that one small cut maximises profit = theta'y - f(y).
"""

import numpy as np

import logsuper as ls


def main() -> None:
    revenue = {"map": 7.0, "survey": 4.0, "drone video": 6.0, "archive": 3.0, "exhibition": 12.0}
    price = {"camera": 5.0, "drone": 15.0, "server": 4.0, "printer": 6.0}
    needs = [
        ["drone", "server"],
        ["server"],
        ["drone", "camera"],
        ["server"],
        ["camera", "printer"],
    ]

    tools = list(price)
    cost = ls.Coverage(
        [[tools.index(tool) for tool in need] for need in needs], weights=list(price.values())
    )
    theta = np.array(list(revenue.values()))
    y, profit = ls.maximize(cost, theta)

    chosen = [name for name, take in zip(revenue, y, strict=True) if take]
    print("take:", ", ".join(chosen))
    print(f"revenue {theta @ y:.0f} - tools {cost(y):.0f} = profit {profit:.0f}")


if __name__ == "__main__":
    main()
