// The only file that includes the generated header: a new commit recompiles nothing else.
#include "build_facts.hpp"

#include "build_info.hpp"
#include "text.hpp"

namespace mla_bench {

BuildFacts build_facts() {
  return {.version = build_info::kVersion,
          .commit = build_info::kCommit,
          .dirty = build_info::kDirty,
          .compiler = build_info::kCompiler,
          .cuda_compiler = build_info::kCudaCompiler,
          .flags = build_info::kFlags,
          .cuda_architectures = build_info::kCudaArchitectures,
          .build_type = build_info::kBuildType};
}

bool has_code_for(std::string_view architectures, int sm) {
  for (const std::string& architecture : split(architectures, ',')) {
    const bool is_specific = architecture.ends_with('a');
    const std::int64_t built =
        parse_integer(architecture.substr(0, architecture.find_first_of("af"))).value_or(0);
    if (is_specific ? built == sm : built / 10 == sm / 10 && built <= sm) {
      return true;
    }
  }
  return false;
}

std::string version_text() {
  const BuildFacts facts = build_facts();
  std::string text = "mla-bench " + std::string(facts.version) + "\ncommit " +
                     (facts.commit.empty() ? "unknown" : std::string(facts.commit)) +
                     (facts.dirty ? " (dirty)" : "") + "\ncompiler " + std::string(facts.compiler) +
                     ", " + std::string(facts.build_type) + "\nCUDA ";
  text += facts.cuda_compiler.empty()
              ? "none"
              : std::string(facts.cuda_compiler) + " for " + std::string(facts.cuda_architectures);
  return text + "\n";
}

}  // namespace mla_bench
