// Python bindings of the conditional probabilities.
#include "conditional.hpp"

#include <cmath>

#include "bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

struct Inputs {
    const Array<const double>& theta;
    const Array<const uint8_t>& labels;
    const Array<const uint64_t>& numbers;
    uint64_t key;
    uint32_t first_sample;
    int rounds, threads;
    const Array<double>& sums;
};

Perturbations check(const Inputs& in) {
    require(in.theta.ndim() == 2 && in.labels.ndim() == 3 && in.numbers.ndim() == 1 && in.sums.ndim() == 2,
            "wrong number of axes");
    Perturbations p;
    p.problems = length(in.theta, 0);
    p.nodes = length(in.theta, 1);
    p.samples = length(in.labels, 1);
    require(length(in.labels, 0) == p.problems && length(in.labels, 2) == p.nodes,
            "labels has the wrong shape");
    require(length(in.numbers, 0) == p.problems, "numbers has the wrong length");
    require(has_shape(in.sums, {p.problems, p.nodes}), "sums has the wrong shape");
    require(0 <= in.rounds && in.rounds <= 1 << 20, "rounds must be 0 to 2^20");
    require_threads(in.threads);
    for (size_t i = 0; i < in.theta.size(); ++i) require(!std::isnan(in.theta.data()[i]), "theta has a NaN");
    p.theta = in.theta.data();
    p.labels = in.labels.data();
    p.numbers = in.numbers.data();
    p.key = in.key;
    p.first_sample = in.first_sample;
    p.rounds = in.rounds;
    p.sums = in.sums.data();
    return p;
}

// Whether all problems share the weights.
bool check_weights(const Array<const double>& weights, int64_t problems) {
    require(length(weights, 0) == 1 || length(weights, 0) == problems, "weights has the wrong length");
    require(finite_and_nonnegative(weights.data(), weights.size()), "weights must be finite and >= 0");
    return length(weights, 0) == 1;
}

template <class Job>
void run_conditional(const Job& job, int threads) {
    const Computing computing;
    run_team<typename Job::Scratch>(
        job.units(), threads, [&](typename Job::Scratch& scratch, int64_t unit) { job.run(scratch, unit); });
}

// Whether single precision keeps three decimal places in sums of weights.
bool fits_single(const Array<const double>& weights) {
    for (size_t i = 0; i < weights.size(); ++i)
        if (weights.data()[i] > 1e3) return false;
    return true;
}

void conditional_grid(Array<const int64_t> offsets, Array<const double> weights, Array<const double> theta,
                      Array<const uint8_t> labels, Array<const uint64_t> numbers, uint64_t key,
                      uint32_t first_sample, int rounds, int threads, Array<double> sums) {
    const Perturbations p = check({theta, labels, numbers, key, first_sample, rounds, threads, sums});
    require(offsets.ndim() == 1 && weights.ndim() == 3, "wrong number of axes");
    require(length(weights, 1) == length(offsets, 0) && length(weights, 2) == p.nodes,
            "weights has the wrong shape");
    for (int64_t o = 0; o < length(offsets, 0); ++o)
        require(0 < offsets.data()[o] && offsets.data()[o] < p.nodes, "an offset is out of range");
    const bool shared = check_weights(weights, p.problems);
    const ConditionalGrid grid{{offsets.data(), offsets.data() + offsets.size()}, weights.data(), shared};
    if (fits_single(weights))
        run_conditional(GridConditional<float>(p, grid), threads);
    else
        run_conditional(GridConditional<double>(p, grid), threads);
}

void conditional_graph(Array<const int64_t> edges, Array<const double> weights, Array<const double> theta,
                       Array<const uint8_t> labels, Array<const uint64_t> numbers, uint64_t key,
                       uint32_t first_sample, int rounds, int threads, Array<double> sums) {
    const Perturbations p = check({theta, labels, numbers, key, first_sample, rounds, threads, sums});
    require(edges.ndim() == 2 && length(edges, 1) == 2 && weights.ndim() == 2, "wrong number of axes");
    require(length(weights, 1) == length(edges, 0), "weights has the wrong shape");
    for (size_t k = 0; k < edges.size(); ++k)
        require(0 <= edges.data()[k] && edges.data()[k] < p.nodes, "an edge leads nowhere");
    const bool shared = check_weights(weights, p.problems);
    const ConditionalGraph graph{length(edges, 0), edges.data(), weights.data(), shared};
    if (fits_single(weights))
        run_conditional(GraphConditional<float>(p, graph), threads);
    else
        run_conditional(GraphConditional<double>(p, graph), threads);
}

}  // namespace

void bind_conditional(nb::module_& m) {
    m.def("conditional_grid", &conditional_grid, nb::arg("offsets"), nb::arg("weights"), nb::arg("theta"),
          nb::arg("labels"), nb::arg("numbers"), nb::arg("key"), nb::arg("first_sample"), nb::arg("rounds"),
          nb::arg("threads"), nb::arg("sums").noconvert());
    m.def("conditional_graph", &conditional_graph, nb::arg("edges"), nb::arg("weights"), nb::arg("theta"),
          nb::arg("labels"), nb::arg("numbers"), nb::arg("key"), nb::arg("first_sample"), nb::arg("rounds"),
          nb::arg("threads"), nb::arg("sums").noconvert());
}

}  // namespace LOGSUPER_ISA
