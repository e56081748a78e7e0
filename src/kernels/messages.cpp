// Python bindings of belief propagation and mean field.
#include "messages.hpp"

#include "bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

EdgeEnds check_ends(const Array<const double>& t, const Array<const int64_t>& edges) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    require(t.ndim() == 1 && length(t, 0) < kLimit, "t must have one axis and less than 2^30 elements");
    require(edges.ndim() == 2 && length(edges, 1) == 2, "edges has the wrong shape");
    const int64_t n = length(t, 0), m = length(edges, 0);
    require(m < kLimit / 2, "too many edges: at most 2^29");
    for (int64_t e = 0; e < m; ++e) {
        const int64_t i = edges.data()[2 * e], j = edges.data()[2 * e + 1];
        require(0 <= i && i < j && j < n, "edges must satisfy 0 <= i < j < n");
    }
    return EdgeEnds(n, edges.data(), m);
}

const double* check_by_edge(const Array<const double>& values, const EdgeEnds& ends) {
    require(values.ndim() == 1 && length(values, 0) == ends.m, "an array has not one number an edge");
    return values.data();
}

double propagate_logs(Array<const double> t, Array<const int64_t> edges, Array<const double> coupling,
                      Array<const double> rho, double damping, int64_t sweeps, double tol, Array<double> u) {
    const EdgeEnds ends = check_ends(t, edges);
    const double *k = check_by_edge(coupling, ends), *shares = check_by_edge(rho, ends);
    require(u.ndim() == 1 && length(u, 0) == 2 * ends.m, "u has the wrong shape");
    const Computing computing;
    LogMessages messages(ends, {t.data(), k, shares, damping}, u.data());
    const double residual = propagate(ends, messages, sweeps, tol);
    messages.write(u.data());
    return residual;
}

double propagate_extremes(Array<const double> t, Array<const int64_t> edges, Array<const double> coupling,
                          int64_t sweeps, double tol, Array<double> u) {
    const EdgeEnds ends = check_ends(t, edges);
    const double* k = check_by_edge(coupling, ends);
    require(u.ndim() == 2 && length(u, 0) == 2 && length(u, 1) == 2 * ends.m, "u has the wrong shape");
    const Computing computing;
    OddsMessages messages(ends, t.data(), k);
    const double residual = propagate(ends, messages, sweeps, tol);
    messages.write(u.data());
    return residual;
}

int64_t mean_field(Array<const double> t, Array<const int64_t> edges, Array<const double> weights,
                   int64_t sweeps, double tol, Array<double> logits, Array<double> values) {
    const EdgeEnds ends = check_ends(t, edges);
    const double* w = check_by_edge(weights, ends);
    require(logits.ndim() == 2 && length(logits, 1) == ends.n, "logits has the wrong shape");
    const int64_t rows = length(logits, 0);
    require(values.ndim() == 1 && length(values, 0) == rows && rows >= 1, "values has the wrong length");
    require(sweeps >= 1, "sweeps must be >= 1");
    const Computing computing;
    MeanField field(ends, t.data(), w);
    int64_t most = 0;
    for (int64_t r = 0; r < rows; r += 2) {
        const int64_t other = std::min(r + 1, rows - 1);
        const MeanField::Pair pair{{logits.data() + r * ends.n, logits.data() + other * ends.n},
                                   {values.data() + r, values.data() + other}};
        most = std::max(most, field.ascend(pair, sweeps, tol));
    }
    return most;
}

}  // namespace

void bind_messages(nb::module_& m) {
    m.def("propagate_logs", &propagate_logs, nb::arg("t"), nb::arg("edges"), nb::arg("coupling"),
          nb::arg("rho"), nb::arg("damping"), nb::arg("sweeps"), nb::arg("tol"), nb::arg("u").noconvert());
    m.def("propagate_extremes", &propagate_extremes, nb::arg("t"), nb::arg("edges"), nb::arg("coupling"),
          nb::arg("sweeps"), nb::arg("tol"), nb::arg("u").noconvert());
    m.def("mean_field", &mean_field, nb::arg("t"), nb::arg("edges"), nb::arg("weights"), nb::arg("sweeps"),
          nb::arg("tol"), nb::arg("logits").noconvert(), nb::arg("values").noconvert());
}

}  // namespace LOGSUPER_ISA
