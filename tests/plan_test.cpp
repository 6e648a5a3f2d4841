// Plans on machines made by hand: which cells, in which order, and why some are left out.
#include "plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "errors.hpp"

namespace mla_bench {
namespace {

using Words = std::vector<std::string>;

// ---- variants -----------------------------------------------------------------------------------

Unit unit(Precision) {
  return Unit::kFma;
}

double credited_flops(const Problem& problem) {
  return problem.flops();
}

// As `naive` works: each element of kv computes its row of the latent anew.
double naive_flops(const Problem& problem) {
  return 2.0 * static_cast<double>(problem.kv_count()) * static_cast<double>(problem.rank) *
         (static_cast<double>(problem.model_dim) + 1);
}

std::int64_t no_workspace(const Problem&, Precision, const Device&) {
  return 0;
}

std::int64_t gibibyte(const Problem&, Precision, const Device&) {
  return std::int64_t{1} << 30;
}

std::optional<std::string> can(const Problem&, Precision, const Device&) {
  return std::nullopt;
}

std::optional<std::string> needs_ampere(const Problem&, Precision, const Device& device) {
  return device.sm < 80
             ? std::optional("needs sm_80, this device is sm_" + std::to_string(device.sm))
             : std::nullopt;
}

Prepared never_prepared(const Problem&, Precision, const Device&) {
  throw std::logic_error("a plan prepares nothing");
}

constexpr Variant variant(std::string_view name, Backend backend) {
  return {.name = name,
          .summary = "",
          .backend = backend,
          .unit = unit,
          .executed_flops = credited_flops,
          .workspace_bytes = no_workspace,
          .why_not = can,
          .prepare = never_prepared};
}

constexpr Variant naive(Backend backend) {
  Variant made = variant("naive", backend);
  made.executed_flops = naive_flops;
  return made;
}

constexpr Variant tensor_core() {
  Variant made = variant("tensor_core", Backend::kCuda);
  made.why_not = needs_ampere;
  return made;
}

constexpr Variant kNaiveCuda = naive(Backend::kCuda);
constexpr Variant kNaiveCpu = naive(Backend::kCpu);
constexpr Variant kTiledCuda = variant("tiled", Backend::kCuda);
constexpr Variant kTiledCpu = variant("tiled", Backend::kCpu);
constexpr Variant kTensorCore = tensor_core();

constexpr std::array kRegistry{
    Listed{"naive", Backend::kCuda, &kNaiveCuda, ""},
    Listed{"naive", Backend::kCpu, &kNaiveCpu, ""},
    Listed{"tiled", Backend::kCuda, &kTiledCuda, ""},
    Listed{"tiled", Backend::kCpu, &kTiledCpu, ""},
    Listed{"tensor_core", Backend::kCuda, &kTensorCore, ""},
    Listed{"blas", Backend::kCpu, nullptr, "this build has no OpenBLAS"},
};

// ---- machines -----------------------------------------------------------------------------------

Device h200(int ordinal) {
  return {.backend = Backend::kCuda,
          .ordinal = ordinal,
          .name = "NVIDIA H200",
          .uuid = "GPU-" + std::to_string(ordinal),
          .sm = 90,
          .multiprocessors = 132,
          .clock_mhz = 1980,
          .shared_memory_per_block = 232448,
          .shared_memory_per_sm = 233472,
          .last_level_cache = 62914560,
          .memory = 150'000'000'000};
}

Device cpu() {
  return {.backend = Backend::kCpu,
          .name = "Some CPU",
          .uuid = "Some CPU",
          .clock_mhz = 3000,
          .threads = 2,
          .last_level_cache = 32 << 20,
          .memory = 64'000'000'000,
          .free_memory = 60'000'000'000};
}

DeviceList machine(const std::vector<Device>& devices, const std::string& no_cuda) {
  DeviceList list;
  list.devices = devices;
  list.no_cuda = no_cuda;
  return list;
}

const DeviceList kOneGpu = machine({h200(0), cpu()}, "");
const DeviceList kTwoGpus = machine({h200(0), h200(1), cpu()}, "");
const DeviceList kNoGpu = machine({cpu()}, "this machine has no NVIDIA driver");

DeviceRequest request(DeviceRequest::Kind kind, int ordinal = 0) {
  return {.kind = kind, .ordinal = ordinal};
}

DeviceRequest by_uuid(const std::string& uuid) {
  return {.kind = DeviceRequest::Kind::kUuid, .uuid = uuid};
}

using Kind = DeviceRequest::Kind;

RunOptions options_on(const DeviceRequest& device) {
  RunOptions options;
  options.devices = {device};
  options.l2_states = {L2State::kHot};
  return options;
}

RunOptions on_cpu() {
  return options_on(request(Kind::kCpu));
}

Plan plan(const RunOptions& options, const DeviceList& devices,
          const std::optional<FileFacts>& file = std::nullopt) {
  return make_plan(options, devices, kRegistry, file);
}

Words ids(const Plan& plan) {
  Words all;
  for (const PlannedCell& planned : plan.cells) {
    all.push_back(planned.cell.id());
  }
  return all;
}

template <typename Error>
std::string refusal(const RunOptions& options, const DeviceList& devices,
                    const std::optional<FileFacts>& file = std::nullopt) {
  try {
    plan(options, devices, file);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "planned";
  return "";
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

// ---- cells --------------------------------------------------------------------------------------

TEST(Plan, ListsMultiply) {
  RunOptions options = on_cpu();
  options.variants = {"tiled", "naive"};
  options.seq = {96, 192};
  options.precisions = {Precision::kFp32, Precision::kBf16};
  const Plan eight = plan(options, kNoGpu);
  EXPECT_EQ(ids(eight), (Words{"naive/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot",
                               "tiled/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot",
                               "naive/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/bf16/hot",
                               "tiled/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/bf16/hot",
                               "naive/cpu/B:4/S:192/Dm:256/R:48/H:4/D:32/fp32/hot",
                               "tiled/cpu/B:4/S:192/Dm:256/R:48/H:4/D:32/fp32/hot",
                               "naive/cpu/B:4/S:192/Dm:256/R:48/H:4/D:32/bf16/hot",
                               "tiled/cpu/B:4/S:192/Dm:256/R:48/H:4/D:32/bf16/hot"}));
  for (const PlannedCell& planned : eight.cells) {
    EXPECT_EQ(planned.skip, "");
    EXPECT_EQ(planned.cell.threads, 2);
  }
}

TEST(Plan, AloneItIsTheHeadlineProblemInFp32) {
  const Plan alone = plan(options_on(request(Kind::kAuto)), kOneGpu);
  ASSERT_EQ(alone.cells.size(), 3u);
  for (const PlannedCell& planned : alone.cells) {
    EXPECT_EQ(planned.cell.problem, Problem{});
    EXPECT_EQ(planned.cell.precision, Precision::kFp32);
    EXPECT_EQ(planned.cell.device, "GPU-0");
    EXPECT_EQ(planned.cell.threads, 0);
  }
}

TEST(Plan, RepeatsAreMeasuredOnce) {
  RunOptions options = on_cpu();
  options.variants = {"tiled", "tiled"};
  options.seq = {96, 192, 96};
  options.precisions = {Precision::kFp32, Precision::kFp32};
  options.devices = {request(Kind::kCpu), request(Kind::kAuto)};
  options.l2_states = {L2State::kHot, L2State::kHot};
  EXPECT_EQ(plan(options, kNoGpu).cells.size(), 2u);
}

TEST(Plan, IdsAreUniqueAndCellsThatShareTensorsStandTogether) {
  RunOptions options = options_on(request(Kind::kCudaAll));
  options.devices.push_back(request(Kind::kCpu));
  options.batch = {4, 1, 4};
  options.seq = {96, 7};
  options.head_dim = {32, 64};
  options.precisions = {Precision::kBf16, Precision::kFp32, Precision::kFp16};
  options.l2_states = {L2State::kHot, L2State::kCold};
  const Plan all = plan(options, kTwoGpus);
  const Words names = ids(all);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names.size(), (3u + 3u + 3u) * 8 * 3 * 2);
  for (std::size_t i = 0; i < all.cells.size(); ++i) {
    for (std::size_t j = i + 1; j < all.cells.size(); ++j) {
      if (all.cells[i].cell.shares_tensors_with(all.cells[j].cell)) {
        EXPECT_TRUE(all.cells[j - 1].cell.shares_tensors_with(all.cells[j].cell))
            << names[i] << " and " << names[j];
      }
    }
  }
}

TEST(Plan, SeedsAndSourcesAreNotShared) {
  Cell one;
  Cell other = one;
  EXPECT_TRUE(one.shares_tensors_with(other));
  other.l2 = L2State::kCold;
  other.variant = "another";
  EXPECT_TRUE(one.shares_tensors_with(other));
  other.inputs.seed = 1;
  EXPECT_FALSE(one.shares_tensors_with(other));
}

// ---- names --------------------------------------------------------------------------------------

TEST(Plan, UnknownVariantsGetTheNearest) {
  RunOptions options = on_cpu();
  options.variants = {"naive", "tild"};
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "'tild'; did you mean tiled?");
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "valid: naive, tiled, tensor_core, blas");
  options.variants = {};
  options.reference = "nave";
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "did you mean naive?");
}

TEST(Plan, AVariantOfAnotherBackendSaysWhere) {
  RunOptions options = on_cpu();
  options.variants = {"tensor_core"};
  EXPECT_SAYS(refusal<UsageError>(options, kOneGpu), "'tensor_core' runs on CUDA only");
  options = options_on(request(Kind::kAuto));
  options.variants = {"naive", "blas"};
  EXPECT_SAYS(refusal<UsageError>(options, kOneGpu), "'blas' runs on the CPU only");
  options.devices.push_back(request(Kind::kCpu));
  EXPECT_EQ(plan(options, kOneGpu).cells.size(), 3u);
}

// No advice to name a GPU where there is none.
TEST(Plan, WithoutAGpuWhatNeedsOneIsLeftOutWithAWord) {
  for (const RunOptions& start : {on_cpu(), options_on(request(Kind::kAuto))}) {
    RunOptions options = start;
    options.variants = {"tensor_core"};
    const std::string message = refusal<NoDeviceError>(options, kNoGpu);
    EXPECT_SAYS(message,
                "--variant tensor_core runs on CUDA only: this machine has no NVIDIA driver");
    EXPECT_SAYS(message, "on the CPU run naive, tiled");
    EXPECT_EQ(message.find("blas"), std::string::npos) << message;
    options.variants = {"tensor_core", "tiled"};
    const Plan made = plan(options, kNoGpu);
    ASSERT_EQ(made.cells.size(), 1u);
    EXPECT_EQ(made.cells[0].cell.variant, "tiled");
    EXPECT_SAYS(made.warnings.back(), "--variant tensor_core is left out");
  }
}

// ---- devices ------------------------------------------------------------------------------------

Words chosen(const std::vector<DeviceRequest>& requests, const DeviceList& devices,
             std::size_t expected_warnings = 0) {
  Words uuids;
  Words warnings;
  for (const Device& device : choose_devices(requests, devices, warnings)) {
    uuids.push_back(device.uuid);
  }
  EXPECT_EQ(warnings.size(), expected_warnings);
  return uuids;
}

TEST(Devices, AutoIsTheFirstGpuElseTheCpuWithAWarning) {
  EXPECT_EQ(chosen({request(Kind::kAuto)}, kTwoGpus), Words{"GPU-0"});
  EXPECT_EQ(chosen({request(Kind::kAuto)}, kNoGpu, 1), Words{"Some CPU"});
  Words warnings;
  choose_devices(std::vector{request(Kind::kAuto)}, kNoGpu, warnings);
  EXPECT_EQ(warnings, Words{"no GPU (this machine has no NVIDIA driver): running on the CPU"});
}

TEST(Devices, AreChosenInTheUsersOrder) {
  EXPECT_EQ(
      chosen({request(Kind::kCpu), request(Kind::kCuda, 1), request(Kind::kCuda, 0)}, kTwoGpus),
      (Words{"Some CPU", "GPU-1", "GPU-0"}));
  EXPECT_EQ(chosen({request(Kind::kCudaAll), request(Kind::kCpu)}, kTwoGpus),
            (Words{"GPU-0", "GPU-1", "Some CPU"}));
}

TEST(Devices, OneNamedTwiceIsRefused) {
  const auto refused = [](const std::vector<DeviceRequest>& requests) {
    RunOptions options = on_cpu();
    options.devices = requests;
    return refusal<UsageError>(options, kTwoGpus);
  };
  EXPECT_EQ(refused({request(Kind::kCuda, 1), request(Kind::kCudaAll)}),
            "--device names NVIDIA H200 GPU-1 twice, as cuda:1 and as cuda:all: name each device "
            "once");
  EXPECT_SAYS(refused({by_uuid("GPU-0"), request(Kind::kCuda, 0)}), "as GPU-0 and as cuda:0");
  EXPECT_SAYS(refused({request(Kind::kCpu), request(Kind::kCpu)}), "the CPU twice");
  // What auto turns out to be is not what the user named.
  EXPECT_EQ(chosen({request(Kind::kAuto), request(Kind::kCuda, 0)}, kTwoGpus), Words{"GPU-0"});
  EXPECT_EQ(chosen({request(Kind::kAuto), request(Kind::kCpu)}, kNoGpu, 1), Words{"Some CPU"});
}

TEST(Devices, GoByTheirUuidOrItsBeginning) {
  EXPECT_EQ(chosen({by_uuid("GPU-1"), by_uuid("GPU-0")}, kTwoGpus), (Words{"GPU-1", "GPU-0"}));
  RunOptions options = options_on(by_uuid("GPU-"));
  EXPECT_SAYS(refusal<UsageError>(options, kTwoGpus),
              "--device GPU- may be cuda:0 (GPU-0), cuda:1 (GPU-1): give more of the UUID");
  EXPECT_EQ(chosen({by_uuid("GPU-")}, kOneGpu), Words{"GPU-0"});
  EXPECT_EQ(chosen({by_uuid("MIG-1")}, kTwoGpus), Words{"GPU-1"});
  options = options_on(by_uuid("GPU-2"));
  EXPECT_SAYS(refusal<NoDeviceError>(options, kTwoGpus), "--device GPU-2: this machine has cuda:0");
  EXPECT_SAYS(refusal<NoDeviceError>(options, kNoGpu), "--device cpu runs here");
}

TEST(Devices, AtTheSameTimeAreThoseThatCanDoTheSame) {
  RunOptions options = options_on(request(Kind::kCudaAll));
  options.devices.push_back(request(Kind::kCpu));
  options.concurrent = true;
  DeviceList devices = kTwoGpus;
  devices.devices[1].sm = 75;  // no tensor_core there
  for (const PlannedCell& planned : plan(options, devices).cells) {
    const Cell& cell = planned.cell;
    const bool has_company = cell.backend == Backend::kCuda && cell.variant != "tensor_core";
    EXPECT_EQ(cell.concurrent_with, !has_company             ? Words{}
                                    : cell.device == "GPU-0" ? Words{"GPU-1"}
                                                             : Words{"GPU-0"})
        << cell.id();
  }
  options.concurrent = false;
  for (const PlannedCell& planned : plan(options, devices).cells) {
    EXPECT_TRUE(planned.cell.concurrent_with.empty());
  }
}

TEST(Devices, AtTheSameTimeTakesTwoGpus) {
  RunOptions options = options_on(request(Kind::kCudaAll));
  options.concurrent = true;
  EXPECT_SAYS(refusal<UsageError>(options, kOneGpu), "--device names one: ");
  options.devices = {request(Kind::kCpu)};
  EXPECT_SAYS(refusal<UsageError>(options, kTwoGpus), "--device names none: give cuda:all");
}

TEST(Devices, OneThatIsNotHereSaysWhatIs) {
  EXPECT_SAYS(refusal<NoDeviceError>(options_on(request(Kind::kCuda, 1)), kOneGpu),
              "--device cuda:1: this machine has cuda:0 (GPU-0) only");
  EXPECT_SAYS(refusal<NoDeviceError>(options_on(request(Kind::kCuda, 7)), kTwoGpus),
              "cuda:0 (GPU-0), cuda:1 (GPU-1) only");
  for (const DeviceRequest& asked : {request(Kind::kCuda, 0), request(Kind::kCudaAll)}) {
    const std::string message = refusal<NoDeviceError>(options_on(asked), kNoGpu);
    EXPECT_SAYS(message, "--device " + name_of(asked));
    EXPECT_SAYS(message, "this machine has no NVIDIA driver");
    EXPECT_SAYS(message, "--device cpu");
  }
}

// ---- sizes --------------------------------------------------------------------------------------

TEST(Plan, SizesWhoseBytesOverflowAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 31;
  for (const auto list : {&RunOptions::batch, &RunOptions::seq, &RunOptions::model_dim,
                          &RunOptions::rank, &RunOptions::kv_heads, &RunOptions::head_dim}) {
    RunOptions options = on_cpu();
    options.*list = {std::numeric_limits<std::int64_t>::max()};
    EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "too large");
  }
  RunOptions options = on_cpu();
  options.batch = {huge};
  options.seq = {huge};
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "too large");
}

// Each tensor alone can be indexed; their bytes together pass 2^63 (UBSan watches the sums).
TEST(Plan, SizesWhoseSumOverflowsAreNotRun) {
  RunOptions options = on_cpu();
  options.batch = {(std::int64_t{1} << 40) - 1};
  options.seq = {1};
  options.model_dim = {std::int64_t{1} << 20};
  options.rank = {1};
  options.kv_heads = {std::int64_t{1} << 19};
  options.head_dim = {1};
  options.l2_states = {L2State::kHot, L2State::kCold};
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "too large");
}

TEST(Plan, HugeSizesThatCanBeIndexedAreSkipped) {
  RunOptions options = on_cpu();
  options.seq = {std::int64_t{1} << 40};
  options.force = true;
  options.l2_states = {L2State::kHot, L2State::kCold};
  for (const PlannedCell& planned : plan(options, kNoGpu).cells) {
    if (planned.cell.variant != "blas") {
      EXPECT_SAYS(planned.skip, "of host memory");
    }
  }
}

// ---- skipping -----------------------------------------------------------------------------------

std::string skip_of(const RunOptions& options, const DeviceList& devices) {
  const Plan one = plan(options, devices);
  EXPECT_EQ(one.cells.size(), 1u);
  return one.cells.empty() ? "" : one.cells.front().skip;
}

// DeepSeek-V2-Lite at 4096 tokens.
RunOptions model_shape(const DeviceRequest& device, const std::string& variant) {
  RunOptions options = options_on(device);
  options.variants = {variant};
  options.batch = {1};
  options.seq = {4096};
  options.model_dim = {2048};
  options.rank = {512};
  options.kv_heads = {16};
  options.head_dim = {128};
  return options;
}

TEST(Skip, NaiveAtAModelsShapeIsSkippedWithItsPrediction) {
  RunOptions options = model_shape(request(Kind::kCuda), "naive");
  // 12 launches of 35.2 TFLOP at 2 % of 66.9 TFLOP/s: 316 s.
  EXPECT_EQ(skip_of(options, kOneGpu),
            "predicted to take 315.7 s, more than the 60 s of --time-budget; --force runs it");
  options.force = true;
  EXPECT_EQ(skip_of(options, kOneGpu), "");
  options.force = false;
  options.measuring.time_budget_s = 400;
  EXPECT_EQ(skip_of(options, kOneGpu), "");
}

TEST(Skip, OthersAtAModelsShapeRun) {
  EXPECT_EQ(skip_of(model_shape(request(Kind::kCuda), "tiled"), kOneGpu), "");
  EXPECT_EQ(skip_of(model_shape(request(Kind::kCuda), "tensor_core"), kOneGpu), "");
}

TEST(Skip, ASmallBudgetIsToldAsItIs) {
  RunOptions options = model_shape(request(Kind::kCuda), "naive");
  options.measuring.time_budget_s = 0.5;
  EXPECT_SAYS(skip_of(options, kOneGpu), "more than the 0.5 s of --time-budget");
}

// A cold pass is a turn of hundreds of operand sets.
TEST(Skip, NaiveAtTheHeadlineIsTooSlowForAColdCpu) {
  RunOptions options = options_on(request(Kind::kCpu));
  options.variants = {"naive"};
  EXPECT_EQ(skip_of(options, kNoGpu), "");
  options.l2_states = {L2State::kCold};
  EXPECT_SAYS(skip_of(options, kNoGpu), "predicted to take");
  options.force = true;
  EXPECT_EQ(skip_of(options, kNoGpu), "");
}

TEST(Skip, NaiveAtTheHeadlineRuns) {
  for (const DeviceList& devices : {kOneGpu, kNoGpu}) {
    RunOptions options = options_on(request(Kind::kAuto));
    options.variants = {"naive"};
    EXPECT_EQ(skip_of(options, devices), "");
  }
}

TEST(Skip, AVariantSaysItself) {
  DeviceList turing = kOneGpu;
  turing.devices[0].sm = 75;
  RunOptions options = options_on(request(Kind::kCuda));
  options.variants = {"tensor_core"};
  options.force = true;
  EXPECT_EQ(skip_of(options, turing), "needs sm_80, this device is sm_75");
}

TEST(Skip, AGpuThatThisProgramHasNoCodeFor) {
  DeviceList devices = kOneGpu;
  devices.cuda_architectures = "80,89";
  RunOptions options = options_on(request(Kind::kCuda));
  options.variants = {"naive"};
  options.force = true;
  EXPECT_EQ(skip_of(options, devices),
            "this build has code for sm_80, sm_89, this device is sm_90; build with "
            "CMAKE_CUDA_ARCHITECTURES=90");
  devices.cuda_architectures = "80,90a";
  EXPECT_EQ(skip_of(options, devices), "");
}

TEST(Skip, AVariantLeftOutOfTheBuildSaysWhy) {
  RunOptions options = on_cpu();
  options.variants = {"blas"};
  EXPECT_EQ(skip_of(options, kNoGpu), "this build has no OpenBLAS");
}

TEST(Skip, DeviceMemoryIsAsked) {
  DeviceList small = kOneGpu;
  small.devices[0].memory = 1 << 20;
  RunOptions options = options_on(request(Kind::kCuda));
  options.variants = {"tiled"};
  options.seq = {960};
  options.force = true;
  EXPECT_EQ(skip_of(options, small), "needs 7.60 MiB of device memory, NVIDIA H200 has 1.00 MiB");
}

TEST(Skip, HostMemoryIsAsked) {
  DeviceList full = kOneGpu;
  full.devices.back().free_memory = 1 << 20;
  RunOptions options = options_on(request(Kind::kCuda));
  options.variants = {"tiled"};
  options.force = true;
  EXPECT_SAYS(skip_of(options, full), "of host memory, 1.00 MiB are free");
  options.devices = {request(Kind::kCpu)};
  EXPECT_SAYS(skip_of(options, full), "of host memory, 1.00 MiB are free");
}

TEST(Skip, MemoryGrowsWithSetsWorkspaceAndPrecision) {
  Cell cell;
  cell.backend = Backend::kCuda;
  const double hot = predicted_device_bytes(kTiledCuda, cell, h200(0));
  EXPECT_GE(hot, 4 * Problem{}.compulsory_elements());
  Variant with_workspace = kTiledCuda;
  with_workspace.workspace_bytes = gibibyte;
  EXPECT_EQ(predicted_device_bytes(with_workspace, cell, h200(0)), hot + 0x1p30);
  cell.l2 = L2State::kCold;
  // Five times the cache, and as much again for the proof.
  EXPECT_GE(predicted_device_bytes(kTiledCuda, cell, h200(0)), 10 * 62914560.0);
  EXPECT_LT(predicted_host_bytes(Problem{}, Precision::kBf16),
            predicted_host_bytes(Problem{}, Precision::kFp32));
}

TEST(Skip, PredictionsFollowTheDevice) {
  const Problem problem;
  Device half = h200(0);
  half.multiprocessors /= 2;
  EXPECT_DOUBLE_EQ(predicted_launch_s(kTiledCuda, problem, half),
                   2 * predicted_launch_s(kTiledCuda, problem, h200(0)));
  Device unknown = cpu();
  unknown.clock_mhz = 0;
  const double seconds = predicted_launch_s(kTiledCpu, problem, unknown);
  EXPECT_TRUE(seconds > 0 && seconds < 1) << seconds;
}

// ---- files --------------------------------------------------------------------------------------

FileFacts bf16_file() {
  return {
      .problem = {.batch = 2, .seq = 5, .model_dim = 64, .rank = 8, .kv_heads = 2, .head_dim = 16},
      .precision = Precision::kBf16};
}

TEST(Plan, AFileGivesShapeAndPrecision) {
  RunOptions options = on_cpu();
  options.variants = {"tiled"};
  options.inputs.file = "x.safetensors";
  options.kv_heads = {2};
  const Plan of_file = plan(options, kNoGpu, bf16_file());
  EXPECT_EQ(ids(of_file), Words{"tiled/cpu/B:2/S:5/Dm:64/R:8/H:2/D:16/bf16/hot"});
  EXPECT_EQ(of_file.cells[0].cell.inputs.file, "x.safetensors");
  options.precisions = {Precision::kFp32};
  EXPECT_EQ(plan(options, kNoGpu, bf16_file()).cells[0].cell.precision, Precision::kFp32);
}

TEST(Plan, AFilesShapeCannotBeChanged) {
  const std::vector<std::pair<std::string, std::vector<std::int64_t> RunOptions::*>> sizes{
      {"--batch", &RunOptions::batch},
      {"--seq", &RunOptions::seq},
      {"--model-dim", &RunOptions::model_dim},
      {"--rank", &RunOptions::rank}};
  for (const auto& [name, list] : sizes) {
    RunOptions options = on_cpu();
    options.inputs.file = "x.safetensors";
    options.*list = {96};
    EXPECT_SAYS(refusal<UsageError>(options, kNoGpu, bf16_file()),
                name + " cannot be set with --input");
  }
}

TEST(Plan, OneCellIsSaved) {
  RunOptions options = on_cpu();
  options.save = "out.safetensors";
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "this run has 3");
  options.variants = {"tiled"};
  EXPECT_EQ(plan(options, kNoGpu).cells.size(), 1u);
  options.l2_states = {L2State::kHot, L2State::kCold};
  EXPECT_SAYS(refusal<UsageError>(options, kNoGpu), "this run has 2");
}

TEST(Plan, IsDescribedALineACell) {
  RunOptions options = on_cpu();
  options.variants = {"naive", "blas"};
  EXPECT_EQ(describe(plan(options, kNoGpu)),
            "naive/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot\n"
            "blas/cpu/B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot  skipped: this build has no "
            "OpenBLAS\n");
}

}  // namespace
}  // namespace mla_bench
