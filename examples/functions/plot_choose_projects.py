"""
Choose the projects that pay for the tools they share
=====================================================

Each project brings a revenue; each tool is bought once, however many projects use it. The cost of
a set of projects is a coverage function, so that one small cut maximises profit = theta'y - f(y),
exactly. As a probability model, the same function also says how clear the decision is.
"""

import matplotlib.pyplot as plt
import numpy as np

import logsuper as ls

revenue = {"map": 7.0, "survey": 4.0, "drone video": 6.0, "archive": 3.0, "exhibition": 12.0}
price = {"camera": 5.0, "drone": 15.0, "server": 4.0, "printer": 6.0}
needs = [["drone", "server"], ["server"], ["drone", "camera"], ["server"], ["camera", "printer"]]

tools = list(price)
cost = ls.Coverage(
    [[tools.index(tool) for tool in need] for need in needs], weights=list(price.values())
)
theta = np.array(list(revenue.values()))
y, profit = ls.maximize(cost, theta)

chosen = [name for name, take in zip(revenue, y, strict=True) if take]
print("take:", ", ".join(chosen))
print(f"revenue {theta @ y:.0f} - tools {cost(y):.0f} = profit {profit:.0f}")

# %%
# Survey and archive share the server; neither would pay for more than that. Nothing pays for the
# drone.

figure, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
taken = {name: bool(take) for name, take in zip(revenue, y, strict=True)}
bought = {tool for need, take in zip(needs, y, strict=True) if take for tool in need}
left = {name: (0.0, -k) for k, name in enumerate(revenue)}
right = {tool: (1.0, -0.5 - k) for k, tool in enumerate(tools)}
for name, need in zip(revenue, needs, strict=True):
    for tool in need:
        (x0, y0), (x1, y1) = left[name], right[tool]
        colour = "#0072B2" if taken[name] else "#BBBBBB"
        axis.plot([x0, x1], [y0, y1], color=colour, linewidth=2.5 if taken[name] else 1.0, zorder=0)
for places, amounts, used, side, sign in (
    (left, revenue, {n for n in taken if taken[n]}, "right", "+"),
    (right, price, bought, "left", "-"),
):
    for name, (x, height) in places.items():
        colour = "#0072B2" if name in used else "#BBBBBB"
        axis.plot(x, height, "o", markersize=12, color=colour)
        offset = -0.05 if side == "right" else 0.05
        text = f"{name}  {sign}{amounts[name]:g}"
        axis.text(x + offset, height, text, ha=side, va="center", fontsize=11)
axis.set_xlim(-0.6, 1.5)
axis.set_ylim(-4.6, 0.6)
axis.set_title(f"Blue: taken and bought, profit {profit:g}", fontsize=11)
axis.set_axis_off()

# %%
# How clear is it?
# ----------------
# Let p(y) be proportional to exp(profit(y) / temperature). At a low temperature, only the best set
# counts; at a higher one, sets that are nearly as good count too. Projects that share a tool rise
# and fall together.

temperatures = np.geomspace(0.2, 20.0, 40)
probability = np.array(
    [
        ls.LogSupermodular((1 / t) * cost - ls.Modular(theta / t)).marginals("exact").values
        for t in temperatures
    ]
)
for name, p in zip(revenue, probability[np.abs(temperatures - 1.0).argmin()], strict=True):
    print(f"{name:12} {p:.2f} at a temperature of about 1")

figure, axis = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
palette = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
for name, curve, colour in zip(revenue, probability.T, palette, strict=True):
    axis.plot(temperatures, curve, color=colour, linewidth=2, label=name)
axis.set_xscale("log")
axis.set_xlabel("temperature (in units of profit)")
axis.set_ylabel("probability that it is taken")
axis.set_ylim(-0.03, 1.03)
axis.legend(frameon=False)
axis.grid(alpha=0.3)
plt.show()
