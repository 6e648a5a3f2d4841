// cublas: the rival as most programs call it, three matrix products by cuBLAS with the algorithms
// that it picks itself.
//
//   hidden (T, Dm) --gemm--> latent (T, R) --gemm--> kv[0] = k (T, H*D)
//                            in memory     --gemm--> kv[1] = v (T, H*D)
//
// Needs: sm_80, libcublas at run time. A fair rival, because k and v go straight into their halves
// of kv, which are contiguous: no copy stacks them afterwards. Limits: three launches, and the
// latent's way through memory. Not a rung of the ladder: what the other variants are measured
// against.

#include <cstdint>
#include <memory>

#include "cuda/cublas_library.hpp"
#include "cuda/device_memory.cuh"
#include "cuda/launch.cuh"

namespace mla_bench::cuda {
namespace {

// What all launches of a cell share.
struct Rival {
  CublasApi api;
  std::shared_ptr<cublasContext> handle;
  DeviceMemory workspace;
  DeviceMemory latent;  // (rows, rank)
  Problem problem;
  Precision precision;

  void check(cublasStatus_t status, const char* call) const { throw_on_status(api, status, call); }

  // target (rows, columns) = left (rows, depth) @ right (depth, columns), all row-major and
  // contiguous. The library is column-major, so it sees each of them transposed, and is asked for
  // target^T = right^T @ left^T.
  void multiply(std::int64_t columns, std::int64_t depth, const void* left, const void* right,
                void* target) const {
    constexpr float kOne = 1;
    constexpr float kZero = 0;
    const cudaDataType_t type = data_type(precision);
    check(api.gemm(handle.get(), CUBLAS_OP_N, CUBLAS_OP_N, columns, problem.rows(), depth, &kOne,
                   right, type, columns, left, type, depth, &kZero, target, type, columns,
                   compute_type(precision), CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx_64");
  }

  void run(const Operands& operands, Stream stream) const {
    // In this order: a new stream takes the workspace away.
    check(api.set_stream(handle.get(), static_cast<cudaStream_t>(stream)), "cublasSetStream");
    check(api.set_workspace(handle.get(), workspace.get(), kCublasWorkspaceBytes),
          "cublasSetWorkspace");
    const std::int64_t columns = problem.columns();
    std::byte* const k = static_cast<std::byte*>(operands.kv);
    std::byte* const v = k + problem.rows() * columns * size_of(stored_type(precision));
    multiply(problem.rank, problem.model_dim, operands.hidden, operands.w_down, latent.get());
    multiply(columns, problem.rank, latent.get(), operands.w_up_k, k);
    multiply(columns, problem.rank, latent.get(), operands.w_up_v, v);
  }
};

std::int64_t workspace_bytes(const Problem& problem, Precision precision, const Device&) {
  return latent_bytes(problem, precision) + kCublasWorkspaceBytes;
}

// The math mode goes with the compute type: it also keeps 16-bit sums in fp32 where a product is
// split along its depth.
cublasMath_t math_mode(Precision precision) {
  return precision == Precision::kFp32
             ? CUBLAS_PEDANTIC_MATH
             : static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                         CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

std::optional<std::string> why_not(const Problem&, Precision precision, const Device& device) {
  if (auto reason = why_not_so_old(device)) {
    return reason;
  }
  if (auto reason = why_not_overridden(precision)) {
    return reason;
  }
  return why_not_missing(load_cublas());
}

Prepared prepare(const Problem& problem, Precision precision, const Device&) {
  const auto rival = std::make_shared<Rival>(Rival{
      .api = required(load_cublas()),
      .handle = nullptr,
      .workspace = device_memory(kCublasWorkspaceBytes),
      .latent = device_memory(latent_bytes(problem, precision)),
      .problem = problem,
      .precision = precision,
  });
  const CublasApi& api = rival->api;
  cublasHandle_t handle = nullptr;
  rival->check(api.create(&handle), "cublasCreate");
  rival->handle.reset(handle, [destroy = api.destroy](cublasHandle_t owned) { destroy(owned); });
  rival->check(api.set_math_mode(handle, math_mode(precision)), "cublasSetMathMode");
  int version = 0;
  rival->check(api.version(handle, &version), "cublasGetVersion");
  return {.choice = "cuBLAS " + version_text(static_cast<std::size_t>(version)) +
                    ", the algorithms that it picks, workspace " +
                    std::to_string(kCublasWorkspaceBytes >> 20) + " MiB",
          .bind = [rival](const Operands& operands) -> Launch {
            return [rival, operands](Stream stream) { rival->run(operands, stream); };
          }};
}

}  // namespace

extern const Variant cublas;
constinit const Variant cublas{
    .name = "cublas",
    .summary = "cuBLAS: down, then k and v straight into kv",
    .backend = Backend::kCuda,
    .unit = library_unit,
    .executed_flops = credited_flops,
    .workspace_bytes = workspace_bytes,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
