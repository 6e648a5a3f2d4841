#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "errors.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;

UsageError cannot_write(const std::string& path, const std::string& why) {
  return UsageError("cannot write '" + printable(path) + "': " + why);
}

void make_folder_of(const fs::path& target, const std::string& path) {
  std::error_code error;
  if (target.has_parent_path()) {
    fs::create_directories(target.parent_path(), error);
    if (error) {
      throw UsageError("cannot create the folder of '" + printable(path) + "': " + error.message());
    }
  }
}

// Under whatever name (/dev/stdout, /proc/self/fd/1, its own): a file in its place would take from
// it all that was printed and is to be.
bool is_stdout_or_stderr(const fs::path& target) {
  struct stat named {};
  if (stat(target.c_str(), &named) != 0) {
    return false;
  }
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat known {};
    if (fstat(descriptor, &known) == 0 && known.st_dev == named.st_dev &&
        known.st_ino == named.st_ino) {
      return true;
    }
  }
  return false;
}

// A file that is to be renamed.
struct Pending {
  std::string temporary;
  fs::path target;
};

Pending write_beside(const std::string& path, const std::string& text) {
  std::error_code error;
  const fs::path target = replaced_by(path);
  make_folder_of(target, path);
  const std::string temporary = target.string() + ".tmp" + std::to_string(getpid());
  errno = 0;
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const std::string why = errno != 0 ? strerror(errno) : "the write failed";
    fs::remove(temporary, error);
    throw cannot_write(path, why);
  }
  return {.temporary = temporary, .target = target};
}

}  // namespace

fs::path replaced_by(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw cannot_write(path, "it is a folder");
  }
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    throw cannot_write(path, "it is no regular file; give - for stdout");
  }
  if (is_stdout_or_stderr(path)) {
    throw cannot_write(path, "stdout or stderr goes there; give - for stdout, or another file");
  }
  // Step by step, since a link may lead to what is not there yet.
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path target = path;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    if (links == kMostLinks) {
      throw cannot_write(path, "links that lead to each other");
    }
    const fs::path next = fs::read_symlink(target, error);
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target;
}

void write_whole_file(const std::string& path, const std::string& text) {
  const Pending file = write_beside(path, text);
  std::error_code error;
  fs::rename(file.temporary, file.target, error);
  if (error) {
    const std::string why = error.message();
    fs::remove(file.temporary, error);
    throw cannot_write(path, why);
  }
}

std::string write_new_file(const std::string& path, const std::string& text) {
  make_folder_of(path, path);
  const fs::path wanted(path);
  std::string free = path;
  for (int number = 2;; ++number) {
    const int file = open(free.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
      close(file);
      break;
    }
    if (errno != EEXIST) {
      throw cannot_write(free, strerror(errno));
    }
    free = (wanted.parent_path() / wanted.stem()).string() + "-" + std::to_string(number) +
           wanted.extension().string();
  }
  try {
    write_whole_file(free, text);
  } catch (...) {
    std::error_code error;
    fs::remove(free, error);
    throw;
  }
  return free;
}

void check_can_be_written(const std::string& path) {
  std::error_code error;
  fs::remove(write_beside(path, "").temporary, error);
}

bool is_same_file(const std::string& path, const std::string& other) {
  std::error_code error;
  if (fs::equivalent(path, other, error)) {
    return true;
  }
  const fs::path one = fs::weakly_canonical(fs::absolute(path, error), error);
  return !one.empty() && one == fs::weakly_canonical(fs::absolute(other, error), error);
}

}  // namespace mla_bench
