// The Python face of the transfer matrices over windows of a grid.
#pragma once

#include "bindings.hpp"

namespace LOGSUPER_ISA {

inline void bind_strips(nb::module_&) {}

}  // namespace LOGSUPER_ISA
