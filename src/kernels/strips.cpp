// Python bindings of the transfer matrices over windows of a grid.
#include "bindings.hpp"
#include "strips_bounds.hpp"

namespace LOGSUPER_ISA {
namespace {

using Numbers = Array<const double>;
constexpr int64_t kWidest = 24;  // columns of a window, hence 2^24 states

// Images of one shape: t (M, h, w); across and down have M entries, or one for all.
struct Grids {
    int64_t count, h, w;
    const double *t, *across, *down;
    bool own_across, own_down;

    Grids(const Numbers& fields, const Numbers& horizontal, const Numbers& vertical) {
        require(fields.ndim() == 3 && horizontal.ndim() == 3 && vertical.ndim() == 3,
                "grids have three axes");
        count = length(fields, 0), h = length(fields, 1), w = length(fields, 2);
        require(h >= 1 && w >= 1, "a grid needs at least one pixel");
        const auto has = [&](const Numbers& part, int64_t rows, int64_t columns) {
            const int64_t first = length(part, 0);
            return (first == 1 || first == count) && length(part, 1) == rows && length(part, 2) == columns;
        };
        require(has(horizontal, h, w - 1), "across has the wrong shape");
        require(has(vertical, h - 1, w), "down has the wrong shape");
        require(finite_and_nonnegative(horizontal.data(), horizontal.size()),
                "across must be finite and >= 0");
        require(finite_and_nonnegative(vertical.data(), vertical.size()), "down must be finite and >= 0");
        require(finite(fields.data(), fields.size()), "t must be finite");
        t = fields.data(), across = horizontal.data(), down = vertical.data();
        own_across = length(horizontal, 0) > 1, own_down = length(vertical, 0) > 1;
    }

    int64_t pixels() const { return h * w; }
    Grid operator[](int64_t m) const {
        return {h, w, t + m * pixels(), across + own_across * m * h * (w - 1),
                down + own_down * m * (h - 1) * w};
    }

    // The data of an array with an entry for each pixel.
    template <class A>
    auto check(const A& array) const {
        require(has_shape(array, {count, h, w}), "an array does not have the shape of the grids");
        return array.data();
    }
    const double* check_finite(const Numbers& array) const {
        const double* data = check(array);
        require(finite(data, array.size()), "fields must be finite");
        return data;
    }
    const uint8_t* check_labels(const Array<const uint8_t>& labels) const {
        const uint8_t* data = check(labels);
        for (size_t i = 0; i < labels.size(); ++i) require(data[i] <= 1, "reference must be 0 or 1");
        return data;
    }
};

void check_window(int64_t window) { require(window >= 1 && window <= kWidest, "window is out of range"); }

// A limit on the bytes of profiles: every thread keeps `kept` of them, and four more.
struct Limit {
    int64_t memory, columns, kept;

    void check(int64_t threads) const {
        const double bytes = 8.0 * static_cast<double>(threads) * static_cast<double>(kept + 4);
        if (std::ldexp(bytes, static_cast<int>(columns)) > static_cast<double>(memory))
            throw WorkspaceLimitExceeded();
    }
};

// Calls job(model, image, threads) for each image, without the GIL.
template <class Job>
void compute(const Grids& grids, int threads, const Limit& limit, const Job& job) {
    require_threads(threads);
    const Computing computing;
    limit.check(team_size(threads));
    for_each_image(grids.count, threads, [&](int64_t m, int inner) { job(Model(grids[m]), m, inner); });
}

void strip_fields(Numbers t, Numbers across, Numbers down, int64_t window, int threads, Array<double> low,
                  Array<double> high, int64_t memory) {
    const Grids grids(t, across, down);
    check_window(window);
    double* const fields[2] = {grids.check(low), grids.check(high)};
    const std::vector<char> all(grids.w, 1);
    compute(grids, threads, {memory, window, kept_rows(grids.h, window)},
            [&](const Model& model, int64_t m, int inner) {
                run_team<WindowScratch>(2, inner, [&](WindowScratch& scratch, int64_t bound) {
                    bound_fields(model, window, static_cast<int>(bound), all, scratch,
                                 fields[bound] + m * grids.pixels());
                });
            });
}

void strip_chain(Numbers t, Numbers across, Numbers down, int64_t window, Array<const uint8_t> reference,
                 Numbers low, Numbers high, int threads, Array<double> odds_low, Array<double> odds_high,
                 int64_t memory) {
    const Grids grids(t, across, down);
    check_window(window);
    const uint8_t* labels = grids.check_labels(reference);
    const double* const fields[2] = {grids.check_finite(low), grids.check_finite(high)};
    double* const odds[2] = {grids.check(odds_low), grids.check(odds_high)};
    compute(grids, threads, {memory, window, grids.h}, [&](const Model& model, int64_t m, int inner) {
        const int64_t at = m * grids.pixels();
        bound_chain({model, window, labels + at, inner}, {fields[0] + at, fields[1] + at},
                    {odds[0] + at, odds[1] + at});
    });
}

void strip_marginals(Numbers t, Numbers across, Numbers down, int64_t window, int64_t reach, int64_t step,
                     int threads, Array<double> odds_low, Array<double> odds_high, int64_t memory) {
    const Grids grids(t, across, down);
    check_window(window);
    check_window(reach);
    require(step >= 1 && step <= window, "step is out of range");
    const int64_t columns = std::min(std::max(window, reach), grids.w);
    double* const odds[2] = {grids.check(odds_low), grids.check(odds_high)};
    compute(grids, threads, {memory, columns, kept_rows(grids.h, columns)},
            [&](const Model& model, int64_t m, int inner) {
                const int64_t at = m * grids.pixels();
                bound_marginals(model, {window, reach, step, inner}, {odds[0] + at, odds[1] + at});
            });
}

void strip_gradient(Numbers t, Numbers across, Numbers down, int64_t window, Array<const uint8_t> reference,
                    int threads, Array<double> grad_t, Array<double> grad_across, Array<double> grad_down,
                    bool upper, int64_t memory) {
    const Grids grids(t, across, down);
    check_window(window);
    const uint8_t* labels = grids.check_labels(reference);
    const int64_t h = grids.h, w = grids.w;
    grids.check(grad_t);
    require(has_shape(grad_across, {grids.count, h, w - 1}) && has_shape(grad_down, {grids.count, h - 1, w}),
            "a gradient has the wrong shape");
    compute(grids, threads, {memory, window, grids.h + window},
            [&](const Model& model, int64_t m, int inner) {
                chain_gradient({model, window, labels + m * h * w, inner}, upper ? -1.0 : 1.0,
                               {grad_t.data() + m * h * w, grad_across.data() + m * h * (w - 1),
                                grad_down.data() + m * (h - 1) * w});
            });
}

double strip_transfer(Numbers t, Numbers across, Numbers down, nb::object odds) {
    const Grids grids(t, across, down);
    require(grids.count == 1, "transfer takes one grid");
    check_window(grids.w);
    double* out = nullptr;
    if (!odds.is_none()) out = grids.check(exactly<double>(odds));
    const Computing computing;
    return transfer(Model(grids[0]), out);
}

}  // namespace

void bind_strips(nb::module_& m) {
    m.def("strip_fields", &strip_fields, nb::arg("t"), nb::arg("across"), nb::arg("down"), nb::arg("window"),
          nb::arg("threads"), nb::arg("low").noconvert(), nb::arg("high").noconvert(),
          nb::arg("memory") = CallMonitor::kUnlimited);
    m.def("strip_chain", &strip_chain, nb::arg("t"), nb::arg("across"), nb::arg("down"), nb::arg("window"),
          nb::arg("reference"), nb::arg("low"), nb::arg("high"), nb::arg("threads"),
          nb::arg("odds_low").noconvert(), nb::arg("odds_high").noconvert(),
          nb::arg("memory") = CallMonitor::kUnlimited);
    m.def("strip_marginals", &strip_marginals, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("window"), nb::arg("reach"), nb::arg("step"), nb::arg("threads"),
          nb::arg("odds_low").noconvert(), nb::arg("odds_high").noconvert(),
          nb::arg("memory") = CallMonitor::kUnlimited);
    m.def("strip_gradient", &strip_gradient, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("window"), nb::arg("reference"), nb::arg("threads"), nb::arg("grad_t").noconvert(),
          nb::arg("grad_across").noconvert(), nb::arg("grad_down").noconvert(), nb::arg("upper") = false,
          nb::arg("memory") = CallMonitor::kUnlimited);
    m.def("strip_transfer", &strip_transfer, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("odds").none());
}

}  // namespace LOGSUPER_ISA
