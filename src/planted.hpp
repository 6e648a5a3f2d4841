// What selftest plants in hidden copies of a variant, so that it is known what a gate should find.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mla_bench {

enum class PlantKind {
  kNothing,
  kWork,            // spins beside the launches, for a part of their time
  kWrongElement,    // one element of kv is overwritten after each launch
  kNothingWritten,  // the launch does nothing at all
  kFirstCallOnly,   // the first call does the work, and later ones leave its answer there
};

inline constexpr std::array kPlantKinds{PlantKind::kNothing, PlantKind::kWork,
                                        PlantKind::kWrongElement, PlantKind::kNothingWritten,
                                        PlantKind::kFirstCallOnly};

std::string_view name_of(PlantKind kind);

struct Planted {
  PlantKind kind = PlantKind::kNothing;
  double slow_down = 0;  // of kWork: 0.05 makes each launch 5 % longer on average

  friend bool operator==(const Planted&, const Planted&) = default;
};

// "nothing", "work:0.05", "wrong_element".
std::string text_of(const Planted& planted);

// The reverse; nothing for any other text.
std::optional<Planted> planted_from(std::string_view text);

}  // namespace mla_bench
