// Windows of a grid: some columns, all rows, and fields that replace the columns left and right of them.
//
// In a log-supermodular model the probability of a 1 is non-decreasing in every field (Holley's inequality).
// The columns outside a window act on its border pixels like fields between a lower and an upper bound;
// inserting the two bounds brackets every log-odds inside the window.
#pragma once

#include <algorithm>
#include <new>
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

// Bound on the rounding error of a log-odds, in half ulps.
//
// Errors in the weights (three exponentials of at most two half ulps per pixel, one product) change the
// model, and a log-odds by no more than a logarithm of a weight: 7. The table of a row (1 per pixel) and the
// sums over the pixel above (2) have errors of their own for every state, which count for the numerator and
// for the denominator: 6. In each row come the fields on the border (6) and two factors for every state (4);
// a row has at least four columns, with columns beyond the span: 2.5 per pixel. Together these are less
// than 16. Logarithms are rounded eight times per pixel, and are at most twice the spread. The final sums of
// up to 2^n terms and the logarithm come on top.
inline double rounding(const Grid& g, int n, double spread) {
    constexpr double kHalfUlp = 1.1102230246251565e-16;
    const double per_site = spread <= kSafeSpread ? 16 : 16 + 16 * spread;
    return kHalfUlp * (static_cast<double>(g.h) * n * per_site + std::ldexp(1.0, n) + 4 * spread + 8);
}

// Rows between two profiles that are kept; all are kept while they fit into a quarter of a gigabyte.
inline int64_t rows_apart(int64_t h, int n) {
    if (h <= (int64_t{1} << 25) >> n) return h;
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(h))));
}

// Profiles that a window keeps for all of its log-odds.
inline int64_t kept_rows(int64_t h, int64_t columns) {
    const int64_t apart = rows_apart(h, static_cast<int>(columns));
    return (h + apart - 1) / apart + apart;
}

// Memory for profiles, aligned to the lines of the cache.
template <class T>
struct AlignedAllocator {
    using value_type = T;
    static constexpr std::align_val_t kAlignment{64};

    AlignedAllocator() = default;
    template <class U>
    AlignedAllocator(const AlignedAllocator<U>&) {}
    T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
    void deallocate(T* p, size_t) { ::operator delete(p, kAlignment); }
    bool operator==(const AlignedAllocator&) const { return true; }
    bool operator!=(const AlignedAllocator&) const { return false; }
};
using Profiles = std::vector<double, AlignedAllocator<double>>;

struct WindowScratch {
    std::vector<Site> sites;
    std::vector<double> flips, left, right, odds;
    Profiles heads, tails, store, alpha, spare;
};

// The transfer over the rows of one window. It has at least four columns, so that vectors are whole even if
// one column is clamped; columns beyond the span have no field and no edges.
template <class D>
class Window {
    WindowScratch& scratch_;
    int64_t h_, size_;
    int n_, used_, tail_bits_;

    Row row(int64_t r) const {
        const int64_t heads = size_ >> tail_bits_, tails = int64_t{2} << tail_bits_;
        return {scratch_.flips.data() + r * n_, scratch_.heads.data() + r * heads,
                scratch_.tails.data() + r * tails, n_, tail_bits_};
    }
    double* stored(int64_t i) const { return scratch_.store.data() + i * size_; }

    // The tables of a row, from its sites.
    void tabulate_row(int64_t r, const Site* sites) {
        const int heads = n_ - tail_bits_;
        const Row tables = row(r);
        tabulate<D>(sites, heads, 0, const_cast<double*>(tables.head));
        for (int left = 0; left <= (heads > 0); ++left)
            tabulate<D>(sites + heads, tail_bits_, left,
                        const_cast<double*>(tables.tail) + (int64_t{left} << tail_bits_));
    }

    // alpha[r - 1] -> alpha[r]; `shrink` scales the old one, and is then that for the new one.
    void down(int64_t r, double& shrink, const double* in, double* out) {
        poll_at_row(r, D::kSteps * n_ * size_);
        shrink = D::shrink(step_down<D>(row(r), shrink, in, out));
    }

    // beta[r] -> beta[r - 1].
    void up(int64_t r, double& shrink, const double* in, double* out) {
        poll_at_row(r, D::kSteps * n_ * size_);
        shrink = D::shrink(step_up<D>(row(r), shrink, in, out));
    }

    // Stores the beta of the last row of each part in stored(part).
    void mark(int64_t apart, int64_t parts) {
        scratch_.store.resize((parts + apart) * size_);
        std::fill_n(stored(parts - 1), size_, D::kOne);
        double shrink = D::kOne;
        for (int64_t part = parts - 1; part > 0; --part) {
            const double* in = stored(part);
            const int64_t first = part * apart;
            for (int64_t r = std::min(first + apart, h_) - 1; r >= first; --r) {
                double* to = r == first ? stored(part - 1) : scratch_.alpha.data() + (r & 1) * size_;
                up(r, shrink, in, to);
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
          used_(static_cast<int>(span.columns)),
          tail_bits_(tail_bits_of(n_)) {
        size_ = int64_t{1} << n_;
        const Grid& g = model.grid;
        const GridWeights<D>& weights = model.weights<D>();
        scratch.sites.assign(h_ * n_, Site{{D::kOne, D::kOne}, {D::kOne, D::kOne}});
        scratch.flips.assign(h_ * n_, D::kNever);
        scratch.heads.resize(h_ * (size_ >> tail_bits_));
        scratch.tails.resize(h_ * (int64_t{2} << tail_bits_));
        for (int64_t r = 0; r < h_; ++r) {
            Site* const sites = scratch.sites.data() + r * n_;
            for (int64_t k = 0; k < span.columns; ++k) {
                const int64_t c = span.start + k;
                double one = weights.unary[r * g.w + c];
                if (k == 0 && span.left) one = D::times(one, D::weight(span.left[r]));
                if (k == span.columns - 1 && span.right) one = D::times(one, D::weight(span.right[r]));
                const double differ = k > 0 ? weights.across[r * (g.w - 1) + c - 1] : D::kOne;
                sites[k] = Site{{D::kOne, differ}, {D::times(one, differ), one}};
                if (r > 0) scratch.flips[r * n_ + n_ - 1 - k] = weights.down[(r - 1) * g.w + c];
            }
            tabulate_row(r, sites);
        }
        scratch.alpha.resize(2 * size_);
        scratch.spare.resize(2 * size_);
    }

    // Log-odds of the first `wanted` columns, out[r * stride + k], and log Z of the window.
    //
    // beta[r] is the weight of all rows below r for every state of row r, alpha[r] that of the rows up to
    // r. If there are too many rows to keep, only every `apart`-th beta is kept and the others are computed
    // again.
    double columns(int wanted, double* out, int64_t stride) {
        const int64_t apart = wanted ? rows_apart(h_, n_) : h_, parts = (h_ + apart - 1) / apart;
        if (wanted) mark(apart, parts);
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        std::fill_n(alpha, size_, D::kOne);
        double shrink = D::kOne, units = 0;
        for (int64_t part = 0; part < parts; ++part) {
            const int64_t first = part * apart, last = std::min(first + apart, h_) - 1;
            if (wanted) {
                std::copy_n(stored(part), size_, stored(parts + last - first));
                double scale = shrink_of<D>(stored(part), size_);
                for (int64_t i = parts + last - first; i > parts; --i)
                    up(i - parts + first, scale, stored(i), stored(i - 1));
            }
            for (int64_t r = first; r <= last; ++r) {
                units += D::units(shrink);
                down(r, shrink, alpha, next);
                std::swap(alpha, next);
                if (!wanted) continue;
                const double* beta = stored(parts + r - first);
                log_odds_of_columns<D>(alpha, beta, n_, wanted, out + r * stride, spare);
            }
        }
        return log_sum<D>(alpha, n_, spare) - D::kUnit * units - Plain::kUnit * (n_ - used_);
    }

    // Log-odds of the pixels of the first column, each given the reference values of those above it:
    // out[r * stride]. reference[r * stride] is 0 or 1.
    void chain(const uint8_t* reference, double* out, int64_t stride) {
        const int64_t half = size_ / 2;
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        scratch_.store.resize(h_ * size_);
        std::fill_n(stored(h_ - 1), size_, D::kOne);
        double shrink = D::kOne;
        for (int64_t r = h_ - 1; r > 0; --r) up(r, shrink, stored(r), stored(r - 1));
        // the weights of the rows above for the states of the other columns, the first one being clamped
        std::fill_n(alpha, half, D::kOne);
        shrink = D::kOne;
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, D::kSteps * n_ * size_);
            const Row tables = row(r);
            cross<D>(tables.flips, n_ - 1, alpha, spare);
            shrink = D::shrink(weigh<D>(tables, half - 1, shrink, spare, next));
            log_odds_of_columns<D>(next, stored(r), n_, 1, out + r * stride, spare);
            if (r > 0) {
                const double pull = -D::log(tables.flips[n_ - 1]);  // of the pixel above
                out[r * stride] += reference[(r - 1) * stride] ? pull : -pull;
            }
            std::copy_n(next + (reference[r * stride] ? half : 0), half, alpha);
        }
    }

    // Clamps the first `rows` pixels of the first column at the reference.
    void clamp(const uint8_t* reference, int64_t stride, int64_t rows) {
        for (int64_t r = 0; r < rows; ++r) {
            Site* const sites = scratch_.sites.data() + r * n_;
            double* never = reference[r * stride] ? sites->zero : sites->one;
            never[0] = never[1] = D::kNever;
            tabulate_row(r, sites);
        }
    }

    // Adds the moments of all pixels of the span, times a factor, to out[r * columns + k].
    void add_moments(double factor, Moments* out) {
        scratch_.store.resize((h_ + n_) * size_);
        std::fill_n(stored(h_ - 1), size_, D::kOne);
        double shrink = D::kOne;
        for (int64_t r = h_ - 1; r > 0; --r) up(r, shrink, stored(r), stored(r - 1));
        double *alpha = scratch_.alpha.data(), *next = alpha + size_, *spare = scratch_.spare.data();
        std::fill_n(alpha, size_, D::kOne);
        std::vector<Moments> found(used_);
        for (int64_t r = 0; r < h_; ++r) {
            poll_at_row(r, 2 * D::kSteps * n_ * size_);
            const Row tables = row(r);
            // from below: row r, then one column of its upper edges after the other
            double* const below = stored(h_);
            weigh<D>(tables, -1, shrink_of<D>(stored(r), size_), stored(r), below + (n_ - 1) * size_);
            if (r > 0)
                for (int bit = n_ - 1; bit > 0; --bit)
                    cross_bit<D>(tables.flips[bit], bit, n_, below + bit * size_, below + (bit - 1) * size_);
            for (int bit = 0; bit < n_ && r > 0; ++bit) {
                const int k = n_ - 1 - bit;
                if (k >= used_) continue;
                found[k].flip = flip_share<D>(tables.flips[bit], bit, n_, alpha, below + bit * size_);
                cross_bit<D>(tables.flips[bit], bit, n_, alpha, next);
                std::swap(alpha, next);
            }
            row_moments<D>(alpha, below + (n_ - 1) * size_, n_, used_, found.data(), spare);
            for (int k = 0; k < used_; ++k) {
                Moments& sum = out[r * used_ + k];
                sum.one += factor * found[k].one;
                if (k > 0) sum.differ += factor * found[k].differ;
                if (r > 0) sum.flip += factor * found[k].flip;
            }
            // scaled at once: its products with `below` have a larger range than those in `columns`
            const double shrink = D::shrink(weigh<D>(tables, -1, D::kOne, alpha, alpha));
            for (int64_t i = 0; i < size_; ++i) alpha[i] = D::times(alpha[i], shrink);
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
