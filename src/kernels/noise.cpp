// Python bindings of the noise.
#include "noise.hpp"

#include <algorithm>
#include <vector>

#include "bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

void draw_noise(uint64_t key, uint64_t problem, uint32_t sample, Array<double> out) {
    require(out.ndim() == 1, "out must have one axis");
    const Computing computing;
    const std::vector<double> zero(out.size(), 0.0);
    perturb_field({key, problem, sample}, zero.data(), length(out, 0), length(out, 0), out.data());
}

// Adds the noise of elements starts[r], starts[r] + 1, ... to row r of a field.
void add_noise(uint64_t key, uint64_t problem, uint32_t sample, Array<const int64_t> starts,
               Array<double> field) {
    require(field.ndim() == 2 && has_shape(starts, {length(field, 0)}), "field has the wrong shape");
    const int64_t rows = length(field, 0), columns = length(field, 1);
    for (int64_t r = 0; r < rows; ++r)
        require(0 <= starts.data()[r] && starts.data()[r] <= (int64_t{1} << 34) - columns,
                "elements are out of range");
    const Computing computing;
    for (int64_t r = 0; r < rows; ++r) {
        poll(16 * columns);
        double* const row = field.data() + r * columns;
        const int64_t start = starts.data()[r];
        float z[32];
        for (int64_t i = start / 32 * 32; i < start + columns; i += 32) {
            logistic32({key, problem, sample}, i, z);
            const int64_t last = std::min(i + 32, start + columns);
            for (int64_t j = std::max(i, start); j < last; ++j) row[j - start] += z[j - i];
        }
    }
}

}  // namespace

void bind_noise(nb::module_& m) {
    m.def("draw_noise", &draw_noise, nb::arg("key"), nb::arg("problem"), nb::arg("sample"),
          nb::arg("out").noconvert());
    m.def("add_noise", &add_noise, nb::arg("key"), nb::arg("problem"), nb::arg("sample"), nb::arg("starts"),
          nb::arg("field").noconvert());
}

}  // namespace LOGSUPER_ISA
