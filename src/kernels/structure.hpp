// A structure: one graph and K weight vectors on its edges, made once, solved many times.
#pragma once

#include <cstdint>
#include <memory>

#include "cuts.hpp"

namespace LOGSUPER_ISA {

struct ParametricResult {
    double gap = 0;
    int64_t levels = 0;
};

// Bytes of work space: what some problem takes at least, and at most.
struct Room {
    int64_t least = 0, most = 0;
};

// How fine the integers of a solve were: their unit, and whether it was too coarse for the field
// (see Resolution) in the widest integers that there are.
struct Precision {
    double quantum = 0;
    bool coarse = false;
};

// What one thread needs to solve problems on a structure. Memory is kept between solves.
class Worker {
   public:
    virtual ~Worker() = default;
    // w_e = sum_k alpha_k weight_k(e) * factor(e): `factors` is null, or one row of `edges()`
    // numbers for all functions, or one for each function (`per_function`).
    virtual void set_weights(const double* alpha, const double* factors, bool per_function, bool wide) = 0;
    virtual int64_t held() const = 0;  // bytes of work space
    virtual void solve(const double* theta, Tie tie) = 0;
    virtual void labels(uint8_t* out) const = 0;  // of all nodes
    virtual Precision precision() const = 0;  // of the labels just found
    // theta'y over the finite entries of theta, for the labels just found.
    virtual double dot(const double* theta) const = 0;
    // stats[k] = sum_e weight_k(e) factor(e) |y_i - y_j| for the labels just found.
    virtual void statistics(double* stats) const = 0;
    // Min-norm point of B(f), f = the cut with these weights - theta'x. Other weights must be set
    // again before the next solve.
    virtual ParametricResult min_norm_point(const double* alpha, const double* factors, bool per_function,
                                            const double* theta, double* s) = 0;
};

class Structure {
   public:
    virtual ~Structure() = default;
    virtual int64_t nodes() const = 0;
    virtual int64_t edges() const = 0;
    virtual int functions() const = 0;
    virtual std::unique_ptr<Worker> worker() const = 0;
    // Of one worker, for maximisations (in wide integers from the beginning or not), or min-norm points.
    virtual Room room(bool wide, bool min_norm) const = 0;
};

}  // namespace LOGSUPER_ISA
