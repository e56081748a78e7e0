// Python bindings of the transfer matrices over windows of a grid.
#include "bindings.hpp"
#include "strips_bounds.hpp"

namespace LOGSUPER_ISA {
namespace {

using Numbers = Array<const double>;
constexpr int64_t kWidest = 24;  // columns of a window, hence 2^24 states

Grid as_grid(const Numbers& t, const Numbers& across, const Numbers& down) {
    require(t.ndim() == 2 && across.ndim() == 2 && down.ndim() == 2, "a grid has two axes");
    const int64_t h = length(t, 0), w = length(t, 1);
    require(h >= 1 && w >= 1, "a grid needs at least one pixel");
    require(length(across, 0) == h && length(across, 1) == w - 1, "across has the wrong shape");
    require(length(down, 0) == h - 1 && length(down, 1) == w, "down has the wrong shape");
    require(finite_and_nonnegative(across.data(), across.size()), "across must be finite and >= 0");
    require(finite_and_nonnegative(down.data(), down.size()), "down must be finite and >= 0");
    for (size_t i = 0; i < t.size(); ++i) require(std::isfinite(t.data()[i]), "t must be finite");
    return Grid{h, w, t.data(), across.data(), down.data()};
}

int64_t check_window(int64_t window) {
    require(window >= 1 && window <= kWidest, "window is out of range");
    return window;
}

template <class A>
auto check_like(const A& array, const Grid& grid) {
    require(has_shape(array, {grid.h, grid.w}), "an array does not have the shape of the grid");
    return array.data();
}

const double* check_fields(const Numbers& fields, const Grid& grid) {
    const double* data = check_like(fields, grid);
    for (size_t i = 0; i < fields.size(); ++i) require(std::isfinite(data[i]), "fields must be finite");
    return data;
}

const uint8_t* check_reference(const Array<const uint8_t>& reference, const Grid& grid) {
    const uint8_t* labels = check_like(reference, grid);
    for (size_t i = 0; i < reference.size(); ++i) require(labels[i] <= 1, "reference must be 0 or 1");
    return labels;
}

void strip_fields(Numbers t, Numbers across, Numbers down, int64_t window, int threads, Array<double> low,
                  Array<double> high) {
    const Grid grid = as_grid(t, across, down);
    check_window(window);
    require_threads(threads);
    double* const fields[2] = {check_like(low, grid), check_like(high, grid)};
    const Computing computing;
    const Model model(grid);
    run_team<WindowScratch>(2, threads, [&](WindowScratch& scratch, int64_t bound) {
        bound_fields(model, window, static_cast<int>(bound), scratch, fields[bound]);
    });
}

void strip_chain(Numbers t, Numbers across, Numbers down, int64_t window, Array<const uint8_t> reference,
                 Numbers low, Numbers high, int threads, Array<double> odds_low, Array<double> odds_high) {
    const Grid grid = as_grid(t, across, down);
    check_window(window);
    require_threads(threads);
    const uint8_t* labels = check_reference(reference, grid);
    const double* const fields[2] = {check_fields(low, grid), check_fields(high, grid)};
    double* const odds[2] = {check_like(odds_low, grid), check_like(odds_high, grid)};
    const Computing computing;
    const Model model(grid);
    bound_chain({model, window, labels, threads}, fields, odds);
}

void strip_windows(Numbers t, Numbers across, Numbers down, int64_t window, Array<const int64_t> starts,
                   Numbers left_low, Numbers left_high, Numbers right_low, Numbers right_high, int threads,
                   Array<double> odds_low, Array<double> odds_high) {
    const Grid grid = as_grid(t, across, down);
    require(check_window(window) <= grid.w, "window is wider than the grid");
    require_threads(threads);
    require(starts.ndim() == 1, "starts must have one axis");
    const int64_t count = length(starts, 0);
    // a copy, which cannot change after the check
    const std::vector<int64_t> columns(starts.data(), starts.data() + count);
    for (int64_t c : columns) require(c >= 0 && c <= grid.w - window, "starts is out of range");
    const double* const left[2] = {check_fields(left_low, grid), check_fields(left_high, grid)};
    const double* const right[2] = {check_fields(right_low, grid), check_fields(right_high, grid)};
    for (const auto* odds : {&odds_low, &odds_high})
        require(has_shape(*odds, {count, grid.h, window}), "odds has the wrong shape");
    double* const odds[2] = {odds_low.data(), odds_high.data()};
    const Computing computing;
    const Model model(grid);
    bound_windows({model, window, columns, left, right, threads}, odds);
}

void strip_gradient(Numbers t, Numbers across, Numbers down, int64_t window, Array<const uint8_t> reference,
                    int threads, Array<double> grad_t, Array<double> grad_across, Array<double> grad_down,
                    bool upper) {
    const Grid grid = as_grid(t, across, down);
    check_window(window);
    require_threads(threads);
    const uint8_t* labels = check_reference(reference, grid);
    const auto same = [](const Array<double>& a, const Numbers& b) {
        require(has_shape(a, {length(b, 0), length(b, 1)}), "a gradient has the wrong shape");
    };
    same(grad_t, t);
    same(grad_across, across);
    same(grad_down, down);
    const Computing computing;
    const Model model(grid);
    chain_gradient({model, window, labels, threads}, upper ? -1.0 : 1.0,
                   {grad_t.data(), grad_across.data(), grad_down.data()});
}

double strip_transfer(Numbers t, Numbers across, Numbers down, nb::object odds) {
    const Grid grid = as_grid(t, across, down);
    check_window(grid.w);
    double* out = nullptr;
    if (!odds.is_none()) out = check_like(exactly<double>(odds), grid);
    const Computing computing;
    return transfer(Model(grid), out);
}

}  // namespace

void bind_strips(nb::module_& m) {
    m.def("strip_fields", &strip_fields, nb::arg("t"), nb::arg("across"), nb::arg("down"), nb::arg("window"),
          nb::arg("threads"), nb::arg("low").noconvert(), nb::arg("high").noconvert());
    m.def("strip_chain", &strip_chain, nb::arg("t"), nb::arg("across"), nb::arg("down"), nb::arg("window"),
          nb::arg("reference"), nb::arg("low"), nb::arg("high"), nb::arg("threads"),
          nb::arg("odds_low").noconvert(), nb::arg("odds_high").noconvert());
    m.def("strip_windows", &strip_windows, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("window"), nb::arg("starts"), nb::arg("left_low"), nb::arg("left_high"),
          nb::arg("right_low"), nb::arg("right_high"), nb::arg("threads"), nb::arg("odds_low").noconvert(),
          nb::arg("odds_high").noconvert());
    m.def("strip_gradient", &strip_gradient, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("window"), nb::arg("reference"), nb::arg("threads"), nb::arg("grad_t").noconvert(),
          nb::arg("grad_across").noconvert(), nb::arg("grad_down").noconvert(), nb::arg("upper") = false);
    m.def("strip_transfer", &strip_transfer, nb::arg("t"), nb::arg("across"), nb::arg("down"),
          nb::arg("odds").none());
}

}  // namespace LOGSUPER_ISA
