// cublaslt: the rival in the strongest form that NVIDIA's library has. The up-projections are one
// strided-batched product that writes k and v, and both products run the fastest of all algorithms
// that the library offers for them.
//
//                                                    w_up_k, w_up_v (2, R, H*D)
//   hidden (T, Dm) --matmul--> latent (T, R) --one batched matmul--> kv (2, T, H*D)
//                              in memory, read twice: batch stride 0
//
// Needs: sm_80, libcublasLt at run time. A fair rival, because kv[0] and kv[1] are each contiguous:
// the batched product writes both where they belong, and nothing is copied or packed. Limits: two
// launches, and the latent's way through memory. Not a rung of the ladder: what the other variants
// must beat.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cuda/cublas_library.hpp"
#include "cuda/device_memory.cuh"
#include "cuda/element.cuh"
#include "cuda/launch.cuh"
#include "cuda/stopwatch.cuh"

namespace mla_bench::cuda {
namespace {

// What every allocation of the runtime is aligned to, in bytes.
constexpr std::int64_t kAlignment = 256;

// What all launches of a cell share.
struct Library {
  CublasLtApi api;
  std::shared_ptr<cublasLtContext> handle;
  DeviceMemory workspace;

  void check(cublasStatus_t status, const char* call) const { throw_on_status(api, status, call); }
};

Library open_library_for_use() {
  Library library{.api = required(load_cublaslt()),
                  .handle = nullptr,
                  .workspace = device_memory(kCublasWorkspaceBytes)};
  cublasLtHandle_t handle = nullptr;
  library.check(library.api.create(&handle), "cublasLtCreate");
  library.handle.reset(handle,
                       [destroy = library.api.destroy](cublasLtHandle_t owned) { destroy(owned); });
  return library;
}

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
};

// ---- one product --------------------------------------------------------------------------------

// Shapes of target (rows, columns) = left (rows, depth) @ right (depth, columns), all row-major and
// contiguous; with a batch of two also the elements from the first right and target to the second.
// Both share left.
struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
  int batch = 1;
  std::int64_t right_stride = 0;
  std::int64_t target_stride = 0;
  std::int64_t target_alignment = kAlignment;  // bytes
};

class Product {
 public:
  // The library is column-major, so it sees each tensor transposed, and is asked for
  // target^T = right^T @ left^T.
  Product(const Library& library, const Shape& shape, Precision precision)
      : library_(library),
        shape_(shape),
        precision_(precision),
        product_(make_product()),
        right_(make_layout(shape.columns, shape.depth, shape.right_stride)),
        left_(make_layout(shape.depth, shape.rows, /*stride*/ 0)),
        target_(make_layout(shape.columns, shape.rows, shape.target_stride)) {}

  // All that the library's heuristic offers, the most promising first; none where it has none.
  std::vector<Algorithm> algorithms() const {
    constexpr int kMost = 64;
    const std::shared_ptr<cublasLtMatmulPreferenceOpaque_t> preference = make_preference();
    // Not a vector: its type has no name of its own, on which nvcc 13.0 stumbles.
    std::array<cublasLtMatmulHeuristicResult_t, kMost> results{};
    int count = 0;
    const cublasStatus_t status = library_.api.heuristic(
        library_.handle.get(), product_.get(), right_.get(), left_.get(), target_.get(),
        target_.get(), preference.get(), kMost, results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
      return {};
    }
    library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Algorithm> found;
    for (int i = 0; i < count; ++i) {
      if (results[i].state == CUBLAS_STATUS_SUCCESS) {
        found.push_back({results[i].algo, results[i].workspaceSize});
      }
    }
    return found;
  }

  bool takes(const Algorithm& algorithm) const {
    cublasLtMatmulHeuristicResult_t result{};
    return library_.api.check_algorithm(library_.handle.get(), product_.get(), right_.get(),
                                        left_.get(), target_.get(), target_.get(),
                                        &algorithm.algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kCublasWorkspaceBytes;
  }

  Product with_right_stride(std::int64_t elements) const {
    Shape shape = shape_;
    shape.right_stride = elements;
    return {library_, shape, precision_};
  }

  void run(const Algorithm& algorithm, const void* left, const void* right, void* target,
           Stream stream) const {
    constexpr float kOne = 1;
    constexpr float kZero = 0;
    library_.check(
        library_.api.matmul(library_.handle.get(), product_.get(), &kOne, right, right_.get(), left,
                            left_.get(), &kZero, target, target_.get(), target, target_.get(),
                            &algorithm.algorithm, library_.workspace.get(), kCublasWorkspaceBytes,
                            static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul");
  }

 private:
  std::shared_ptr<cublasLtMatmulDescOpaque_t> make_product() const {
    cublasLtMatmulDesc_t product = nullptr;
    library_.check(library_.api.create_product(&product, compute_type(precision_), CUDA_R_32F),
                   "cublasLtMatmulDescCreate");
    return {product, library_.api.destroy_product};
  }

  // A column-major matrix without gaps between its columns.
  std::shared_ptr<cublasLtMatrixLayoutOpaque_t> make_layout(std::int64_t rows, std::int64_t columns,
                                                            std::int64_t stride) const {
    cublasLtMatrixLayout_t created = nullptr;
    library_.check(library_.api.create_layout(&created, data_type(precision_),
                                              static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), /*ld*/ rows),
                   "cublasLtMatrixLayoutCreate");
    const std::shared_ptr<cublasLtMatrixLayoutOpaque_t> layout(created,
                                                               library_.api.destroy_layout);
    const std::int32_t batch = shape_.batch;
    const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      library_.check(library_.api.set_layout(created, attribute, &value, sizeof value),
                     "cublasLtMatrixLayoutSetAttribute");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
    return layout;
  }

  std::shared_ptr<cublasLtMatmulPreferenceOpaque_t> make_preference() const {
    cublasLtMatmulPreference_t created = nullptr;
    library_.check(library_.api.create_preference(&created), "cublasLtMatmulPreferenceCreate");
    const std::shared_ptr<cublasLtMatmulPreferenceOpaque_t> preference(
        created, library_.api.destroy_preference);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      library_.check(library_.api.set_preference(created, attribute, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        static_cast<std::uint64_t>(kCublasWorkspaceBytes));
    if (stored_type(precision_) != StoredType::kF32) {
      // Not those that add partial sums in the output's type: 16-bit sums stay in fp32.
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }
    // The library takes 256 bytes for granted.
    const auto target_alignment = static_cast<std::uint32_t>(shape_.target_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, target_alignment);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, target_alignment);
    return preference;
  }

  Library library_;
  Shape shape_;
  Precision precision_;
  std::shared_ptr<cublasLtMatmulDescOpaque_t> product_;
  std::shared_ptr<cublasLtMatrixLayoutOpaque_t> right_;
  std::shared_ptr<cublasLtMatrixLayoutOpaque_t> left_;
  std::shared_ptr<cublasLtMatrixLayoutOpaque_t> target_;
};

// ---- the operator as two or three products ------------------------------------------------------

// Bytes from w_up_k to w_up_v in the operands to search with: neighbours, as those of the tool are.
std::int64_t weight_pitch(const Problem& problem, StoredType type) {
  return round_up(problem.up_count() * size_of(type), kAlignment);
}

struct Products {
  Problem problem;
  StoredType type;
  Product down;
  Product both;  // k and v
  Product one;   // k or v

  Products(const Library& library, const Problem& p, Precision precision)
      : problem(p),
        type(stored_type(precision)),
        down(library, {.rows = p.rows(), .columns = p.rank, .depth = p.model_dim}, precision),
        both(library,
             {.rows = p.rows(),
              .columns = p.columns(),
              .depth = p.rank,
              .batch = 2,
              .right_stride = weight_pitch(p, type) / size_of(type),
              .target_stride = p.rows() * p.columns(),
              .target_alignment = alignment_of_v()},
             precision),
        one(library,
            {.rows = p.rows(),
             .columns = p.columns(),
             .depth = p.rank,
             .target_alignment = alignment_of_v()},
            precision) {}

  std::int64_t bytes_of_k() const { return problem.rows() * problem.columns() * size_of(type); }
  // It begins where k ends.
  std::int64_t alignment_of_v() const { return std::gcd(kAlignment, bytes_of_k()); }

  // A batch has one stride, so it takes two weights of which the second lies behind the first. Not
  // every two pointers are such: then k and v are products of their own.
  std::optional<Product> both_for(const Operands& operands) const {
    const auto first = reinterpret_cast<std::uintptr_t>(operands.w_up_k);
    const auto second = reinterpret_cast<std::uintptr_t>(operands.w_up_v);
    // The largest stride of a tensor map, through which Hopper's kernels load.
    constexpr std::uintptr_t kFarthest = std::uintptr_t{1} << 40;
    if (second <= first || second - first >= kFarthest || (second - first) % kAlignment != 0) {
      return std::nullopt;
    }
    return both.with_right_stride(static_cast<std::int64_t>(second - first) / size_of(type));
  }
};

// The algorithms that run. `both` is empty where two products were faster than one batched one.
struct Chosen {
  Algorithm down;
  std::optional<Algorithm> both;
  Algorithm one;
};

// Its launches refer to it: whoever holds one holds it too.
struct Rival {
  Products products;
  Chosen chosen;
  DeviceMemory latent;  // (rows, rank)

  Launch down(const Algorithm& algorithm, const Operands& operands) const {
    return [this, algorithm, operands](Stream stream) {
      products.down.run(algorithm, operands.hidden, operands.w_down, latent.get(), stream);
    };
  }

  Launch up_both(const Product& both, const Algorithm& algorithm, const Operands& operands) const {
    return [this, both, algorithm, operands](Stream stream) {
      both.run(algorithm, latent.get(), operands.w_up_k, operands.kv, stream);
    };
  }

  Launch up_one_by_one(const Algorithm& algorithm, const Operands& operands) const {
    void* const v = static_cast<std::byte*>(operands.kv) + products.bytes_of_k();
    return [this, v, algorithm, operands](Stream stream) {
      products.one.run(algorithm, latent.get(), operands.w_up_k, operands.kv, stream);
      products.one.run(algorithm, latent.get(), operands.w_up_v, v, stream);
    };
  }

  Launch up(const Operands& operands) const {
    if (chosen.both) {
      const std::optional<Product> both = products.both_for(operands);
      if (both && both->takes(*chosen.both)) {
        return up_both(*both, *chosen.both, operands);
      }
    }
    return up_one_by_one(chosen.one, operands);
  }
};

Launch one_after_the_other(Launch first, Launch second) {
  return [first = std::move(first), second = std::move(second)](Stream stream) {
    first(stream);
    second(stream);
  };
}

// ---- the search ---------------------------------------------------------------------------------

// Numbers in [-1, 1) that differ from element to element: zeros would draw less power and let the
// clock rise.
template <typename T>
__global__ void fill_kernel(T* target, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    auto bits = static_cast<std::uint32_t>(i) * 0x9E3779B9u;  // Fibonacci hashing
    bits = (bits ^ (bits >> 15)) * 0x85EBCA6Bu;
    target[i] = narrow<T>(static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-31f);
  }
}

std::int64_t scratch_bytes(const Problem& problem, StoredType type) {
  const auto room = [&](std::int64_t count) { return round_up(count * size_of(type), kAlignment); };
  return room(problem.hidden_count()) + room(problem.down_count()) +
         2 * weight_pitch(problem, type) + room(problem.kv_count());
}

// Operands to search with.
class Scratch {
 public:
  Scratch(const Problem& problem, StoredType type, cudaStream_t stream)
      : memory_(device_memory(scratch_bytes(problem, type))) {
    constexpr int kBlocks = 1024;
    constexpr int kThreads = 256;
    with_element(type, [&]<typename T>(T) {
      fill_kernel<<<kBlocks, kThreads, 0, stream>>>(
          reinterpret_cast<T*>(memory_.get()),
          scratch_bytes(problem, type) / static_cast<std::int64_t>(sizeof(T)));
    });
    MLA_BENCH_CHECK(cudaGetLastError());
    std::byte* next = memory_.get();
    const auto take = [&](std::int64_t count) {
      return std::exchange(next, next + round_up(count * size_of(type), kAlignment));
    };
    operands_.hidden = take(problem.hidden_count());
    operands_.w_down = take(problem.down_count());
    operands_.w_up_k = take(problem.up_count());
    operands_.w_up_v = take(problem.up_count());
    operands_.kv = take(problem.kv_count());
  }

  const Operands& operands() const { return operands_; }

 private:
  DeviceMemory memory_;
  Operands operands_;
};

struct Fastest {
  std::size_t index = 0;
  double ns = std::numeric_limits<double>::infinity();
};

// The fastest of the launches that `make` gives for the algorithms, each by its own measured time.
// Those near the least are timed again, since the clock may have risen meanwhile; of equals the
// heuristic's favourite wins, so that noise does not change the choice.
template <typename Make>
Fastest fastest(const Stopwatch& stopwatch, const std::vector<Algorithm>& algorithms,
                const Make& make) {
  // The three searches of a cell together then take about a second at most. A slow product leaves
  // out the algorithms of which the heuristic thinks least; where something slows every launch a
  // thousandfold, as compute-sanitizer does, there is nothing to find out.
  constexpr std::chrono::milliseconds kFirstPass{250};
  constexpr std::chrono::milliseconds kSecondPass{100};
  constexpr std::size_t kFewest = 4;
  constexpr std::chrono::seconds kLongest{2};
  constexpr double kNear = 1.05;
  constexpr double kEqual = 1.005;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  using Clock = std::chrono::steady_clock;

  double least = kNever;
  const auto measure = [&](const Algorithm& algorithm) {
    double ns = kNever;
    try {
      ns = stopwatch.period_ns(make(algorithm), least);
    } catch (const CublasError&) {
      // Offered, and yet refused at the launch: it is not among the candidates.
    }
    least = std::min(least, ns);
    return ns;
  };
  std::vector<double> times;
  const Clock::time_point first = Clock::now();
  for (const Algorithm& algorithm : algorithms) {
    const Clock::duration spent = Clock::now() - first;
    const bool has_choice = times.size() >= kFewest && spent > kFirstPass;
    if (has_choice || (least < kNever && spent > kLongest)) {
      break;
    }
    times.push_back(measure(algorithm));
  }
  const double near = kNear * least;
  const Clock::time_point second = Clock::now();
  for (std::size_t i = 0; i < times.size() && Clock::now() - second < kSecondPass; ++i) {
    if (times.size() > 1 && times[i] <= near) {
      times[i] = std::min(times[i], measure(algorithms[i]));
    }
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i] <= kEqual * least) {
      return {.index = i, .ns = times[i]};
    }
  }
  return {};
}

// The algorithms of one product, of which at least one must exist.
std::vector<Algorithm> required_algorithms(const Product& product, const char* name) {
  std::vector<Algorithm> found = product.algorithms();
  if (found.empty()) {
    throw std::runtime_error(std::string("cuBLASLt offers no algorithm for the ") + name +
                             "-projection of this shape and precision");
  }
  return found;
}

std::string rank_of(const Fastest& fastest, const std::vector<Algorithm>& algorithms) {
  return "algorithm " + std::to_string(fastest.index + 1) + " of " +
         std::to_string(algorithms.size());
}

// Chooses the algorithms in `rival` and says which. Every candidate is timed as it will run, down
// and up in turn, since neighbours share the cache and overlap at their ends: first those for up
// with the heuristic's favourite for down, then those for down with the best for up.
std::string search(Rival& rival) {
  const Products& products = rival.products;
  const Stopwatch stopwatch;
  const Scratch scratch(products.problem, products.type, stopwatch.stream());
  const Operands& operands = scratch.operands();
  const std::vector<Algorithm> downs = required_algorithms(products.down, "down");
  const std::vector<Algorithm> ones = required_algorithms(products.one, "up");
  const std::vector<Algorithm> boths = products.both.algorithms();

  const auto after_down = [&](Launch up) {
    return one_after_the_other(rival.down(downs.front(), operands), std::move(up));
  };
  const Fastest one = fastest(stopwatch, ones, [&](const Algorithm& algorithm) {
    return after_down(rival.up_one_by_one(algorithm, operands));
  });
  const Fastest both = fastest(stopwatch, boths, [&](const Algorithm& algorithm) {
    return after_down(rival.up_both(products.both, algorithm, operands));
  });
  rival.chosen.one = ones[one.index];
  const bool batched =
      both.ns <= one.ns && !boths.empty() && products.both.takes(boths[both.index]);
  if (batched) {
    rival.chosen.both = boths[both.index];
  }
  const Launch up = rival.up(operands);
  const Fastest down = fastest(stopwatch, downs, [&](const Algorithm& algorithm) {
    return one_after_the_other(rival.down(algorithm, operands), up);
  });
  rival.chosen.down = downs[down.index];

  const std::size_t workspace =
      std::max(rival.chosen.down.workspace_bytes,
               (batched ? *rival.chosen.both : rival.chosen.one).workspace_bytes);
  return "down: " + rank_of(down, downs) + ", up: " +
         (batched ? rank_of(both, boths) + " for k and v at once"
                  : rank_of(one, ones) + " for k and v in turn") +
         ", workspace " + std::to_string(ceil_div(static_cast<std::int64_t>(workspace), 1024)) +
         " KiB";
}

// ---- the variant --------------------------------------------------------------------------------

// With what the search needs and gives back. A problem that no device holds saturates.
std::int64_t workspace_bytes(const Problem& problem, Precision precision, const Device&) {
  constexpr double kMost = 0x1p60;
  const StoredType type = stored_type(precision);
  if (problem.compulsory_elements() * static_cast<double>(size_of(type)) > kMost) {
    return static_cast<std::int64_t>(kMost);
  }
  return latent_bytes(problem, precision) + kCublasWorkspaceBytes + scratch_bytes(problem, type);
}

std::optional<std::string> why_not(const Problem&, Precision precision, const Device& device) {
  if (auto reason = why_not_so_old(device)) {
    return reason;
  }
  if (auto reason = why_not_overridden(precision)) {
    return reason;
  }
  return why_not_missing(load_cublaslt());
}

Prepared prepare(const Problem& problem, Precision precision, const Device&) {
  const Library library = open_library_for_use();
  const auto rival =
      std::make_shared<Rival>(Rival{.products = Products(library, problem, precision),
                                    .chosen = {},
                                    .latent = device_memory(latent_bytes(problem, precision))});
  const std::string found = search(*rival);
  return {.choice = "cuBLASLt " + version_text(library.api.version()) + ", " + found,
          .bind = [rival](const Operands& operands) -> Launch {
            return [rival, run = one_after_the_other(rival->down(rival->chosen.down, operands),
                                                     rival->up(operands))](Stream stream) {
              run(stream);
            };
          }};
}

}  // namespace

extern const Variant cublaslt;
constinit const Variant cublaslt{
    .name = "cublaslt",
    .summary = "cuBLASLt: down, then k and v by one batched product; the best of its algorithms",
    .backend = Backend::kCuda,
    .unit = library_unit,
    .executed_flops = credited_flops,
    .workspace_bytes = workspace_bytes,
    .why_not = why_not,
    .prepare = prepare,
};

}  // namespace mla_bench::cuda
