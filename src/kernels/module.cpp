// The Python modules _kernels and _kernels_avx2: each kernel registers its own entries.
#include "bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

bool has_avx2() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
           __builtin_cpu_supports("lzcnt");
#else
    return false;
#endif
}

}  // namespace
}  // namespace LOGSUPER_ISA

NB_MODULE(LOGSUPER_MODULE, m) {
    using namespace LOGSUPER_ISA;
    m.doc() = "Kernels of flows, strips, chains, messages and trees: loops over arrays, nothing else.";
    m.def("has_avx2", &has_avx2);
    bind_kernel(m);
    bind_grid(m);
    bind_graph(m);
    bind_noise(m);
    bind_strips(m);
    bind_chains(m);
    bind_messages(m);
    bind_filters(m);
    bind_conditional(m);
    bind_flips(m);
    bind_trees(m);
}
