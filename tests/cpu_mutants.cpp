// The mutants on the CPU: straight from the definition, operands widened first, sums in fp32.
#include <cstring>
#include <memory>
#include <utility>

#include "mutants.hpp"

namespace mla_bench {
namespace {

// Shared by the launches of one prepared cell.
struct State {
  std::int64_t launches = 0;
  std::vector<float> latent;    // (rows, rank)
  std::vector<std::byte> kept;  // an output
};

template <typename T>
std::vector<float> widened(const void* tensor, std::int64_t count, Rounding rounding) {
  const T* const data = static_cast<const T*>(tensor);
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(rounded(to_float(data[i]), rounding));
  }
  return values;
}

// to += factor * from, element by element.
void add_scaled(float* to, const float* from, float factor, std::int64_t count, Rounding sums) {
  if (sums == Rounding::kNone) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] += factor * from[i];
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = rounded(to[i] + rounded(factor * from[i], sums), sums);
  }
}

template <typename T>
void make_latent(const Problem& problem, const Operands& operands, const Recipe& recipe,
                 std::vector<float>& latent) {
  const auto hidden = widened<T>(operands.hidden, problem.hidden_count(), recipe.operands);
  const auto w_down = widened<T>(operands.w_down, problem.down_count(), recipe.operands);
  if (recipe.defect != Defect::kKeepsSums) {
    latent.assign(latent.size(), 0);
  }
  for (std::int64_t row = 0; row < problem.rows(); ++row) {
    float* const out = latent.data() + row * problem.rank;
    for (std::int64_t d = 0; d < depth_of(problem, recipe.defect); ++d) {
      add_scaled(out, w_down.data() + d * problem.rank, hidden[row * problem.model_dim + d],
                 problem.rank, recipe.sums);
    }
    for (std::int64_t r = 0; r < problem.rank; ++r) {
      out[r] = rounded(out[r], recipe.latent);
    }
  }
}

template <typename T>
void make_kv(const Problem& problem, const Operands& operands, const Recipe& recipe,
             const State& state, T* kv) {
  const std::array w_up{widened<T>(operands.w_up_k, problem.up_count(), recipe.operands),
                        widened<T>(operands.w_up_v, problem.up_count(), recipe.operands)};
  std::vector<float> sums(static_cast<std::size_t>(problem.columns()));
  for (const std::int64_t half : {0, 1}) {
    for (std::int64_t row = 0; row < problem.rows(); ++row) {
      const auto weights = static_cast<std::size_t>(half_of_weights({half, row, 0}, recipe.defect));
      sums.assign(sums.size(), 0);
      for (std::int64_t r = 0; r < rank_of(problem, recipe.defect); ++r) {
        add_scaled(sums.data(), w_up[weights].data() + r * problem.columns(),
                   state.latent[row * problem.rank + r], problem.columns(), recipe.sums);
      }
      for (std::int64_t column = 0; column < problem.columns(); ++column) {
        const Place place{half, row, column};
        const std::int64_t to = written_to(problem, place, recipe.defect);
        if (to < 0) {
          continue;
        }
        const float value = altered(problem, place, recipe, sums[column], state.launches);
        const float before = recipe.defect == Defect::kAddsToOutput ? to_float(kv[to]) : 0;
        kv[to] = from_float<T>(before + value);
      }
    }
  }
}

// The last bit of the first element of an input.
void flip_last_bit(const void* input) {
  *static_cast<unsigned char*>(const_cast<void*>(input)) ^= 1;
}

template <typename T>
void launch(const Problem& problem, const Operands& operands, const Recipe& recipe, State& state) {
  T* const kv = static_cast<T*>(operands.kv);
  const std::size_t bytes = static_cast<std::size_t>(problem.kv_count()) * sizeof(T);
  const bool is_first = ++state.launches == 1;
  const bool has_kept = !state.kept.empty();
  switch (recipe.defect) {
    case Defect::kWritesNothing:
      return;
    case Defect::kSkipsLater:
      if (!is_first) {
        return;
      }
      break;
    case Defect::kKeepsResult:
    case Defect::kStealsOutput:
    case Defect::kWritesLate:
      if (has_kept) {
        std::memcpy(kv, state.kept.data(), bytes);
      }
      if (recipe.defect == Defect::kStealsOutput ||
          (recipe.defect == Defect::kKeepsResult && has_kept)) {
        return;
      }
      break;
    default:
      break;
  }
  if (recipe.defect != Defect::kKeepsLatent || is_first) {
    make_latent<T>(problem, operands, recipe, state.latent);
  }
  if (recipe.defect == Defect::kWritesLate) {
    state.kept.resize(bytes);
    make_kv(problem, operands, recipe, state, reinterpret_cast<T*>(state.kept.data()));
    return;
  }
  make_kv(problem, operands, recipe, state, kv);
  switch (recipe.defect) {
    case Defect::kKeepsResult:
      state.kept.assign(reinterpret_cast<const std::byte*>(kv),
                        reinterpret_cast<const std::byte*>(kv) + bytes);
      break;
    case Defect::kWritesBefore:
      kv[-1] = from_float<T>(0);
      break;
    case Defect::kWritesAfter:
      kv[problem.kv_count()] = from_float<T>(0);
      break;
    case Defect::kChangesHidden:
      flip_last_bit(operands.hidden);
      break;
    case Defect::kChangesWeight:
      flip_last_bit(operands.w_up_v);
      break;
    default:
      break;
  }
}

Launch bound(const Problem& problem, Precision precision, const Operands& operands,
             const Recipe& recipe, const std::shared_ptr<State>& state) {
  switch (stored_type(precision)) {
    case StoredType::kBf16:
      return [=](Stream) { launch<Bf16>(problem, operands, recipe, *state); };
    case StoredType::kF16:
      return [=](Stream) { launch<F16>(problem, operands, recipe, *state); };
    default:
      return [=](Stream) { launch<float>(problem, operands, recipe, *state); };
  }
}

template <std::size_t kIndex>
Prepared prepare(const Problem& problem, Precision precision, const Device&) {
  const Recipe& recipe = kMutants[kIndex].recipe;
  const auto state = std::make_shared<State>();
  state->latent.resize(static_cast<std::size_t>(problem.latent_count()));
  return {.choice = "planted", .bind = [=](const Operands& operands) -> Launch {
            if (recipe.defect == Defect::kStealsOutput) {
              const auto* kv = static_cast<const std::byte*>(operands.kv);
              state->kept.assign(kv, kv + problem.kv_count() * size_of(stored_type(precision)));
            }
            return bound(problem, precision, operands, recipe, state);
          }};
}

template <std::size_t kIndex>
Unit unit(Precision) {
  return kMutants[kIndex].recipe.claims_tensor_cores ? Unit::kTensorCore : Unit::kFma;
}

double executed_flops(const Problem& problem) {
  return problem.flops();
}

std::int64_t workspace_bytes(const Problem&, Precision, const Device&) {
  return 0;
}

template <std::size_t kIndex>
std::optional<std::string> why_not(const Problem&, Precision precision, const Device&) {
  return precision == kMutants[kIndex].precision
             ? std::nullopt
             : std::optional<std::string>("is planted in another precision");
}

template <std::size_t kIndex>
constexpr Variant kVariant{.name = kMutants[kIndex].name,
                           .summary = kMutants[kIndex].fault,
                           .backend = Backend::kCpu,
                           .unit = unit<kIndex>,
                           .executed_flops = executed_flops,
                           .workspace_bytes = workspace_bytes,
                           .why_not = why_not<kIndex>,
                           .prepare = prepare<kIndex>};

template <std::size_t... kIndices>
std::vector<Listed> listed(std::index_sequence<kIndices...>) {
  std::vector<Listed> here;
  const auto add = [&here](const Mutant& mutant, const Variant& variant) {
    if (mutant.on_cpu) {
      here.push_back({mutant.name, Backend::kCpu, &variant, ""});
    }
  };
  (add(kMutants[kIndices], kVariant<kIndices>), ...);
  return here;
}

}  // namespace

std::vector<Listed> cpu_mutants() {
  return listed(std::make_index_sequence<kMutants.size()>());
}

}  // namespace mla_bench
