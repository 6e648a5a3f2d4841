// What the fuzzers feed: each function takes any bytes, reads them as a file of a stranger, and
// aborts where the reader broke one of its promises. None touches a disk.
#pragma once

#include <string_view>

namespace mla_bench {

// As an input file: the header is refused with one line that names the file, or describes tensors
// that cover the rest of the bytes once, of which the inputs have positive sizes.
void fuzz_safetensors(std::string_view bytes);

// As a document: it is refused with one line that names the file, or read.
void fuzz_documents(std::string_view bytes);

// The same, and what was read can be written and read again with nothing lost, and every export of
// it is whole.
void fuzz_exports(std::string_view bytes);

}  // namespace mla_bench
