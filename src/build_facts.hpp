// What this binary is: for --version and the document's "tool".
#pragma once

#include <string>
#include <string_view>

namespace mla_bench {

struct BuildFacts {
  std::string_view version;
  std::string_view commit;  // 40 hex digits; empty where unknown
  bool dirty;               // built from files that differ from the commit
  std::string_view compiler;
  std::string_view cuda_compiler;  // empty in a build without CUDA
  std::string_view flags;
  std::string_view cuda_architectures;
  std::string_view build_type;
};

BuildFacts build_facts();

// Whether machine code for `architectures` ("80,89,90a", of which there is no PTX) runs on a device
// of compute capability `sm` (86 is 8.6): the same major, and no older minor; 90a on 90 alone, 100f
// on its family. See "Binary Compatibility" in the CUDA C++ Programming Guide.
bool has_code_for(std::string_view architectures, int sm);

// The lines of --version.
std::string version_text();

}  // namespace mla_bench
