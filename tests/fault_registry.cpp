// Stands in for the generated registry: one variant that is right, and one for each way in which a
// variant can be wrong or take its process down, CPU and fp32 only, so that every fault is real;
// and the mutants.
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "late_faults.hpp"
#include "mla_bench/variant.hpp"
#include "mutants.hpp"

namespace mla_bench {
namespace {

enum class Fault {
  kNone,
  kIsSlow,
  kWritesNothing,
  kOneElementWrong,
  kWritesNan,
  kSwapsKAndV,
  kWritesBeforeKv,
  kWritesAfterKv,
  kModifiesInput,
  kModifiesInputLater,
  kRightOnceOnly,
  kDiffersBySet,
  kWrongInOneSet,
  kTrespassesInOneSet,
  kCannotRun,
  kNoMemory,
  kNoMemoryInLaunch,
  kThrows,
  kThrowsNoException,
  kThrowsLater,
  kCrashes,
  kCrashesLater,
  kExits,
  kHangs,
  kHangsLater,
  kPrints,
};

// Whether the test that started all this has let late faults come.
bool late_faults_are_due() {
  const char* path = std::getenv(kLateFaults);
  return path != nullptr && access(path, F_OK) == 0;
}

// Long enough that cells with late faults are still measured when these come.
constexpr useconds_t kUnhurried_us = 2000;

// Shared by the launches of one prepared cell.
struct Calls {
  int binds = 0;
  int launches = 0;
};

// kv from the definition, sums in double.
void compute(const Problem& problem, const Operands& operands) {
  const auto* hidden = static_cast<const float*>(operands.hidden);
  const auto* w_down = static_cast<const float*>(operands.w_down);
  auto* kv = static_cast<float*>(operands.kv);
  std::vector<double> latent(static_cast<std::size_t>(problem.rank));
  for (std::int64_t row = 0; row < problem.rows(); ++row) {
    for (std::int64_t r = 0; r < problem.rank; ++r) {
      double sum = 0;
      for (std::int64_t d = 0; d < problem.model_dim; ++d) {
        sum += static_cast<double>(hidden[row * problem.model_dim + d]) *
               static_cast<double>(w_down[d * problem.rank + r]);
      }
      latent[static_cast<std::size_t>(r)] = sum;
    }
    for (const int half : {0, 1}) {
      const auto* w_up = static_cast<const float*>(half == 0 ? operands.w_up_k : operands.w_up_v);
      for (std::int64_t column = 0; column < problem.columns(); ++column) {
        double sum = 0;
        for (std::int64_t r = 0; r < problem.rank; ++r) {
          sum += latent[static_cast<std::size_t>(r)] *
                 static_cast<double>(w_up[r * problem.columns() + column]);
        }
        kv[(half * problem.rows() + row) * problem.columns() + column] = static_cast<float>(sum);
      }
    }
  }
}

[[noreturn]] void hang() {
  while (true) {
    pause();
  }
}

[[noreturn]] void crash() {
  signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
  raise(SIGSEGV);
  std::abort();
}

// Launch number `calls.launches` on operand set number `set`, both counted from 1.
void launch(Fault fault, const Problem& problem, Operands operands, const Calls& calls, int set) {
  auto* kv = static_cast<float*>(operands.kv);
  const bool may_be_late = fault == Fault::kModifiesInputLater || fault == Fault::kThrowsLater ||
                           fault == Fault::kCrashesLater || fault == Fault::kHangsLater;
  if (may_be_late) {
    usleep(kUnhurried_us);
  }
  const bool later = may_be_late && late_faults_are_due();
  switch (fault) {
    case Fault::kWritesNothing:
      return;
    case Fault::kRightOnceOnly:
      if (calls.launches > 1) {
        return;
      }
      break;
    case Fault::kNoMemoryInLaunch:
      throw std::bad_alloc();
    case Fault::kThrows:
      throw std::runtime_error("the launch was refused");
    case Fault::kThrowsNoException:
      throw 42;
    case Fault::kThrowsLater:
      if (later) {
        throw std::runtime_error("the launch was refused later");
      }
      break;
    case Fault::kCrashes:
      crash();
    case Fault::kCrashesLater:
      if (later) {
        crash();
      }
      break;
    case Fault::kExits:
      std::exit(7);
    case Fault::kHangs:
      hang();
    case Fault::kHangsLater:
      if (later) {
        hang();
      }
      break;
    case Fault::kIsSlow:
      usleep(20'000);
      break;
    case Fault::kPrints:
      if (calls.launches == 1) {
        std::puts("{\"this is\": \"no document\"}");
        std::fflush(stdout);
      }
      break;
    case Fault::kSwapsKAndV:
      std::swap(operands.w_up_k, operands.w_up_v);
      break;
    default:
      break;
  }
  compute(problem, operands);
  switch (fault) {
    case Fault::kOneElementWrong:
      kv[problem.kv_count() - 1] += 1;
      break;
    case Fault::kWritesNan:
      kv[problem.kv_count() / 2] = std::numeric_limits<float>::quiet_NaN();
      break;
    case Fault::kWritesBeforeKv:
      kv[-1] = 0;
      break;
    case Fault::kWritesAfterKv:
      kv[problem.kv_count()] = 0;
      break;
    case Fault::kModifiesInputLater:
      if (!later) {
        break;
      }
      [[fallthrough]];
    case Fault::kModifiesInput:
      *static_cast<float*>(const_cast<void*>(operands.w_down)) += 1;
      break;
    case Fault::kDiffersBySet:
      kv[0] = set % 2 == 0 ? std::nextafter(kv[0], 0.0f) : kv[0];
      break;
    case Fault::kWrongInOneSet:
      kv[0] += set == 3 ? 1.0f : 0.0f;
      break;
    case Fault::kTrespassesInOneSet:
      kv[problem.kv_count()] = set == 3 ? 0.0f : kv[problem.kv_count()];
      break;
    default:
      break;
  }
}

template <Fault kFault>
Prepared prepare(const Problem& problem, Precision, const Device&) {
  if (kFault == Fault::kNoMemory) {
    throw std::bad_alloc();
  }
  const auto calls = std::make_shared<Calls>();
  return {.choice = "", .bind = [problem, calls](const Operands& operands) -> Launch {
            return [problem, operands, calls, set = ++calls->binds](Stream) {
              ++calls->launches;
              launch(kFault, problem, operands, *calls, set);
            };
          }};
}

Unit unit(Precision) {
  return Unit::kFma;
}

double executed_flops(const Problem& problem) {
  return problem.flops();
}

std::int64_t workspace_bytes(const Problem&, Precision, const Device&) {
  return 0;
}

template <Fault kFault>
std::optional<std::string> why_not(const Problem&, Precision precision, const Device&) {
  if (kFault == Fault::kCannotRun) {
    return "it never can";
  }
  return precision == Precision::kFp32 ? std::nullopt
                                       : std::optional<std::string>("knows only fp32");
}

template <Fault kFault>
constexpr Variant kVariant{.name = "",
                           .summary = "",
                           .backend = Backend::kCpu,
                           .unit = unit,
                           .executed_flops = executed_flops,
                           .workspace_bytes = workspace_bytes,
                           .why_not = why_not<kFault>,
                           .prepare = prepare<kFault>};

template <Fault kFault>
constexpr Listed listed(std::string_view name) {
  return {name, Backend::kCpu, &kVariant<kFault>, ""};
}

}  // namespace

std::span<const Listed> registry() {
  static constexpr std::array kListed{
      listed<Fault::kNone>("right"),
      listed<Fault::kIsSlow>("is_slow"),
      listed<Fault::kWritesNothing>("writes_nothing"),
      listed<Fault::kOneElementWrong>("one_element_wrong"),
      listed<Fault::kWritesNan>("writes_nan"),
      listed<Fault::kSwapsKAndV>("swaps_k_and_v"),
      listed<Fault::kWritesBeforeKv>("writes_before_kv"),
      listed<Fault::kWritesAfterKv>("writes_after_kv"),
      listed<Fault::kModifiesInput>("modifies_input"),
      listed<Fault::kModifiesInputLater>("modifies_input_later"),
      listed<Fault::kRightOnceOnly>("right_once_only"),
      listed<Fault::kDiffersBySet>("differs_by_set"),
      listed<Fault::kWrongInOneSet>("wrong_in_one_set"),
      listed<Fault::kTrespassesInOneSet>("trespasses_in_one_set"),
      listed<Fault::kCannotRun>("cannot_run"),
      listed<Fault::kNoMemory>("no_memory"),
      listed<Fault::kNoMemoryInLaunch>("no_memory_in_launch"),
      listed<Fault::kThrows>("throws"),
      listed<Fault::kThrowsNoException>("throws_no_exception"),
      listed<Fault::kThrowsLater>("throws_later"),
      listed<Fault::kCrashes>("crashes"),
      listed<Fault::kCrashesLater>("crashes_later"),
      listed<Fault::kExits>("exits"),
      listed<Fault::kHangs>("hangs"),
      listed<Fault::kHangsLater>("hangs_later"),
      listed<Fault::kPrints>("prints"),
      Listed{"left_out", Backend::kCpu, nullptr, "this build left it out"},
  };
  static const std::vector<Listed> all = [] {
    std::vector<Listed> lines(kListed.begin(), kListed.end());
    const std::vector<Listed> mutants = cpu_mutants();
    lines.insert(lines.end(), mutants.begin(), mutants.end());
    return lines;
  }();
  return all;
}

}  // namespace mla_bench
