// The Python face of the Markov chains.
#pragma once

#include "bindings.hpp"

namespace LOGSUPER_ISA {

inline void bind_chains(nb::module_&) {}

}  // namespace LOGSUPER_ISA
