// Python bindings of the losses of single labels.
#include "flips.hpp"

#include <vector>

#include "bindings.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {
namespace {

void flip_labels(Array<const int64_t> edges, Array<const double> weights, Array<const double> theta,
                 Array<const uint8_t> labels, Array<const double> costs, Array<const uint64_t> numbers,
                 uint64_t key, uint32_t first_sample, int samples, int threads, Array<double> values,
                 Array<double> fields, Array<double> cuts) {
    require(edges.ndim() == 2 && length(edges, 1) == 2 && weights.ndim() == 2 && theta.ndim() == 2,
            "wrong number of axes");
    FlipProblems p;
    p.problems = length(theta, 0);
    p.nodes = length(theta, 1);
    p.edges = length(edges, 0);
    p.samples = samples;
    require(samples >= 1, "samples must be >= 1");
    require(p.nodes < int64_t{1} << 30 && p.edges < int64_t{1} << 29, "too many nodes or edges");
    require(length(weights, 0) == 1 || length(weights, 0) == p.problems, "weights has the wrong length");
    require(length(weights, 1) == p.edges, "weights has the wrong shape");
    require(has_shape(labels, {p.problems, p.nodes}), "labels has the wrong shape");
    require(has_shape(costs, {p.problems, p.nodes, 2}), "costs has the wrong shape");
    require(has_shape(numbers, {p.problems}), "numbers has the wrong shape");
    require(has_shape(values, {p.problems}), "values has the wrong shape");
    require(has_shape(fields, {p.problems, p.nodes}), "fields has the wrong shape");
    require(has_shape(cuts, {p.problems, p.edges}), "cuts has the wrong shape");
    require_threads(threads);
    require(finite_and_nonnegative(weights.data(), weights.size()), "weights must be finite and >= 0");
    require(finite_and_nonnegative(costs.data(), costs.size()), "costs must be finite and >= 0");
    // a copy, which cannot change after the check
    const std::vector<int64_t> ends(edges.data(), edges.data() + 2 * p.edges);
    for (int64_t e = 0; e < p.edges; ++e)
        require(0 <= ends[2 * e] && ends[2 * e] < ends[2 * e + 1] && ends[2 * e + 1] < p.nodes,
                "edges must satisfy 0 <= i < j < n");
    p.ends = ends.data();
    p.weights = weights.data();
    p.shared = length(weights, 0) == 1;
    p.theta = theta.data();
    p.labels = labels.data();
    p.costs = costs.data();
    p.numbers = numbers.data();
    p.key = key;
    p.first_sample = first_sample;
    p.values = values.data();
    p.fields = fields.data();
    p.cuts = cuts.data();
    const Computing computing;
    const FlipJob job(p);
    run_team<FlipJob::Scratch>(p.problems, threads,
                               [&](FlipJob::Scratch& scratch, int64_t m) { job.run(scratch, m); });
}

}  // namespace

void bind_flips(nb::module_& m) {
    m.def("flip_labels", &flip_labels, nb::arg("edges"), nb::arg("weights"), nb::arg("theta"),
          nb::arg("labels"), nb::arg("costs"), nb::arg("numbers"), nb::arg("key"), nb::arg("first_sample"),
          nb::arg("samples"), nb::arg("threads"), nb::arg("values").noconvert(),
          nb::arg("fields").noconvert(), nb::arg("cuts").noconvert());
}

}  // namespace LOGSUPER_ISA
