// Python bindings of max-flow on grids.
#include <nanobind/stl/pair.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "grid_structure.hpp"
#include "kernel.hpp"

namespace LOGSUPER_ISA {
namespace {

// planes: a list of (function, offset, weight), where the weight is one float or an array with one per node.
// pixels: None, or the nodes that the elements are, in increasing order.
Kernel* make_grid(int64_t depth, int64_t height, int64_t width, Array<const int64_t> steps, int functions,
                  nb::list planes, nb::object pixels) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    require(depth >= 1 && height >= 1 && width >= 1, "the shape must be positive");
    require(depth < kLimit && height < kLimit && width < kLimit && depth * height < kLimit &&
                depth * height * (width + 128) < kLimit,
            "the grid is too large: at most 2^30 nodes");
    require(functions >= 0, "functions must be >= 0");
    require(steps.ndim() == 2 && length(steps, 1) == 3, "steps has the wrong shape");
    const int64_t offsets = length(steps, 0);
    require(offsets == 2 || offsets == 3 || offsets == 4 || offsets == 13, "no such stencil");
    for (int64_t k = 0; k < offsets; ++k) {
        const int64_t* s = steps.data() + 3 * k;
        for (int axis = 0; axis < 3; ++axis) require(-1 <= s[axis] && s[axis] <= 1, "steps are -1, 0 or 1");
        const int64_t row = s[0] * height + s[1];
        if (k == 0)
            require(s[0] == 0 && s[1] == 0 && s[2] == 1, "the first step is along the row");
        else
            require(row >= 1 || (height == 1 && s[0] >= 0 && (s[0] || s[1] > 0)), "steps must point forward");
    }
    if (offsets == 2)
        require(depth == 1 && steps.data()[4] == 1 && steps.data()[5] == 0, "two steps: right and down");
    std::vector<GridPlane> list;
    for (nb::handle item : planes) {
        nb::tuple tuple;
        GridPlane plane{};
        require(nb::try_cast(item, tuple) && tuple.size() == 3 && nb::try_cast(tuple[0], plane.function) &&
                    nb::try_cast(tuple[1], plane.offset),
                "a plane is (function, offset, weight)");
        require(0 <= plane.function && plane.function < functions, "plane of an unknown function");
        require(0 <= plane.offset && plane.offset < offsets, "plane of an unknown offset");
        if (nb::isinstance<nb::float_>(tuple[2])) {
            plane.value = nb::cast<double>(tuple[2]);
            require(finite_and_nonnegative(&plane.value, 1), "weights must be finite and >= 0");
        } else {
            Array<const double> array;
            require(nb::try_cast(tuple[2], array), "the weight of a plane is a float or an array of them");
            require(static_cast<int64_t>(array.size()) == depth * height * width,
                    "a plane has the wrong size");
            require(finite_and_nonnegative(array.data(), array.size()), "weights must be finite and >= 0");
            plane.value = 0;
            plane.array.assign(array.data(), array.data() + array.size());
        }
        list.push_back(std::move(plane));
    }
    std::vector<int64_t> elements;
    if (!pixels.is_none()) {
        auto array = exactly<const int64_t>(pixels);
        require(array.ndim() == 1 && array.size() > 0, "pixels must be a vector, not empty");
        elements.assign(array.data(), array.data() + array.size());
        int64_t last = -1;
        for (int64_t pixel : elements) {
            require(last < pixel && pixel < depth * height * width, "pixels must increase within the grid");
            last = pixel;
        }
    }
    const Computing computing;
    const GridShape shape(depth, height, width, steps.data(), static_cast<int>(offsets));
    return new Kernel(std::make_unique<GridStructure>(shape, functions, std::move(list), elements));
}

WeightRange checked_range(double degree, double cap, int64_t most_edges) {
    require(std::isfinite(degree) && degree >= 0, "degree must be finite and >= 0");
    require(cap > 0, "cap must be positive");
    require(most_edges >= 0, "most_edges must be >= 0");
    WeightRange range;
    range.largest_degree = degree;
    range.cap = cap;
    range.most_edges = most_edges;
    refuse_overflow(range);
    return range;
}

// The factor from float64 numbers to integers, and the bound on fields, in integers.
std::pair<double, double> quantiser(double degree, bool wide, double cap, int64_t most_edges) {
    const WeightRange range = checked_range(degree, cap, most_edges);
    if (wide) {
        const Quantiser<int64_t> q(range);
        return {q.scale, q.bound};
    }
    const Quantiser<int32_t> q(range);
    return {q.scale, q.bound};
}

bool narrow_is_enough(double degree, double smallest) {
    WeightRange range = checked_range(degree, 1, 1);
    range.cap = std::numeric_limits<double>::infinity();
    range.smallest = smallest;
    return Quantiser<int32_t>::narrow_is_enough(range);
}

template <class T>
void count_coarse(const double* theta, int64_t n, double scale, double bound, int64_t* counts) {
    constexpr int64_t kBlock = 1024;
    constexpr double kFine = Resolution<T>::kFine, kLost = sizeof(T) == 4 ? 0.5 : 0.0;
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t last = std::min(n, first + kBlock);
        // as in Resolution::note, with sums that the compiler can vectorise
        int64_t seen = 0, coarse = 0, lost = 0, number = 0;
        for (int64_t i = first; i < last; ++i) {
            const double size = std::abs(theta[i] * scale);
            number += size == size ? 1 : 0;
            seen += (size > 0) & (size < bound) ? 1 : 0;
            coarse += (size > 0) & (size < kFine) ? 1 : 0;
            lost += (size > 0) & (size < kLost) ? 1 : 0;
        }
        if (number != last - first) refuse_nan();
        counts[0] += seen;
        counts[1] += coarse;
        counts[2] += lost;
        poll(4 * kBlock);
    }
}

// Adds to counts what `Resolution` counts in a part of a field.
void measure_field(Array<const double> theta, double scale, double bound, bool wide, Array<int64_t> counts) {
    require(theta.ndim() == 1, "theta must be a vector");
    require(has_shape(counts, {3}), "counts has the wrong shape");
    require(scale > 0 && bound >= 0, "scale must be positive");
    const Computing computing;
    const auto count = wide ? &count_coarse<int64_t> : &count_coarse<int32_t>;
    count(theta.data(), length(theta, 0), scale, bound, counts.data());
}

}  // namespace

void bind_grid(nb::module_& m) {
    m.def("grid", &make_grid, nb::arg("depth"), nb::arg("height"), nb::arg("width"), nb::arg("steps"),
          nb::arg("functions"), nb::arg("planes"), nb::arg("pixels") = nb::none(),
          nb::rv_policy::take_ownership);
    m.def("quantiser", &quantiser, nb::arg("degree"), nb::arg("wide"), nb::arg("cap"), nb::arg("most_edges"));
    m.def("narrow_is_enough", &narrow_is_enough, nb::arg("degree"), nb::arg("smallest"));
    m.def("measure_field", &measure_field, nb::arg("theta"), nb::arg("scale"), nb::arg("bound"),
          nb::arg("wide"), nb::arg("counts").noconvert());
}

}  // namespace LOGSUPER_ISA
