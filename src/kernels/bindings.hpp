// What the Python faces of the kernels share: array types and the checks of shapes and ranges.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <limits>

namespace nb = nanobind;

namespace LOGSUPER_ISA {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* what) {
    if (!condition) throw nb::value_error(what);
}

template <class A>
int64_t length(const A& array, size_t axis) {
    return static_cast<int64_t>(array.shape(axis));
}

inline bool finite_and_nonnegative(const double* x, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!(x[i] >= 0 && x[i] <= std::numeric_limits<double>::max())) return false;
    return true;
}

// Without conversion: a converted copy would be gone, or written to in vain.
template <class T>
Array<T> exactly(const nb::object& object) {
    Array<T> array;
    if (!nb::try_cast<Array<T>>(object, array, false)) throw nb::type_error("an array has the wrong type");
    return array;
}

}  // namespace LOGSUPER_ISA
