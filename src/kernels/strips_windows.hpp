// Windows of a grid: some columns, all rows, and fields that replace the columns left and right of them.
//
// In a log-supermodular model the probability of a 1 is non-decreasing in every field (Holley's inequality).
// The columns outside a window act on its border pixels like fields between a lower and an upper bound;
// inserting the two bounds brackets every log-odds inside the window.
#pragma once

#include <algorithm>
#include <type_traits>

#include "strips.hpp"

namespace LOGSUPER_ISA {

// f(x) = sum of weights over neighbours that differ - t'x on an image of h rows and w columns.
struct Grid {
    int64_t h = 0, w = 0;
    const double *t = nullptr, *across = nullptr, *down = nullptr;  // (h, w), (h, w - 1), (h - 1, w)
};

template <class D>
struct GridWeights {
    std::vector<double> unary, across, down;

    explicit GridWeights(const Grid& grid)
        : unary(grid.h * grid.w), across(grid.h * (grid.w - 1)), down((grid.h - 1) * grid.w) {
        for (size_t i = 0; i < unary.size(); ++i) unary[i] = D::weight(grid.t[i]);
        for (size_t i = 0; i < across.size(); ++i) across[i] = D::weight(-grid.across[i]);
        for (size_t i = 0; i < down.size(); ++i) down[i] = D::weight(-grid.down[i]);
    }
};

struct Model {
    Grid grid;
    GridWeights<Plain> plain;
    GridWeights<Logs> logs;

    explicit Model(const Grid& g) : grid(g), plain(g), logs(g) {}

    template <class D>
    const GridWeights<D>& weights() const {
        if constexpr (std::is_same_v<D, Plain>)
            return plain;
        else
            return logs;
    }
};

// Columns start .. start + columns - 1, with fields on the first and the last of them (null: none).
struct Span {
    int64_t start = 0, columns = 0;
    const double *left = nullptr, *right = nullptr;  // (h,)

    // Bound on the difference of the logarithms of weights within a row.
    double spread(const Grid& g) const {
        double most = 0;
        for (int64_t r = 0; r < g.h; ++r) {
            double sum = (left ? std::abs(left[r]) : 0) + (right ? std::abs(right[r]) : 0);
            for (int64_t c = start; c < start + columns; ++c) {
                sum += std::abs(g.t[r * g.w + c]);
                if (c > start) sum += g.across[r * (g.w - 1) + c - 1];
                if (r > 0) sum += g.down[(r - 1) * g.w + c];
            }
            most = std::max(most, sum);
        }
        return most;
    }
};

// Bound on the rounding error of a log-odds. A site multiplies each plain weight by a few numbers with errors
// of a few ulps, 12 half ulps in total; to logarithms it adds eight numbers of at most twice the spread. The
// final sums of up to 2^n terms and two logarithms come on top.
inline double rounding(const Grid& g, int n, double spread) {
    constexpr double kHalfUlp = 1.1102230246251565e-16;
    const double per_site = spread <= kSafeSpread ? 12 : 12 + 16 * spread;
    return kHalfUlp * (static_cast<double>(g.h) * n * per_site + std::ldexp(1.0, n) + 4 * spread + 8);
}

// Rows between two profiles that are kept; all are kept while they fit into a quarter of a gigabyte.
inline int64_t rows_apart(int64_t h, int n) {
    if (h <= (int64_t{1} << 25) >> n) return h;
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(h))));
}

struct WindowScratch {
    std::vector<Site> sites, clamped;
    std::vector<double> store, alpha, spare, left, right;
};

// The transfer over the rows of one window. It has at least four columns, so that vectors are whole even if
// one column is clamped; columns beyond the span have no field and no edges.
template <class D>
class Window {
    WindowScratch& scratch_;
    int64_t h_, size_;
    int n_, used_;

    const Site* row(int64_t r) const { return scratch_.sites.data() + r * n_; }
    double* stored(int64_t i) const { return scratch_.store.data() + i * size_; }

    // beta[r] -> beta[r - 1].
    void up(int64_t r, const double* in, double* out) {
        poll_at_row(r, D::kSteps * n_ * size_);
        backward_sites<D>({row(r), n_, 0, n_}, shrink_of<D>(in, size_), in, out, scratch_.spare.data());
    }

    // Stores the beta of the last row of each part in stored(part).
    void mark(int64_t apart, int64_t parts) {
        scratch_.store.resize((parts + apart) * size_);
        std::fill_n(stored(parts - 1), size_, D::kOne);
        for (int64_t part = parts - 1; part > 0; --part) {
            const double* in = stored(part);
            const int64_t first = part * apart;
            for (int64_t r = std::min(first + apart, h_) - 1; r >= first; --r) {
                double* to = r == first ? stored(part - 1) : scratch_.alpha.data() + (r & 1) * size_;
                up(r, in, to);
                in = to;
            }
        }
    }

   public:
    static int padded(int64_t columns) { return static_cast<int>(std::max<int64_t>(4, columns)); }

    Window(const Model& model, const Span& span, WindowScratch& scratch)
        : scratch_(scratch),
          h_(model.grid.h),
          n_(padded(span.columns)),
          used_(static_cast<int>(span.columns)) {
        size_ = int64_t{1} << n_;
        const Grid& g = model.grid;
        const GridWeights<D>& weights = model.weights<D>();
        scratch.sites.assign(h_ * n_, Site{{D::kOne, D::kOne}, {D::kOne, D::kOne}, D::kOne});
        for (int64_t r = 0; r < h_; ++r)
            for (int64_t k = 0; k < span.columns; ++k) {
                const int64_t c = span.start + k;
                Site& site = scratch.sites[r * n_ + k];
                double one = weights.unary[r * g.w + c];
                if (k == 0 && span.left) one = D::times(one, D::weight(span.left[r]));
                if (k == span.columns - 1 && span.right) one = D::times(one, D::weight(span.right[r]));
                const double differ = k > 0 ? weights.across[r * (g.w - 1) + c - 1] : D::kOne;
                site.zero[1] = differ;
                site.one[0] = D::times(one, differ);
                site.one[1] = one;
                if (k == 0) site.one[0] = one;
                if (r > 0) site.flip = weights.down[(r - 1) * g.w + c];
            }
        scratch.alpha.resize(2 * size_);
        scratch.spare.resize(2 * size_);
    }

    // Log-odds of the first `wanted` columns, out[r * stride + k], and log Z of the window.
    //
    // beta[r] is the weight of all rows below r for every profile of row r, alpha[r] that of the rows up to
    // r. If there are too many rows to keep, only every `apart`-th beta is kept and the others are computed
    // again.
    double columns(int wanted, double* out, int64_t stride) {
        const int64_t apart = wanted ? rows_apart(h_, n_) : h_, parts = (h_ + apart - 1) / apart;
        if (wanted) mark(apart, parts);
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        double shrink = D::kOne, units = 0;
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t first = part * apart, last = std::min(first + apart, h_) - 1;
            if (wanted) {
                std::copy_n(stored(part), size_, stored(parts + last - first));
                for (int64_t i = parts + last - first; i > parts; --i)
                    up(i - parts + first, stored(i), stored(i - 1));
            }
            if (part == 0) std::fill_n(alpha, size_, D::kOne);
            for (int64_t r = first; r <= last; ++r) {
                poll_at_row(r, D::kSteps * n_ * size_);
                forward_sites<D>({row(r), n_, 0, n_}, shrink, alpha, next, spare);
                std::swap(alpha, next);
                units += D::units(shrink);
                shrink = shrink_of<D>(alpha, size_);
                if (!wanted) continue;
                const double* beta = stored(parts + r - first);
                log_odds_of_columns<D>(alpha, beta, n_, wanted, out + r * stride, spare);
            }
        }
        // the first row doubles the weight once per column, an unused column once per row
        const double doubled = n_ + static_cast<double>(n_ - used_) * static_cast<double>(h_);
        return log_sum<D>(alpha, size_) - D::kUnit * units - Plain::kUnit * doubled;
    }

    // Log-odds of the pixels of the first column, each given the reference values of those above it:
    // out[r * stride]. reference[r * stride] is 0 or 1.
    void chain(const uint8_t* reference, double* out, int64_t stride) {
        const int m = n_ - 1;  // columns that stay free
        const int64_t size = size_ / 2;
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        scratch_.store.resize(h_ * size_);
        // gamma[r]: the weight of the rest of row r and of all rows below, for the new value of the
        // first column (lowest bit) and the old ones of the others.
        std::fill_n(alpha, size_, D::kOne);
        for (int64_t r = h_ - 1; r >= 0; --r) {
            poll_at_row(r, D::kSteps * n_ * size_);
            backward_sites<D>({row(r), n_, 1, n_}, shrink_of<D>(alpha, size_), alpha, stored(r), spare);
            if (r > 0) backward_sites<D>({row(r), n_, 0, 1}, D::kOne, stored(r), alpha, spare);
        }
        std::fill_n(alpha, size, D::kOne);
        double shrink = D::kOne;
        scratch_.clamped.resize(m);
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, D::kSteps * n_ * size_);
            const Site& first = row(r)[0];
            const double pull = D::log(first.flip);  // of the pixel above, if there is one
            const double above = r > 0 && reference[(r - 1) * stride] ? -pull : pull;
            out[r * stride] = log_odds_below<D>(alpha, stored(r), size) + D::log(first.one[0]) + above;
            if (r == h_ - 1) break;
            std::copy_n(row(r) + 1, m, scratch_.clamped.begin());
            Site& beside = scratch_.clamped[0];
            const int value = reference[r * stride] != 0;
            beside.zero[0] = beside.zero[1] = row(r)[1].zero[value];
            beside.one[0] = beside.one[1] = row(r)[1].one[value];
            forward_sites<D>({scratch_.clamped.data(), m, 0, m}, shrink, alpha, next, spare);
            std::swap(alpha, next);
            shrink = shrink_of<D>(alpha, size);
        }
    }

    // Clamps the first `rows` pixels of the first column at the reference.
    void clamp(const uint8_t* reference, int64_t stride, int64_t rows) {
        for (int64_t r = 0; r < rows; ++r) {
            Site& site = scratch_.sites[r * n_];
            double* never = reference[r * stride] ? site.zero : site.one;
            never[0] = never[1] = D::kNever;
        }
    }

    // Adds the moments of all pixels of the span, times a factor, to out[r * columns + k].
    void add_moments(double factor, Moments* out) {
        scratch_.store.resize((h_ + n_) * size_);
        std::fill_n(stored(h_ - 1), size_, D::kOne);
        for (int64_t r = h_ - 1; r > 0; --r) up(r, stored(r), stored(r - 1));
        double *alpha = scratch_.alpha.data(), *next = alpha + size_;
        std::fill_n(alpha, size_, D::kOne);
        double shrink = D::kOne;
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, 2 * D::kSteps * n_ * size_);
            const Site* sites = row(r);
            const double* after = stored(r);
            for (int k = n_ - 1; k > 0; --k) {
                backward_site<D>(sites[k], k == n_ - 1 ? shrink_of<D>(after, size_) : D::kOne, size_ / 2,
                                 after, stored(h_ + k));
                after = stored(h_ + k);
            }
            for (int k = 0; k < n_; ++k) {
                if (k < used_) {
                    const double* behind = k == n_ - 1 ? stored(r) : stored(h_ + k + 1);
                    const Moments found = site_moments<D>(sites[k], size_ / 2, alpha, behind);
                    Moments& sum = out[r * used_ + k];
                    sum.one += factor * found.one;
                    if (k > 0) sum.differ += factor * found.differ;
                    if (r > 0) sum.flip += factor * found.flip;
                }
                forward_site<D>(sites[k], shrink, size_ / 2, alpha, next);
                std::swap(alpha, next);
                shrink = D::kOne;
            }
            shrink = shrink_of<D>(alpha, size_);
        }
    }
};

// Calls use(window, rounding error) with the fastest representation that is safe for the span.
template <class Use>
void with_window(const Model& model, const Span& span, WindowScratch& scratch, Use&& use) {
    const double spread = span.spread(model.grid);
    const double error = rounding(model.grid, Window<Logs>::padded(span.columns), spread);
    if (spread <= kSafeSpread) {
        Window<Plain> window(model, span, scratch);
        use(window, error);
    } else {
        Window<Logs> window(model, span, scratch);
        use(window, error);
    }
}

}  // namespace LOGSUPER_ISA
