// What the Python faces of the kernels share: array types, the checks of shapes and ranges, and how
// to compute without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>

#include "interrupt.hpp"

namespace nb = nanobind;

namespace LOGSUPER_ISA {

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* what) {
    if (!condition) throw nb::value_error(what);
}

// The only way to a size: an axis that is not there is an error, not a number from somewhere.
template <class A>
int64_t length(const A& array, size_t axis) {
    require(axis < array.ndim(), "an array has too few axes");
    return static_cast<int64_t>(array.shape(axis));
}

// Just these axes of just these sizes.
template <class A>
bool has_shape(const A& array, std::initializer_list<int64_t> sizes) {
    if (array.ndim() != sizes.size()) return false;
    size_t axis = 0;
    for (int64_t size : sizes)
        if (length(array, axis++) != size) return false;
    return true;
}

// While it lives the GIL is free, and Ctrl-C ends the loops that poll with a KeyboardInterrupt.
// Work space beyond `room` bytes is a MemoryError. `beat` is None or called several times a second, in
// the thread that made the call; what it raises ends the call.
class Computing {
    static PyObject*& beat() {
        static thread_local PyObject* mine = nullptr;
        return mine;
    }

    PyObject* const outer_;  // of the call that this one was made in, by a handler
    nb::gil_scoped_release release_;
    Watch watch_;

   public:
    explicit Computing(int64_t room = Watch::kAnyRoom, nb::handle beat = {})
        : outer_(std::exchange(Computing::beat(), beat.is_none() ? nullptr : beat.ptr())),
          watch_(&look_outside, std::max<int64_t>(0, room)) {}
    ~Computing() { beat() = outer_; }

   private:
    static void look_outside() {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals()) throw nb::python_error();
        if (PyObject* const callable = beat()) nb::borrow(callable)();
    }
};

inline void require_threads(int threads) { require(threads >= 1, "threads must be >= 1"); }

inline bool finite_and_nonnegative(const double* x, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!(x[i] >= 0 && x[i] <= std::numeric_limits<double>::max())) return false;
    return true;
}

inline bool finite(const double* x, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!std::isfinite(x[i])) return false;
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
