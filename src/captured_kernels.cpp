#include "captured_kernels.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <cxxabi.h>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "mla_bench/cuda_check.hpp"

namespace mla_bench {
namespace {

// The driver's functions, which the runtime has no equal of for a library's kernels. The library is
// already loaded, since a graph exists; a function that an old driver lacks stays null.
struct Driver {
  CUresult (*node_params)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2*) = nullptr;
  CUresult (*node_attribute)(CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue*) = nullptr;
  CUresult (*kernel_function)(CUfunction*, CUkernel) = nullptr;
  CUresult (*function_attribute)(int*, CUfunction_attribute, CUfunction) = nullptr;
  CUresult (*function_name)(const char**, CUfunction) = nullptr;
  CUresult (*occupancy)(int*, CUfunction, int, std::size_t) = nullptr;
};

Driver load_driver() {
  Driver driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    return driver;
  }
  const auto load = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  load(driver.node_params, "cuGraphKernelNodeGetParams_v2");
  load(driver.node_attribute, "cuGraphKernelNodeGetAttribute");
  load(driver.kernel_function, "cuKernelGetFunction");
  load(driver.function_attribute, "cuFuncGetAttribute");
  load(driver.function_name, "cuFuncGetName");
  load(driver.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  dlclose(library);  // the runtime keeps its own hold on it
  return driver;
}

int attribute(const Driver& driver, CUfunction_attribute which, CUfunction function) {
  int value = 0;
  if (driver.function_attribute != nullptr) {
    driver.function_attribute(&value, which, function);
  }
  return value;
}

// As a person would write it: without return type, namespaces, template arguments and parameters.
std::string readable_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? demangled.get() : mangled;
  const std::string unnamed = "(anonymous namespace)::";
  for (std::size_t at = 0; (at = name.find(unnamed)) != std::string::npos;) {
    name.erase(at, unnamed.size());
  }
  name.erase(std::min(name.size(), name.find_first_of("<(")));
  return name.substr(name.find_last_of(": ") + 1);  // npos + 1 is 0
}

KernelFacts facts_of_node(const Driver& driver, cudaGraphNode_t node) {
  KernelFacts facts;
  CUDA_KERNEL_NODE_PARAMS_v2 params = {};
  if (driver.node_params == nullptr || driver.node_params(node, &params) != CUDA_SUCCESS) {
    return facts;
  }
  facts.grid = {.x = params.gridDimX, .y = params.gridDimY, .z = params.gridDimZ};
  facts.block = {.x = params.blockDimX, .y = params.blockDimY, .z = params.blockDimZ};
  CUkernelNodeAttrValue value = {};
  if (driver.node_attribute != nullptr &&
      driver.node_attribute(node, CU_KERNEL_NODE_ATTRIBUTE_CLUSTER_DIMENSION, &value) ==
          CUDA_SUCCESS &&
      value.clusterDim.x > 0) {
    facts.cluster = {.x = value.clusterDim.x, .y = value.clusterDim.y, .z = value.clusterDim.z};
  }
  CUfunction function = params.func;
  if (function == nullptr && driver.kernel_function != nullptr) {
    driver.kernel_function(&function, params.kern);
  }
  if (function == nullptr) {
    return facts;
  }
  facts.shared_bytes = static_cast<std::int64_t>(params.sharedMemBytes) +
                       attribute(driver, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
  facts.registers = attribute(driver, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  facts.local_bytes = attribute(driver, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
  const char* name = nullptr;
  if (driver.function_name != nullptr && driver.function_name(&name, function) == CUDA_SUCCESS) {
    facts.name = readable_name(name);
  }
  if (driver.occupancy != nullptr) {
    driver.occupancy(&facts.blocks_per_sm, function,
                     static_cast<int>(params.blockDimX * params.blockDimY * params.blockDimZ),
                     params.sharedMemBytes);
  }
  return facts;
}

}  // namespace

std::vector<KernelFacts> kernels_of_graph(cudaGraph_t graph) {
  std::size_t count = 0;
  MLA_BENCH_CHECK(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  MLA_BENCH_CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
  const Driver driver = load_driver();
  std::vector<KernelFacts> kernels;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    MLA_BENCH_CHECK(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel) {
      kernels.push_back(facts_of_node(driver, node));
    }
  }
  return kernels;
}

}  // namespace mla_bench
