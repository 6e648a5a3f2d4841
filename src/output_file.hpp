// Files that a command writes: whole or not at all, and known to be writable before the work.
#pragma once

#include <filesystem>
#include <string>

namespace mla_bench {

// Where a file that is written to `path` comes to lie: `path`, or of a link what it names, so that
// the link stays. Throws UsageError where that is a folder, no regular file, or where stdout or
// stderr goes.
std::filesystem::path replaced_by(const std::string& path);

// Replaces `path` by `text` in one step: temporary file in the same folder, then rename. Creates
// the folder where it is missing. Throws UsageError that names the file.
void write_whole_file(const std::string& path, const std::string& text);

// The same into a file that nobody has yet: `path`, or where it is taken, as by another process at
// this moment, "a-2.json" beside "a.json" and so on. Returns which.
std::string write_new_file(const std::string& path, const std::string& text);

// Throws UsageError where write_whole_file would; the folder is created.
void check_can_be_written(const std::string& path);

// The same file under whatever names, also one that is not there yet.
bool is_same_file(const std::string& path, const std::string& other);

}  // namespace mla_bench
