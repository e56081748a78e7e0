// Shared by the bindings of all kernels: array types, checks of shapes and ranges, computing without the GIL.
//
// Bindings check shapes and ranges again, so that not even a direct call can read or write outside an array;
// clear messages are the task of the Python code that calls them.
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

// Each registers the entries of one kernel and is defined in the .cpp file of that kernel.
void bind_chains(nb::module_& m);
void bind_conditional(nb::module_& m);
void bind_filters(nb::module_& m);
void bind_flips(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_grid(nb::module_& m);
void bind_kernel(nb::module_& m);
void bind_messages(nb::module_& m);
void bind_noise(nb::module_& m);
void bind_strips(nb::module_& m);
void bind_trees(nb::module_& m);

template <class T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* what) {
    if (!condition) throw nb::value_error(what);
}

// The size of an axis; an axis that does not exist is an error.
template <class A>
int64_t length(const A& array, size_t axis) {
    require(axis < array.ndim(), "an array has too few axes");
    return static_cast<int64_t>(array.shape(axis));
}

// Whether the array has exactly this shape.
template <class A>
bool has_shape(const A& array, std::initializer_list<int64_t> sizes) {
    if (array.ndim() != sizes.size()) return false;
    size_t axis = 0;
    for (int64_t size : sizes)
        if (length(array, axis++) != size) return false;
    return true;
}

// Releases the GIL while it exists; Ctrl-C then ends loops that poll with a KeyboardInterrupt. Work space
// beyond `workspace_limit` bytes is a MemoryError. `heartbeat` is None or a callable that is called several
// times per second, in the thread that made the call; an exception that it raises ends the call.
class Computing {
    static PyObject*& heartbeat() {
        static thread_local PyObject* callable = nullptr;
        return callable;
    }

    PyObject* const outer_;  // the heartbeat of an outer call, if a signal handler made this one
    nb::gil_scoped_release release_;
    CallMonitor monitor_;

   public:
    explicit Computing(int64_t workspace_limit = CallMonitor::kUnlimited, nb::handle heartbeat = {})
        : outer_(std::exchange(Computing::heartbeat(), heartbeat.is_none() ? nullptr : heartbeat.ptr())),
          monitor_(&check, std::max<int64_t>(0, workspace_limit)) {}
    ~Computing() { heartbeat() = outer_; }

   private:
    static void check() {
        nb::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals()) throw nb::python_error();
        if (PyObject* const callable = heartbeat()) nb::borrow(callable)();
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

// An array without conversion: a converted copy would not outlive this call, and writes to it would be lost.
template <class T>
Array<T> exactly(const nb::object& object) {
    Array<T> array;
    if (!nb::try_cast<Array<T>>(object, array, false)) throw nb::type_error("an array has the wrong type");
    return array;
}

}  // namespace LOGSUPER_ISA
