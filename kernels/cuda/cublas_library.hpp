// cuBLAS and cuBLASLt behind dlopen, so that the program starts without them: their headers give
// the types, a table of pointers the functions. Beside it what both rivals ask of the library.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mla_bench/variant.hpp"

namespace mla_bench::cuda {

// A call into cuBLAS that failed: what() names the status, what it means, and the call.
class CublasError : public std::runtime_error {
 public:
  CublasError(const char* status, const char* meaning, const char* call)
      : std::runtime_error(std::string(status) + " (" + meaning + ") from " + call) {}
};

// ---- opening ------------------------------------------------------------------------------------

// Either a handle, or in words why there is none.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string missing;
};

// By its file name, where the loader looks and then where the toolkit puts its libraries without
// telling the loader. It stays loaded to the end: opened again it costs nothing, and a library that
// owns a part of the CUDA context is best not taken away.
inline OpenedLibrary open_library(const std::string& file) {
  std::vector<std::string> paths{file};
  const auto add_folders_of = [&](const std::string& root) {
    for (const char* folder : {"/lib64/", "/lib/"}) {
      if (std::filesystem::exists(root + folder + file)) {
        paths.push_back(root + folder + file);
      }
    }
  };
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable)) {
      add_folders_of(root);
    }
  }
  add_folders_of("/usr/local/cuda");
  std::string error;  // of the last path: one that exists says more than one that does not
  for (const std::string& path : paths) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      return {.handle = handle, .missing = ""};
    }
    const char* const text = dlerror();
    error = text != nullptr ? text : "unknown error";
  }
  return {.handle = nullptr,
          .missing = file + " cannot be loaded (" + error +
                     "): install it, or name its folder in LD_LIBRARY_PATH"};
}

// The major version that the headers of this build belong to: libcublas.so.13 is CUDA 13's.
inline std::string cublas_file(const std::string& stem) {
  return stem + ".so." + std::to_string(CUBLAS_VER_MAJOR);
}

// Fills a table, and remembers the first function that the library does not have.
class Symbols {
 public:
  explicit Symbols(const std::string& file) : file_(file), library_(open_library(file)) {}

  template <typename Function>
  void find(Function& function, const char* name) {
    if (library_.handle == nullptr || !library_.missing.empty()) {
      return;
    }
    function = reinterpret_cast<Function>(dlsym(library_.handle, name));
    if (function == nullptr) {
      library_.missing = file_ + " has no " + name + ": it is not the library of CUDA " +
                         std::to_string(CUBLAS_VER_MAJOR) + ", which this build is for";
    }
  }

  const std::string& missing() const { return library_.missing; }

 private:
  std::string file_;
  OpenedLibrary library_;
};

// ---- the functions used -------------------------------------------------------------------------

// Throws what the status of `call` says; the names come from the library that gave it.
template <typename Api>
void throw_on_status(const Api& api, cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    throw std::bad_alloc();
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw CublasError(api.status_name(status), api.status_meaning(status), call);
  }
}

struct CublasApi {
  std::string missing;  // why nothing below may be called; else empty
  decltype(&cublasGetStatusName) status_name = nullptr;
  decltype(&cublasGetStatusString) status_meaning = nullptr;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasGemmEx_64) gemm = nullptr;
};

inline CublasApi load_cublas(const std::string& file = cublas_file("libcublas")) {
  CublasApi api;
  Symbols symbols(file);
  symbols.find(api.status_name, "cublasGetStatusName");
  symbols.find(api.status_meaning, "cublasGetStatusString");
  symbols.find(api.create, "cublasCreate_v2");
  symbols.find(api.destroy, "cublasDestroy_v2");
  symbols.find(api.version, "cublasGetVersion_v2");
  symbols.find(api.set_stream, "cublasSetStream_v2");
  symbols.find(api.set_workspace, "cublasSetWorkspace_v2");
  symbols.find(api.set_math_mode, "cublasSetMathMode");
  symbols.find(api.gemm, "cublasGemmEx_64");
  api.missing = symbols.missing();
  return api;
}

struct CublasLtApi {
  std::string missing;  // why nothing below may be called; else empty
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtGetStatusString) status_meaning = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

inline CublasLtApi load_cublaslt(const std::string& file = cublas_file("libcublasLt")) {
  CublasLtApi api;
  Symbols symbols(file);
  symbols.find(api.status_name, "cublasLtGetStatusName");
  symbols.find(api.status_meaning, "cublasLtGetStatusString");
  symbols.find(api.create, "cublasLtCreate");
  symbols.find(api.destroy, "cublasLtDestroy");
  symbols.find(api.version, "cublasLtGetVersion");
  symbols.find(api.create_product, "cublasLtMatmulDescCreate");
  symbols.find(api.destroy_product, "cublasLtMatmulDescDestroy");
  symbols.find(api.create_layout, "cublasLtMatrixLayoutCreate");
  symbols.find(api.destroy_layout, "cublasLtMatrixLayoutDestroy");
  symbols.find(api.set_layout, "cublasLtMatrixLayoutSetAttribute");
  symbols.find(api.create_preference, "cublasLtMatmulPreferenceCreate");
  symbols.find(api.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  symbols.find(api.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  symbols.find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  symbols.find(api.check_algorithm, "cublasLtMatmulAlgoCheck");
  symbols.find(api.matmul, "cublasLtMatmul");
  api.missing = symbols.missing();
  return api;
}

template <typename Api>
std::optional<std::string> why_not_missing(const Api& api) {
  return api.missing.empty() ? std::nullopt : std::optional(api.missing);
}

// For `prepare`, which is called only where `why_not` found the library: throws where it is gone.
template <typename Api>
Api required(Api api) {
  if (!api.missing.empty()) {
    throw std::runtime_error(api.missing);
  }
  return api;
}

// 130100 is "13.1.0".
inline std::string version_text(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// ---- what both rivals ask of the library --------------------------------------------------------

// NVIDIA's recommendation for Hopper; for older ones it is 4 MiB (cuBLAS documentation,
// cublasSetWorkspace).
inline constexpr std::int64_t kCublasWorkspaceBytes = std::int64_t{32} << 20;

// fp32 is pedantic: neither TF32 nor a split into 16-bit parts may stand in for it.
inline cublasComputeType_t compute_type(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return CUBLAS_COMPUTE_32F_PEDANTIC;
    case Precision::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

inline cudaDataType_t data_type(Precision precision) {
  switch (stored_type(precision)) {
    case StoredType::kBf16:
      return CUDA_R_16BF;
    case StoredType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

// The latent (rows, rank) is kept in the stored type.
inline std::int64_t latent_bytes(const Problem& problem, Precision precision) {
  return problem.latent_count() * size_of(stored_type(precision));
}

inline Unit library_unit(Precision precision) {
  return precision == Precision::kFp32 ? Unit::kFma : Unit::kTensorCore;
}

// NVIDIA_TF32_OVERRIDE overrules what a program asks its libraries for: 0 forbids TF32, anything
// else may bring it in. Either would time another precision than the label's.
inline std::optional<std::string> why_not_overridden(Precision precision) {
  const char* const value = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (value == nullptr || stored_type(precision) != StoredType::kF32) {
    return std::nullopt;
  }
  const bool forbids = std::string_view(value) == "0";
  if (forbids == (precision == Precision::kFp32)) {
    return std::nullopt;
  }
  return "NVIDIA_TF32_OVERRIDE=" + std::string(value) +
         (forbids ? " keeps cuBLAS from TF32" : " may let cuBLAS round fp32 to TF32") +
         ": unset it";
}

}  // namespace mla_bench::cuda
