// Bounds on log-odds from windows of a grid, their gradient, and log Z of a whole grid.
#pragma once

#include <algorithm>
#include <vector>

#include "strips_windows.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

// Column c of an (h, w) array as a vector.
inline const double* column_of(const double* a, int64_t c, const Grid& g, std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r) out[r] = a[r * g.w + c];
    return out.data();
}

// The field on column c of column c - 1, clamped at the reference.
inline const double* clamped_field(const uint8_t* reference, int64_t c, const Grid& g,
                                   std::vector<double>& out) {
    out.resize(g.h);
    for (int64_t r = 0; r < g.h; ++r)
        out[r] = (reference[r * g.w + c - 1] ? 1 : -1) * g.across[r * (g.w - 1) + c - 1];
    return out.data();
}

// Bounds from one side (bound = 0: lower, 1: upper) on the field with which the columns from c on act on the
// pixels of column c - 1: field[r, c] for c >= 1; column 0 is not written. By supermodularity the field on
// one pixel is extreme if the others of column c - 1 are all 0 or all 1; it depends on the rest only through
// the log-odds q of its neighbour without it, as log((e^q + e^-a) / (e^(q - a) + 1)). The columns beyond the
// window act with the field found before, from the right edge on.
inline void bound_fields(const Model& model, int64_t window, int bound, WindowScratch& scratch,
                         double* field) {
    const Grid& g = model.grid;
    const double sign = bound ? 1.0 : -1.0;
    std::vector<double> odds(g.h);
    for (int64_t c = g.w - 1; c > 0; --c) {
        Span span{c, std::min(window, g.w - c)};
        scratch.left.resize(g.h);
        for (int64_t r = 0; r < g.h; ++r) scratch.left[r] = sign * g.across[r * (g.w - 1) + c - 1];
        span.left = scratch.left.data();
        if (c + window < g.w) span.right = column_of(field, c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            win.columns(1, odds.data(), 1);
            for (int64_t r = 0; r < g.h; ++r) {
                const double a = g.across[r * (g.w - 1) + c - 1];
                const double q = odds[r] - scratch.left[r] + sign * error;
                const double act = Logs::plus(q, -a) - Logs::plus(q - a, 0.0) + sign * error;
                field[r * g.w + c] = std::clamp(act, -a, a);
            }
        });
    }
}

// Arrays with a lower ([0]) and an upper ([1]) bound.
using Bounds = double* const[2];
using ConstBounds = const double* const[2];

// A chain of conditionals: each pixel given the reference at all pixels before it, column by column.
struct ChainTask {
    const Model& model;
    int64_t window;
    const uint8_t* reference;  // (h, w)
    int threads;
};

// For each pixel, bounds on its log-odds in the chain. fields: those of bound_fields.
inline void bound_chain(const ChainTask& task, ConstBounds& fields, Bounds& odds) {
    const Model& model = task.model;
    const int64_t window = task.window;
    const uint8_t* const reference = task.reference;
    const Grid& g = model.grid;
    run_team<WindowScratch>(2 * g.w, task.threads, [&](WindowScratch& scratch, int64_t i) {
        const int64_t c = i / 2, bound = i % 2;
        const bool exact = c + window >= g.w;
        if (exact && bound) return;  // the other task does both
        Span span{c, std::min(window, g.w - c)};
        if (c > 0) span.left = clamped_field(reference, c, g, scratch.left);
        if (!exact) span.right = column_of(fields[bound], c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            double* out = odds[bound] + c;
            win.chain(reference + c, out, g.w);
            for (int64_t r = 0; r < g.h; ++r) {
                if (exact) odds[1][c + r * g.w] = out[r * g.w] + error;
                out[r * g.w] += bound ? error : -error;
            }
        });
    });
}

// Gradients with the shapes of t, across and down.
struct GridGradient {
    double *t, *across, *down;
};

// The gradient of -sum_d log p(reference_d | reference before d), where each probability is an upper or a
// lower bound from its window with column c + window all 0 or all 1: by monotonicity the upper one has the
// pixel's own value there (sign = 1), the lower one the other value (sign = -1).
//
// Over a run of equal values in a column the probabilities multiply to a ratio of two sums over the window,
// with the column clamped down to the end and to the beginning of the run; the derivatives of their
// logarithms are moments.
inline void chain_gradient(const ChainTask& task, double sign, const GridGradient& gradient) {
    const Model& model = task.model;
    const int64_t window = task.window;
    const uint8_t* const reference = task.reference;
    const Grid& g = model.grid;
    struct Part {
        std::vector<Moments> moments;
        std::vector<double> beyond;  // gradient in the weights of the edges across the right border
    };
    std::vector<Part> parts(g.w);
    run_team<WindowScratch>(g.w, task.threads, [&](WindowScratch& scratch, int64_t c) {
        Part& part = parts[c];
        Span span{c, std::min(window, g.w - c)};
        const int64_t last = c + span.columns - 1;
        part.moments.assign(g.h * span.columns, Moments{0, 0, 0});
        part.beyond.assign(g.h, 0.0);
        if (c > 0) span.left = clamped_field(reference, c, g, scratch.left);
        const auto add = [&](double factor, double side, int64_t clamped) {
            if (last + 1 < g.w) {
                scratch.right.resize(g.h);
                for (int64_t r = 0; r < g.h; ++r) scratch.right[r] = side * g.across[r * (g.w - 1) + last];
                span.right = scratch.right.data();
                for (int64_t r = 0; r < g.h; ++r)
                    part.beyond[r] -= side * part.moments[(r + 1) * span.columns - 1].one;
            }
            with_window(model, span, scratch, [&](auto& win, double) {
                win.clamp(reference + c, g.w, clamped);
                win.add_moments(factor, part.moments.data());
            });
            if (last + 1 < g.w)
                for (int64_t r = 0; r < g.h; ++r)
                    part.beyond[r] += side * part.moments[(r + 1) * span.columns - 1].one;
        };
        for (int64_t begin = 0, end; begin < g.h; begin = end) {
            end = begin + 1;
            const uint8_t value = reference[begin * g.w + c];
            // without a border the ratios cancel over the whole column
            while (end < g.h && (last + 1 == g.w || reference[end * g.w + c] == value)) ++end;
            const double side = value ? sign : -sign;
            add(1.0, side, begin);
            add(-1.0, side, end);
        }
    });
    for (int64_t c = 0; c < g.w; ++c) {  // in a fixed order, whichever thread did a part
        const int64_t columns = std::min(window, g.w - c), last = c + columns - 1;
        for (int64_t r = 0; r < g.h; ++r) {
            const Moments* row = parts[c].moments.data() + r * columns;
            for (int64_t k = 0; k < columns; ++k) {
                gradient.t[r * g.w + c + k] += row[k].one;
                if (k > 0) gradient.across[r * (g.w - 1) + c + k - 1] -= row[k].differ;
                if (r > 0) gradient.down[(r - 1) * g.w + c + k] -= row[k].flip;
            }
            if (c > 0)
                gradient.across[r * (g.w - 1) + c - 1] += (reference[r * g.w + c - 1] ? 1 : -1) * row[0].one;
            if (last + 1 < g.w) gradient.across[r * (g.w - 1) + last] += parts[c].beyond[r];
        }
    }
}

// Windows that begin at the given columns. left[b][r, c] is the field on column c of the columns before it,
// right[b][r, c] the field on column c - 1 of the columns from c on.
struct WindowsTask {
    const Model& model;
    int64_t window;
    const std::vector<int64_t>& starts;
    ConstBounds &left, &right;
    int threads;
};

// Bounds on the log-odds of all pixels: (windows, h, window).
inline void bound_windows(const WindowsTask& task, Bounds& odds) {
    const Model& model = task.model;
    const int64_t window = task.window, windows = static_cast<int64_t>(task.starts.size());
    const Grid& g = model.grid;
    run_team<WindowScratch>(2 * windows, task.threads, [&](WindowScratch& scratch, int64_t unit) {
        const int64_t i = unit / 2, bound = unit % 2, c = task.starts[i];
        Span span{c, window};
        if (c > 0) span.left = column_of(task.left[bound], c, g, scratch.left);
        if (c + window < g.w) span.right = column_of(task.right[bound], c + window, g, scratch.right);
        with_window(model, span, scratch, [&](auto& win, double error) {
            double* out = odds[bound] + i * g.h * window;
            win.columns(static_cast<int>(window), out, window);
            for (int64_t k = 0; k < g.h * window; ++k) out[k] += bound ? error : -error;
        });
    });
}

// log Z of the whole grid, and the log-odds (h, w) of its pixels unless they are null.
inline double transfer(const Model& model, double* odds) {
    double log_z = 0;
    WindowScratch scratch;
    const int64_t w = model.grid.w;
    with_window(model, Span{0, w}, scratch,
                [&](auto& win, double) { log_z = win.columns(odds ? static_cast<int>(w) : 0, odds, w); });
    return log_z;
}

}  // namespace LOGSUPER_ISA
