// CUDA calls that throw instead of being forgotten. Only for translation units that see CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace mla_bench {

// A CUDA call that failed: what() names the expression, the error and the place.
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const char* expression, const char* file, int line)
      : std::runtime_error(std::string(cudaGetErrorName(code)) + " (" + cudaGetErrorString(code) +
                           ") from " + expression + " at " + base_name(file) + ":" +
                           std::to_string(line)),
        code_(code) {}

  cudaError_t code() const { return code_; }

 private:
  static std::string base_name(const std::string& path) {
    return path.substr(path.find_last_of('/') + 1);
  }

  cudaError_t code_;
};

inline void throw_on_error(cudaError_t code, const char* expression, const char* file, int line) {
  if (code != cudaSuccess) {
    cudaGetLastError();  // a sticky flag here would be blamed on the next call
    throw CudaError(code, expression, file, line);
  }
}

}  // namespace mla_bench

#define MLA_BENCH_CHECK(call) ::mla_bench::throw_on_error((call), #call, __FILE__, __LINE__)
