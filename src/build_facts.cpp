// The only file that includes the generated header: a new commit recompiles nothing else.
#include "build_facts.hpp"

#include "build_info.hpp"

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
