// Python bindings of the filters.
#include "filters.hpp"

#include "bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

// `padded` and `inner` are (images, depth, height, width); the last three axes of `window` have odd sizes.
template <class Inner, class Window>
Margins check_margins(const Array<const double>& padded, const Inner& inner, const Window& window) {
    require(padded.ndim() == 4 && inner.ndim() == 4, "images must have four axes");
    require(window.ndim() == 3 || window.ndim() == 4, "the window must have three axes, or four");
    require(length(padded, 0) == length(inner, 0), "the numbers of images differ");
    Margins m{length(inner, 0), {}, {}};
    for (int axis = 0; axis < 3; ++axis) {
        const int64_t taps = length(window, window.ndim() - 3 + axis);
        m.size[axis] = length(inner, axis + 1);
        m.radius[axis] = taps / 2;
        require(taps % 2 == 1, "the window must have odd sizes");
        require(length(padded, axis + 1) == m.padded(axis), "the margins do not fit the window");
    }
    return m;
}

void filter_field(Array<const double> padded, Array<const double> weights, Array<double> field) {
    require(weights.ndim() == 3, "weights must have three axes");
    const Margins m = check_margins(padded, field, weights);
    const Computing computing;
    filter_images(m, padded.data(), weights.data(), field.data());
}

void filter_sums(Array<const double> padded, Array<const double> x, Array<double> sums) {
    const Margins m = check_margins(padded, x, sums);
    require(sums.ndim() == 4 && length(sums, 0) == length(x, 0), "sums has the wrong shape");
    const Computing computing;
    correlate_images(m, padded.data(), x.data(), sums.data());
}

}  // namespace

void bind_filters(nb::module_& m) {
    m.def("filter_field", &filter_field, nb::arg("padded").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("field").noconvert());
    m.def("filter_sums", &filter_sums, nb::arg("padded").noconvert(), nb::arg("x").noconvert(),
          nb::arg("sums").noconvert());
}

}  // namespace LOGSUPER_ISA
