// The kernels of a launch as the driver sees them in a captured graph: a library's too, which its
// caller never sees.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "mla_bench/variant.hpp"

namespace mla_bench {

// One entry for each kernel node of the graph, in the order of capture. A fact that the driver does
// not tell of a node is left at its default.
std::vector<KernelFacts> kernels_of_graph(cudaGraph_t graph);

}  // namespace mla_bench
