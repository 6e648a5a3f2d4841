#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "mla_bench/cuda_check.hpp"
#include "probes.hpp"
#include "statistics.hpp"

namespace mla_bench {
namespace {

constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;

dim3 to_dim3(const Extent3& extent) {
  return dim3(static_cast<unsigned>(extent.x), static_cast<unsigned>(extent.y),
              static_cast<unsigned>(extent.z));
}

__global__ void empty_kernel() {}

__global__ void spin_kernel(std::int64_t cycles) {
  const std::int64_t start = clock64();
  while (clock64() - start < cycles) {
  }
}

// ---- touch and copy
// --------------------------------------------------------------------------------

struct Span {
  const std::byte* data;
  std::int64_t bytes;
};

struct TouchArguments {
  Span inputs[4];
  std::byte* output;
  std::int64_t output_bytes;
};

// A load that is made though nobody needs its value.
__device__ int4 load(const int4* address) {
  int4 value;
  asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

// Stores first and loads without waiting for one another: only the traffic is to be timed.
__global__ void __launch_bounds__(kThreads) touch_kernel(const TouchArguments arguments) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t out_vectors = arguments.output_bytes / kVectorBytes;
  for (std::int64_t i = thread; i < out_vectors; i += threads) {
    reinterpret_cast<int4*>(arguments.output)[i] = make_int4(1, 2, 3, 4);
  }
  for (std::int64_t i = out_vectors * kVectorBytes + thread; i < arguments.output_bytes;
       i += threads) {
    arguments.output[i] = std::byte{1};
  }
#pragma unroll
  for (const Span& input : arguments.inputs) {
    const std::int64_t vectors = input.bytes / kVectorBytes;
#pragma unroll 4
    for (std::int64_t i = thread; i < vectors; i += threads) {
      load(reinterpret_cast<const int4*>(input.data) + i);
    }
    for (std::int64_t i = vectors * kVectorBytes + thread; i < input.bytes; i += threads) {
      asm volatile("" ::"r"(static_cast<int>(input.data[i])));
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    copy_kernel(int4* __restrict__ to, const int4* __restrict__ from, std::int64_t vectors) {
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < vectors;
       i += threads) {
    to[i] = from[i];
  }
}

// ---- clocks
// ----------------------------------------------------------------------------------------

__global__ void clock_kernel(ClockSample* samples) {
  if (threadIdx.x == 0) {
    unsigned sm = 0;
    std::int64_t ns = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    if (sm < gridDim.x) {  // SM numbers may have holes
      samples[sm] = {.cycles = clock64(), .ns = ns};
    }
  }
}

// ---- arithmetic
// ------------------------------------------------------------------------------------

// Enough that the launch ramp (about 1 us) is below a percent of the kernel.
constexpr int kFmaSteps = 4096;
constexpr int kFmaChains =
    8;  // hides the 4-cycle latency with 8 warps on each scheduler many times over
constexpr int kFmaBlocksPerSm = 8;

__global__ void __launch_bounds__(kThreads) fma_kernel(float seed, float* sink) {
  float chain[kFmaChains];
  for (int i = 0; i < kFmaChains; ++i) {
    chain[i] = seed + static_cast<float>(threadIdx.x + i);
  }
#pragma unroll 8
  for (int step = 0; step < kFmaSteps; ++step) {
#pragma unroll
    for (int i = 0; i < kFmaChains; ++i) {
      chain[i] = fmaf(chain[i], seed, 0.5f);
    }
  }
  float sum = 0;
  for (int i = 0; i < kFmaChains; ++i) {
    sum += chain[i];
  }
  if (sum == 0.25f) {  // never, but the compiler cannot know
    *sink = sum;
  }
}

constexpr int kMmaSteps = 4096;
constexpr int kMmaChains = 4;
constexpr int kMmaBlocksPerSm = 4;

// One warp-wide product with both operands' bits as given: m16n8k8 TF32, or m16n8k16 BF16 or FP16.
template <Precision kPrecision>
__device__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (kPrecision == Precision::kTf32) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (kPrecision == Precision::kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// Depth of one product and its FLOPs: 2 * 16 * 8 * depth.
constexpr int mma_depth(Precision precision) {
  return precision == Precision::kTf32 ? 8 : 16;
}

// Random bits whose exponents are near one in every format: no infinities, no subnormals, no zeros,
// since the power that operands draw limits the clock.
template <Precision kPrecision>
__device__ unsigned random_operand(unsigned& state) {
  state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
  if constexpr (kPrecision == Precision::kTf32) {
    return (state & 0x807fffffu) | 0x3f000000u;
  } else if constexpr (kPrecision == Precision::kBf16) {
    return (state & 0x807f807fu) | 0x3f003f00u;
  } else {
    return (state & 0x83ff83ffu) | 0x38003800u;
  }
}

template <Precision kPrecision>
__global__ void __launch_bounds__(kThreads) mma_kernel(unsigned seed, float* sink) {
  unsigned state = seed + threadIdx.x * 747796405u + blockIdx.x * 2891336453u;
  unsigned a[4];
  unsigned b[2];
  for (unsigned& word : a) {
    word = random_operand<kPrecision>(state);
  }
  for (unsigned& word : b) {
    word = random_operand<kPrecision>(state);
  }
  float c[kMmaChains][4] = {};
#pragma unroll 4
  for (int step = 0; step < kMmaSteps; ++step) {
#pragma unroll
    for (int chain = 0; chain < kMmaChains; ++chain) {
      mma<kPrecision>(c[chain], a, b);
    }
  }
  float sum = 0;
  for (int chain = 0; chain < kMmaChains; ++chain) {
    sum += c[chain][0] + c[chain][1] + c[chain][2] + c[chain][3];
  }
  if (sum == 0.25f) {
    *sink = sum;
  }
}

// wgmma m64n128: both operands from shared memory, which feeds one such product in less time than
// it takes. Two warpgroups an SM, each with its own accumulators.
constexpr int kWgmmaSteps = 2048;
constexpr int kWgmmaThreads = 256;
constexpr int kWgmmaRows = 64;
constexpr int kWgmmaColumns = 128;
[[maybe_unused]] constexpr int kWgmmaAccumulators = kWgmmaRows * kWgmmaColumns / 128;  // a thread
[[maybe_unused]] constexpr int kWgmmaBatch = 4;       // products between two waits
[[maybe_unused]] constexpr int kWgmmaDepthWords = 8;  // 16 elements of two bytes, or 8 of four

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// The accumulators as an operand list, and the places of it in the instruction.
#define MLA_BENCH_C8(n)                                                                       \
  "+f"(c[n]), "+f"(c[n + 1]), "+f"(c[n + 2]), "+f"(c[n + 3]), "+f"(c[n + 4]), "+f"(c[n + 5]), \
      "+f"(c[n + 6]), "+f"(c[n + 7])
#define MLA_BENCH_C64                                                                     \
  MLA_BENCH_C8(0), MLA_BENCH_C8(8), MLA_BENCH_C8(16), MLA_BENCH_C8(24), MLA_BENCH_C8(32), \
      MLA_BENCH_C8(40), MLA_BENCH_C8(48), MLA_BENCH_C8(56)
#define MLA_BENCH_PLACES                                                                     \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"  \
  "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45," \
  "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1"

template <Precision kPrecision>
__device__ void wgmma(float (&c)[kWgmmaAccumulators], std::uint64_t a, std::uint64_t b) {
  if constexpr (kPrecision == Precision::kTf32) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 " MLA_BENCH_PLACES ";"
                 : MLA_BENCH_C64
                 : "l"(a), "l"(b));
  } else if constexpr (kPrecision == Precision::kBf16) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " MLA_BENCH_PLACES ", 0, 0;"
                 : MLA_BENCH_C64
                 : "l"(a), "l"(b));
  } else {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " MLA_BENCH_PLACES ", 0, 0;"
                 : MLA_BENCH_C64
                 : "l"(a), "l"(b));
  }
}

// A shared-memory matrix descriptor without swizzle: core matrices of 8x16 bytes, 128 bytes apart
// along K and 256 along M or N (PTX ISA, "Matrix descriptor format"). The values are random, so
// which element is where does not matter, only that all are read.
__device__ std::uint64_t descriptor(const void* data) {
  const auto address = static_cast<std::uint64_t>(__cvta_generic_to_shared(data));
  constexpr std::uint64_t kLeading = 128;
  constexpr std::uint64_t kStride = 256;
  return ((address & 0x3ffff) >> 4) | ((kLeading >> 4) << 16) | ((kStride >> 4) << 32);
}
#endif

template <Precision kPrecision>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    wgmma_kernel([[maybe_unused]] unsigned seed, [[maybe_unused]] float* sink) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ alignas(128) unsigned a[kWgmmaRows * kWgmmaDepthWords];
  __shared__ alignas(128) unsigned b[kWgmmaColumns * kWgmmaDepthWords];
  unsigned state = seed + threadIdx.x * 747796405u + blockIdx.x * 2891336453u;
  for (int i = threadIdx.x; i < kWgmmaRows * kWgmmaDepthWords; i += kWgmmaThreads) {
    a[i] = random_operand<kPrecision>(state);
  }
  for (int i = threadIdx.x; i < kWgmmaColumns * kWgmmaDepthWords; i += kWgmmaThreads) {
    b[i] = random_operand<kPrecision>(state);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads by the async proxy
  __syncthreads();                                              // operands are whole
  float c[kWgmmaAccumulators];
#pragma unroll
  for (int i = 0; i < kWgmmaAccumulators; ++i) {
    c[i] = 0;
  }
  const std::uint64_t a_descriptor = descriptor(a);
  const std::uint64_t b_descriptor = descriptor(b);
  for (int step = 0; step < kWgmmaSteps; step += kWgmmaBatch) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kWgmmaBatch; ++i) {
      wgmma<kPrecision>(c, a_descriptor, b_descriptor);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWgmmaAccumulators; ++i) {
    sum += c[i];
  }
  if (sum == 0.25f) {  // never, but the compiler cannot know
    *sink = sum;
  }
#endif
}

template <Precision kPrecision>
Workload make_tensor_probe(const Device& device) {
  constexpr unsigned kSeed = 20231;
  const auto sms = static_cast<unsigned>(device.multiprocessors);
  if (device.sm == 90) {
    const double products = 2.0 * sms * kWgmmaSteps;  // two warpgroups a block
    const double flops = 2.0 * kWgmmaRows * kWgmmaColumns * mma_depth(kPrecision);
    return {.launch =
                [sms](Stream stream) {
                  wgmma_kernel<kPrecision>
                      <<<sms, kWgmmaThreads, 0, static_cast<cudaStream_t>(stream)>>>(kSeed,
                                                                                     nullptr);
                  MLA_BENCH_CHECK(cudaGetLastError());
                },
            .amount = products * flops};
  }
  const double products =
      static_cast<double>(sms) * kMmaBlocksPerSm * (kThreads / 32) * kMmaSteps * kMmaChains;
  const double flops = 2.0 * 16 * 8 * mma_depth(kPrecision);
  return {.launch =
              [sms](Stream stream) {
                mma_kernel<kPrecision>
                    <<<sms * kMmaBlocksPerSm, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
                        kSeed, nullptr);
                MLA_BENCH_CHECK(cudaGetLastError());
              },
          .amount = products * flops};
}

}  // namespace

Launch empty_launch(std::span<const KernelFacts> kernels) {
  std::vector<KernelFacts> shapes(kernels.begin(), kernels.end());
  // All that the device has: a limit by the need of one shape would forbid another, larger one.
  int device = 0;
  int limit = 0;
  MLA_BENCH_CHECK(cudaGetDevice(&device));
  MLA_BENCH_CHECK(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  MLA_BENCH_CHECK(
      cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit));
  return [shapes](Stream stream) {
    for (const KernelFacts& shape : shapes) {
      cudaLaunchAttribute cluster = {};
      cluster.id = cudaLaunchAttributeClusterDimension;
      const dim3 size = to_dim3(shape.cluster);
      cluster.val.clusterDim = {size.x, size.y, size.z};
      cudaLaunchConfig_t config = {};
      config.gridDim = to_dim3(shape.grid);
      config.blockDim = to_dim3(shape.block);
      config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
      config.stream = static_cast<cudaStream_t>(stream);
      config.attrs = &cluster;
      config.numAttrs = size.x * size.y * size.z > 1 ? 1 : 0;
      MLA_BENCH_CHECK(cudaLaunchKernelEx(&config, empty_kernel));
    }
  };
}

Launch touch_launch(const Problem& problem, StoredType type, const Operands& operands,
                    const Device& device) {
  const auto span = [type](const void* data, std::int64_t count) {
    return Span{static_cast<const std::byte*>(data), count * size_of(type)};
  };
  const TouchArguments arguments{.inputs = {span(operands.hidden, problem.hidden_count()),
                                            span(operands.w_down, problem.down_count()),
                                            span(operands.w_up_k, problem.up_count()),
                                            span(operands.w_up_v, problem.up_count())},
                                 .output = static_cast<std::byte*>(operands.kv),
                                 .output_bytes = problem.kv_count() * size_of(type)};
  // A block for each SM where the tensors are small, since blocks cost launch time, and up to eight
  // where they are large.
  constexpr int kBlocksPerSm = 8;
  const std::int64_t largest = std::max(arguments.output_bytes, arguments.inputs[0].bytes);
  const std::int64_t wanted = (largest / kVectorBytes + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(
      wanted, device.multiprocessors, kBlocksPerSm * device.multiprocessors));
  return [arguments, blocks](Stream stream) {
    touch_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

Launch spin_launch(double ns, const Device& device) {
  constexpr double kNsPerUs = 1000;
  const auto cycles = static_cast<std::int64_t>(ns * device.clock_mhz / kNsPerUs);
  return [cycles](Stream stream) {
    spin_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(cycles);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

Launch clock_launch(ClockSample* samples, const Device& device) {
  const auto blocks = static_cast<unsigned>(device.multiprocessors);
  return [=](Stream stream) {
    clock_kernel<<<blocks, 32, 0, static_cast<cudaStream_t>(stream)>>>(samples);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
}

double clock_mhz(std::span<const ClockSample> before, std::span<const ClockSample> after) {
  std::vector<double> mhz;
  for (std::size_t sm = 0; sm < std::min(before.size(), after.size()); ++sm) {
    const std::int64_t ns = after[sm].ns - before[sm].ns;
    const std::int64_t cycles = after[sm].cycles - before[sm].cycles;
    if (before[sm].ns > 0 && ns > 0 && cycles > 0) {
      constexpr double kMhzPerCyclePerNs = 1000;
      mhz.push_back(static_cast<double>(cycles) / static_cast<double>(ns) * kMhzPerCyclePerNs);
    }
  }
  return mhz.empty() ? 0 : median(mhz);
}

Workload copy_probe(std::byte* to, const std::byte* from, std::int64_t bytes,
                    const Device& device) {
  constexpr int kBlocksPerSm = 8;
  const auto blocks = static_cast<unsigned>(kBlocksPerSm * device.multiprocessors);
  const auto copy = [=](Stream stream) {
    copy_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        reinterpret_cast<int4*>(to), reinterpret_cast<const int4*>(from), bytes / kVectorBytes);
    MLA_BENCH_CHECK(cudaGetLastError());
  };
  return {.launch = copy, .amount = 2.0 * static_cast<double>(bytes)};
}

Workload fma_probe(const Device& device) {
  const auto blocks = static_cast<unsigned>(kFmaBlocksPerSm * device.multiprocessors);
  return {.launch =
              [blocks](Stream stream) {
                fma_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(0.999f,
                                                                                       nullptr);
                MLA_BENCH_CHECK(cudaGetLastError());
              },
          .amount = 2.0 * blocks * kThreads * kFmaSteps * kFmaChains};
}

Workload tensor_probe(Precision precision, const Device& device) {
  switch (precision) {
    case Precision::kBf16:
      return make_tensor_probe<Precision::kBf16>(device);
    case Precision::kFp16:
      return make_tensor_probe<Precision::kFp16>(device);
    default:
      return make_tensor_probe<Precision::kTf32>(device);
  }
}

}  // namespace mla_bench
