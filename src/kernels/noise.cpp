// Python bindings of the noise.
#include "noise.hpp"

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

}  // namespace

void bind_noise(nb::module_& m) {
    m.def("draw_noise", &draw_noise, nb::arg("key"), nb::arg("problem"), nb::arg("sample"),
          nb::arg("out").noconvert());
}

}  // namespace LOGSUPER_ISA
