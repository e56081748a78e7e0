// Python bindings of max-flow on arbitrary graphs.
#include <utility>
#include <vector>

#include "graph_structure.hpp"
#include "kernel.hpp"

namespace LOGSUPER_ISA {
namespace {

// Function k has weight[t] on edge edge[t] for start[k] <= t < start[k + 1].
Kernel* make_graph(int64_t nodes, Array<const int64_t> edges, bool dense, Array<const int64_t> start,
                   Array<const int64_t> edge, Array<const double> weight) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    require(nodes >= 0 && nodes < kLimit, "too many nodes: at most 2^30");
    require(edges.ndim() == 2 && length(edges, 1) == 2, "edges has the wrong shape");
    const int64_t m = length(edges, 0);
    require(m < kLimit / 2, "too many edges: at most 2^29");
    require(!dense || nodes <= (int64_t{1} << 15), "too many nodes for the dense kernel");
    // a copy, which cannot change after the check
    std::vector<int64_t> ends(edges.data(), edges.data() + 2 * m);
    for (int64_t e = 0; e < m; ++e)
        require(0 <= ends[2 * e] && ends[2 * e] < ends[2 * e + 1] && ends[2 * e + 1] < nodes,
                "edges must satisfy 0 <= i < j < n");
    require(start.ndim() == 1 && length(start, 0) >= 1 && length(start, 0) <= kLimit,
            "start has the wrong shape");
    require(edge.ndim() == 1 && weight.ndim() == 1 && length(edge, 0) == length(weight, 0),
            "edge and weight differ in length");
    const int64_t entries = length(edge, 0), count = length(start, 0);
    require(start.data()[0] == 0 && start.data()[count - 1] == entries, "start does not cover the terms");
    for (int64_t k = 1; k < count; ++k)
        require(start.data()[k - 1] <= start.data()[k], "start must not decrease");
    std::vector<int32_t> edge_of(entries);
    for (int64_t t = 0; t < entries; ++t) {
        require(0 <= edge.data()[t] && edge.data()[t] < m, "a term names an unknown edge");
        edge_of[t] = static_cast<int32_t>(edge.data()[t]);
    }
    require(finite_and_nonnegative(weight.data(), weight.size()), "weights must be finite and >= 0");
    GraphTerms terms{
        {start.data(), start.data() + count}, std::move(edge_of), {weight.data(), weight.data() + entries}};
    const Computing computing;
    return new Kernel(std::make_unique<GraphStructure>(nodes, std::move(ends), dense, std::move(terms)));
}

}  // namespace

void bind_graph(nb::module_& m) {
    m.def("graph", &make_graph, nb::arg("nodes"), nb::arg("edges"), nb::arg("dense"), nb::arg("start"),
          nb::arg("edge"), nb::arg("weight"), nb::rv_policy::take_ownership);
}

}  // namespace LOGSUPER_ISA
