// A structure: one graph and K weight vectors on its edges, built once and solved many times.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuts.hpp"

namespace LOGSUPER_ISA {

// The weights of one problem: w_e = sum_k alpha_k weight_k(e) factor(e).
struct ProblemWeights {
    const double* alpha = nullptr;    // (functions,)
    const double* factors = nullptr;  // null, (edges,), or (functions, edges) if factors_per_function
    bool factors_per_function = false;
    double whole_degree = 0;  // if positive, the integers are those of a grid with this largest degree
};

struct ParametricResult {
    double gap = 0;
    int64_t levels = 0;
};

// Lower and upper bound on the bytes of work space of any problem.
struct WorkspaceBytes {
    int64_t least = 0, most = 0;
};

// Which solvers need work space.
struct SolveKind {
    bool wide = false;      // maximisation in 64-bit integers from the start
    bool min_norm = false;  // min-norm points instead of maximisation
};

// Resolution of the integers of a solve: their unit, and whether even the widest integers were too coarse
// for the field (see Resolution).
struct Precision {
    double quantum = 0;
    bool coarse = false;
};

// Solves problems on a structure in one thread. Keeps its memory between solves.
class Worker {
   public:
    virtual ~Worker() = default;
    virtual void set_weights(const ProblemWeights& weights, bool wide) = 0;
    virtual int64_t held_bytes() const = 0;
    virtual void solve(const double* theta, Tie tie) = 0;

    // Of the last solve: the labels of all nodes, the precision, theta'y over the finite entries of theta,
    // and stats[k] = sum_e weight_k(e) factor(e) |y_i - y_j|.
    virtual void labels(uint8_t* out) const = 0;
    virtual Precision precision() const = 0;
    virtual double dot(const double* theta) const = 0;
    virtual void statistics(double* stats) const = 0;

    // Min-norm point s of B(f), f(x) = cut with these weights - theta'x. Weights must be set again before the
    // next solve.
    virtual ParametricResult min_norm_point(const ProblemWeights& weights, const double* theta,
                                            double* s) = 0;
};

// Successive elements that are successive nodes.
struct ElementRun {
    int64_t element, node, count;
};

class Structure {
   public:
    virtual ~Structure() = default;
    virtual int64_t nodes() const = 0;
    // Columns of theta: the nodes, unless `runs` says which nodes the elements are. Others are held at 0.
    virtual int64_t elements() const { return nodes(); }
    virtual const std::vector<ElementRun>& runs() const {
        static const std::vector<ElementRun> none;
        return none;
    }
    virtual int64_t edges() const = 0;
    virtual int functions() const = 0;
    virtual std::unique_ptr<Worker> worker() const = 0;
    virtual WorkspaceBytes workspace(SolveKind kind) const = 0;  // of one worker
    virtual bool is_grid() const { return false; }
};

}  // namespace LOGSUPER_ISA
