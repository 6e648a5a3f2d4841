// The mutants: hidden copies of a plain kernel, each with one fault planted, that the tool must
// catch with the message that a user needs. One table for the CPU and the GPU; cpu_mutants.cpp and
// cuda_mutants.cu make variants of its lines, mutant_runs.hpp runs them and judges what was said.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "mla_bench/float16.hpp"
#include "mla_bench/variant.hpp"

namespace mla_bench {

// What a value is rounded to on its way.
enum class Rounding { kNone, kTf32, kTf32Cut, kBf16, kFp16 };

enum class Defect {
  kNone,
  // Wrong elements.
  kOffsetsOneElement,  // the last, by Recipe::offset
  kOneUlp,             // one element, by one unit in the last place
  kOneRow,             // one row of k is 1/32 too large
  kLastTile,           // the last 16 x 16 elements of v are zero
  kRaggedRows,         // rows behind the last whole tile of 16 are zero
  kDropsDepthTail,     // the sum over model_dim ends with the last whole 8
  kDropsLastRank,      // the sum over the rank is one term short
  kNan,
  kInfinity,
  // Right elements in wrong places.
  kSwapsKAndV,
  kKTwice,
  kTransposesHeads,    // (D, H) in the place of (H, D)
  kInterleavesHalves,  // (T, 2, H*D) in the place of (2, T, H*D)
  kTransposesBatch,    // (S, B) in the place of (B, S)
  kReversesRows,
  // Elements not written, or not every time.
  kWritesNothing,
  kLeavesLastRow,
  kAddsToOutput,       // kv += in the place of kv =
  kWritesLate,         // after the launch has returned, or in the next launch
  kSkipsLater,         // only the first launch does anything
  kSkipsWhenReplayed,  // what is captured into a graph is an empty kernel
  kWrongLater,         // only the first launch is right
  // Results that were there before.
  kKeepsResult,   // made once, copied from then on
  kKeepsLatent,   // made once, used from then on
  kKeepsSums,     // sums begin where the launch before left them
  kStealsOutput,  // what the variant before left in kv
  // Work elsewhere.
  kMovesStream,
  // Memory that is not its own.
  kWritesBefore,
  kWritesAfter,
  kChangesHidden,
  kChangesWeight,
  // Shared memory of a GPU.
  kMissingBarrier,   // sums are read before the other warps have written theirs
  kUnclearedShared,  // the block's second row begins with the sums of its first
  kSilentRace,       // a warp writes a word that others read, no barrier between, the same value
  // Device memory of its own.
  kSilentOverrun,
  kSilentUninitialised,
};

struct Recipe {
  Defect defect = Defect::kNone;
  float offset = 0;
  Rounding operands = Rounding::kNone;  // hidden and the weights
  Rounding latent = Rounding::kNone;
  Rounding sums = Rounding::kNone;   // after every addition
  bool claims_tensor_cores = false;  // whose bounds are wider
};

struct Mutant {
  std::string_view name;
  std::string_view fault;  // in words
  Recipe recipe;
  // How it is run, and what the tool must answer: a part of the cell's reason, or one of several
  // between bars where the size of the problem decides which check sees it first.
  std::string_view says;
  Precision precision = Precision::kFp32;
  std::string_view inputs = "normal";
  bool ragged = false;  // a sequence of one more, which no tile divides
  std::string_view status = "incorrect";
  bool on_cpu = true;
  bool on_gpu = true;
  bool large = false;  // too large for a full reference: the check is made on the GPU
};

inline constexpr std::string_view kBeyond = "beyond their bound, worst ";
inline constexpr std::string_view kTogether = "of the elements taken together; a correct ";
inline constexpr std::string_view kOutlier = "an element is further off than the rounding errors";
inline constexpr std::string_view kUnwritten = "elements of kv unwritten; ";
inline constexpr std::string_view kNeverWritten = "elements were never written";
inline constexpr std::string_view kKept = "so results are kept between launches";

inline constexpr std::array kMutants{
    Mutant{"one_element",
           "one element is off by 1",
           {.defect = Defect::kOffsetsOneElement, .offset = 1},
           kBeyond},
    Mutant{"one_element_fp32",
           "one element is off by 0.05 % of the usual size",
           {.defect = Defect::kOffsetsOneElement, .offset = 0x1p-11f, .claims_tensor_cores = true},
           kOutlier},
    Mutant{"one_element_tf32",
           "one element is off by 3 % of the usual size",
           {.defect = Defect::kOffsetsOneElement,
            .offset = 0x1p-5f,
            .operands = Rounding::kTf32,
            .latent = Rounding::kTf32},
           kOutlier,
           Precision::kTf32},
    Mutant{"one_element_bf16",
           "one element is off by 13 % of the usual size",
           {.defect = Defect::kOffsetsOneElement, .offset = 0x1p-3f},
           kOutlier,
           Precision::kBf16},
    Mutant{"one_element_fp16",
           "one element is off by 1.6 % of the usual size",
           {.defect = Defect::kOffsetsOneElement, .offset = 0x1p-6f},
           kOutlier,
           Precision::kFp16},
    Mutant{"one_ulp",
           "one element is off by one unit in the last place, where none may be",
           {.defect = Defect::kOneUlp},
           "needs rounding, such as v[",
           Precision::kFp32,
           "exact"},
    Mutant{"one_row", "one row of k is 1/32 too large", {.defect = Defect::kOneRow}, kBeyond},
    Mutant{"last_tile",
           "the last 16 x 16 elements of v are zero",
           {.defect = Defect::kLastTile},
           kBeyond},
    Mutant{"ragged_rows",
           "rows behind the last whole tile of 16 are zero",
           {.defect = Defect::kRaggedRows},
           kBeyond,
           Precision::kFp32,
           "normal",
           true},
    Mutant{"ragged_rows_exact",
           "the same on integers",
           {.defect = Defect::kRaggedRows},
           kBeyond,
           Precision::kFp32,
           "exact",
           true},
    Mutant{"depth_tail",
           "the sum over model_dim ends with the last whole 8",
           {.defect = Defect::kDropsDepthTail},
           kBeyond,
           Precision::kFp32,
           "normal",
           true},
    Mutant{"last_rank",
           "the sum over the rank is one term short",
           {.defect = Defect::kDropsLastRank},
           kBeyond},
    Mutant{"one_nan", "one element is NaN", {.defect = Defect::kNan}, "got nan, expected "},
    Mutant{"one_infinity",
           "one element is infinite",
           {.defect = Defect::kInfinity},
           "got inf, expected "},
    Mutant{"swapped", "k and v have changed places", {.defect = Defect::kSwapsKAndV}, kBeyond},
    Mutant{"k_twice", "v is k once more", {.defect = Defect::kKTwice}, "worst v["},
    Mutant{"transposed_heads",
           "(D, H) in the place of (H, D)",
           {.defect = Defect::kTransposesHeads},
           kBeyond},
    Mutant{"interleaved",
           "stacked as (T, 2, H*D), not (2, T, H*D)",
           {.defect = Defect::kInterleavesHalves},
           kBeyond},
    Mutant{"transposed_batch",
           "stacked as (S, B), not (B, S)",
           {.defect = Defect::kTransposesBatch},
           kBeyond},
    Mutant{"reversed_rows", "the last row first", {.defect = Defect::kReversesRows}, kBeyond},
    Mutant{"nothing", "the output is not written", {.defect = Defect::kWritesNothing}, kUnwritten},
    Mutant{"no_last_row",
           "the last row is not written",
           {.defect = Defect::kLeavesLastRow},
           kUnwritten},
    Mutant{
        "adds", "kv += in the place of kv =", {.defect = Defect::kAddsToOutput}, "nan, expected "},
    Mutant{"late",
           "the output is written after the check",
           {.defect = Defect::kWritesLate},
           kNeverWritten},
    Mutant{"skips_later",
           "only the first launch works",
           {.defect = Defect::kSkipsLater},
           "the timed launches: it left "},
    Mutant{"skips_replay",
           "what is captured is an empty kernel",
           {.defect = Defect::kSkipsWhenReplayed},
           "work is missing in what is timed",
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false},
    Mutant{"wrong_later",
           "only the first launch is right",
           {.defect = Defect::kWrongLater},
           "the timed launches: 1 of "},
    Mutant{"keeps_result",
           "the result is made once and copied from then on",
           {.defect = Defect::kKeepsResult},
           kKept},
    Mutant{"keeps_latent",
           "the latent is made once and used from then on",
           {.defect = Defect::kKeepsLatent},
           kKept},
    Mutant{"keeps_sums",
           "sums begin where the launch before left them",
           {.defect = Defect::kKeepsSums},
           "the timed launches: "},
    Mutant{"steals",
           "what was in kv before is given out as its own",
           {.defect = Defect::kStealsOutput},
           ", expected "},
    Mutant{"moves_stream",
           "the work goes to another stream, an empty kernel on the one given",
           {.defect = Defect::kMovesStream},
           "a stream other than the one given",
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false},
    Mutant{"writes_before",
           "one element too early",
           {.defect = Defect::kWritesBefore},
           "into the guard band before it"},
    Mutant{"writes_after",
           "one element too late",
           {.defect = Defect::kWritesAfter},
           "into the guard band after it"},
    Mutant{"changes_hidden",
           "hidden loses its last bit",
           {.defect = Defect::kChangesHidden},
           "it changed its input hidden"},
    Mutant{"changes_weight",
           "a weight loses its last bit",
           {.defect = Defect::kChangesWeight},
           "it changed its input w_up_v"},
    Mutant{"tf32_inside",
           "fp32 by TF32 products",
           {.operands = Rounding::kTf32, .latent = Rounding::kTf32},
           kBeyond},
    Mutant{"tf32_as_3xtf32",
           "fp32 on tensor cores by TF32 products",
           {.operands = Rounding::kTf32, .latent = Rounding::kTf32, .claims_tensor_cores = true},
           kTogether},
    Mutant{"tf32_positive",
           "the same on positive inputs, whose errors cannot cancel",
           {.operands = Rounding::kTf32, .latent = Rounding::kTf32, .claims_tensor_cores = true},
           kBeyond,
           Precision::kFp32,
           "positive"},
    Mutant{"bf16_inside",
           "fp32 by BF16 products",
           {.operands = Rounding::kBf16, .latent = Rounding::kBf16, .claims_tensor_cores = true},
           kBeyond},
    Mutant{"tf32_cut",
           "TF32 by cutting bits off, not rounding",
           {.operands = Rounding::kTf32Cut, .latent = Rounding::kTf32Cut},
           kTogether,
           Precision::kTf32},
    Mutant{
        "tf32_cut_tensor_core",
        "the same on tensor cores",
        {.operands = Rounding::kTf32Cut, .latent = Rounding::kTf32Cut, .claims_tensor_cores = true},
        kTogether,
        Precision::kTf32},
    Mutant{"bf16_as_tf32",
           "TF32 by BF16 products",
           {.operands = Rounding::kBf16, .latent = Rounding::kBf16},
           kTogether,
           Precision::kTf32},
    Mutant{"latent_tf32",
           "fp32 with the latent rounded to TF32",
           {.latent = Rounding::kTf32, .claims_tensor_cores = true},
           kTogether},
    Mutant{"latent_bf16",
           "fp32 with the latent rounded to BF16",
           {.latent = Rounding::kBf16, .claims_tensor_cores = true},
           "beyond their bound, worst |of the elements taken together; a correct "},
    Mutant{"latent_bf16_as_tf32",
           "TF32 with the latent rounded to BF16",
           {.operands = Rounding::kTf32, .latent = Rounding::kBf16},
           kTogether,
           Precision::kTf32},
    Mutant{"latent_bf16_as_fp16",
           "FP16 with the latent rounded to BF16",
           {.latent = Rounding::kBf16},
           kTogether,
           Precision::kFp16},
    Mutant{"bf16_sums",
           "BF16 with sums rounded to BF16",
           {.latent = Rounding::kBf16, .sums = Rounding::kBf16},
           kTogether,
           Precision::kBf16},
    Mutant{"fp16_sums",
           "FP16 with sums rounded to FP16",
           {.latent = Rounding::kFp16, .sums = Rounding::kFp16},
           kTogether,
           Precision::kFp16},
    Mutant{"one_element_large",
           "one element of 82 million is off by 1",
           {.defect = Defect::kOffsetsOneElement, .offset = 1},
           "1 of 81920000 elements beyond",
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false,
           true,
           true},
    Mutant{"keeps_latent_large",
           "the latent of 320000 rows is made once and used from then on",
           {.defect = Defect::kKeepsLatent},
           kKept,
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false,
           true,
           true},
    Mutant{"missing_barrier",
           "shared memory is read before the other warps have written it",
           {.defect = Defect::kMissingBarrier},
           kBeyond,
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false},
    Mutant{"uncleared_shared",
           "a block's second row begins with the sums of its first",
           {.defect = Defect::kUnclearedShared},
           kBeyond,
           Precision::kFp32,
           "normal",
           false,
           "incorrect",
           /*on_cpu=*/false},
};

// Faults that change no result: no run can see them, only a tool that watches every access. `says`
// is the tool of compute-sanitizer that must report each (scripts/sanitize).
inline constexpr std::array kSilentMutants{
    Mutant{"silent_race",
           "a warp writes what others read, no barrier between",
           {.defect = Defect::kSilentRace},
           "racecheck",
           Precision::kFp32,
           "normal",
           false,
           "passed",
           /*on_cpu=*/false},
    Mutant{"silent_overrun",
           "a word is written behind the end of an allocation",
           {.defect = Defect::kSilentOverrun},
           "memcheck",
           Precision::kFp32,
           "normal",
           false,
           "passed",
           /*on_cpu=*/false},
    Mutant{"silent_uninitialised",
           "a word is read that nobody wrote",
           {.defect = Defect::kSilentUninitialised},
           "initcheck",
           Precision::kFp32,
           "normal",
           false,
           "passed",
           /*on_cpu=*/false},
};

// The variants that the tables above become.
std::vector<Listed> cpu_mutants();
std::vector<Listed> cuda_mutants();

// ---- what both backends' copies do --------------------------------------------------------------

constexpr float rounded(float value, Rounding rounding) {
  constexpr std::uint32_t kTf32Mask = 0xffffe000u;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  switch (rounding) {
    case Rounding::kTf32:
      return std::bit_cast<float>((bits + 0x1000u) & kTf32Mask);
    case Rounding::kTf32Cut:
      return std::bit_cast<float>(bits & kTf32Mask);
    case Rounding::kBf16:
      return to_float(from_float<Bf16>(value));
    case Rounding::kFp16:
      return to_float(from_float<F16>(value));
    default:
      return value;
  }
}

// An element of kv by half (0 is k), row and column.
struct Place {
  std::int64_t half = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
};

constexpr std::int64_t kRaggedTile = 16;
constexpr std::int64_t kDepthTile = 8;

constexpr std::int64_t depth_of(const Problem& problem, Defect defect) {
  return defect == Defect::kDropsDepthTail ? problem.model_dim / kDepthTile * kDepthTile
                                           : problem.model_dim;
}

constexpr std::int64_t rank_of(const Problem& problem, Defect defect) {
  return defect == Defect::kDropsLastRank ? problem.rank - 1 : problem.rank;
}

// Whose weights an element is made with.
constexpr std::int64_t half_of_weights(const Place& place, Defect defect) {
  return defect == Defect::kKTwice ? 0 : place.half;
}

// The element of kv that is written with the value of `place`; -1 for none.
constexpr std::int64_t written_to(const Problem& problem, Place place, Defect defect) {
  switch (defect) {
    case Defect::kSwapsKAndV:
      place.half = 1 - place.half;
      break;
    case Defect::kTransposesHeads:
      place.column =
          place.column % problem.head_dim * problem.kv_heads + place.column / problem.head_dim;
      break;
    case Defect::kInterleavesHalves:
      return (place.row * 2 + place.half) * problem.columns() + place.column;
    case Defect::kTransposesBatch:
      place.row = place.row % problem.seq * problem.batch + place.row / problem.seq;
      break;
    case Defect::kReversesRows:
      place.row = problem.rows() - 1 - place.row;
      break;
    case Defect::kLeavesLastRow:
      if (place.half == 1 && place.row == problem.rows() - 1) {
        return -1;
      }
      break;
    default:
      break;
  }
  return (place.half * problem.rows() + place.row) * problem.columns() + place.column;
}

// What is written in the place of the right `value`, by launch number `launch` from 1.
constexpr float altered(const Problem& problem, const Place& place, const Recipe& recipe,
                        float value, std::int64_t launch) {
  const bool is_last =
      place.half == 1 && place.row == problem.rows() - 1 && place.column == problem.columns() - 1;
  const bool is_middle = place.half == 0 && place.row == problem.rows() / 2;
  constexpr std::int64_t kLastTile = 16;
  switch (recipe.defect) {
    case Defect::kOffsetsOneElement:
      return is_last ? value + recipe.offset : value;
    case Defect::kWrongLater:
      return is_last && launch > 1 ? value + 1 : value;
    case Defect::kOneUlp:
      return is_last ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) + 1) : value;
    case Defect::kOneRow:
      return is_middle ? value * 1.03125f : value;
    case Defect::kLastTile:
      return place.half == 1 && place.row >= problem.rows() - kLastTile &&
                     place.column >= problem.columns() - kLastTile
                 ? 0
                 : value;
    case Defect::kRaggedRows:
      return place.row >= problem.rows() / kRaggedTile * kRaggedTile ? 0 : value;
    case Defect::kNan:
      return is_middle && place.column == 0 ? std::numeric_limits<float>::quiet_NaN() : value;
    case Defect::kInfinity:
      return is_middle && place.column == 0 ? std::numeric_limits<float>::infinity() : value;
    default:
      return value;
  }
}

}  // namespace mla_bench
