// Launches of known effect, for the tests of the CUDA executor.
#pragma once

#include <cstdint>

#include "mla_bench/variant.hpp"

namespace mla_bench::test {

// What kernels leave behind on the device, in the order in which they ran: (capacity) of each.
struct Log {
  static constexpr std::int64_t kCapacity = 1 << 16;

  std::uint64_t count = 0;
  std::uint64_t start_ns[kCapacity] = {};  // globaltimer when the kernel began
  std::int32_t id[kCapacity] = {};
};

// One kernel that appends to `log` (device memory) and then keeps the GPU busy for `ns` by its
// clock.
Launch append(Log* log, int id, std::int64_t ns = 0);

// A fill of 4 bytes at `scratch` and two kernels that append: three graph nodes.
Launch append_twice(Log* log, int id, std::byte* scratch);

// Appends, but on the default stream, whatever stream it is given.
Launch append_on_default_stream(Log* log, int id);

// A kernel of more threads than a block may have, whose failure is left for others to find.
Launch refused();

}  // namespace mla_bench::test
