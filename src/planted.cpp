#include "planted.hpp"

#include "text.hpp"

namespace mla_bench {

std::string_view name_of(PlantKind kind) {
  switch (kind) {
    case PlantKind::kNothing:
      return "nothing";
    case PlantKind::kWork:
      return "work";
    case PlantKind::kWrongElement:
      return "wrong_element";
    case PlantKind::kNothingWritten:
      return "nothing_written";
    case PlantKind::kFirstCallOnly:
      return "first_call_only";
  }
  return "?";
}

std::string text_of(const Planted& planted) {
  const std::string name(name_of(planted.kind));
  return planted.kind == PlantKind::kWork ? name + ":" + shortest(planted.slow_down) : name;
}

std::optional<Planted> planted_from(std::string_view text) {
  constexpr double kMost = 10;  // more would only make the run long
  for (const PlantKind kind : kPlantKinds) {
    const std::string name(name_of(kind));
    if (kind == PlantKind::kWork && text.starts_with(name + ":")) {
      const std::optional<double> part = parse_real(text.substr(name.size() + 1));
      return part && *part > 0 && *part <= kMost
                 ? std::optional(Planted{.kind = kind, .slow_down = *part})
                 : std::nullopt;
    }
    if (kind != PlantKind::kWork && text == name) {
      return Planted{.kind = kind};
    }
  }
  return std::nullopt;
}

}  // namespace mla_bench
