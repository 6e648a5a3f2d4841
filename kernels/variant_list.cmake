# Turns the lines of kernels/CMakeLists.txt into the object libraries mla_bench_kernels (and its CUDA
# half) and into the generated registry.cpp, so that no second list exists.

# mla_bench_variant(<name> BACKENDS <cuda|cpu>... [NEEDS <variable>] [LINK <target>...])
#   NEEDS: a CMake variable that must be true for the variant to be built; <variable>_MISSING says
#          in words what is missing otherwise.
function(mla_bench_variant name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NEEDS" "BACKENDS;LINK")
  foreach(backend IN LISTS arg_BACKENDS)
    if(backend STREQUAL "cuda")
      set(source cuda/${name}.cu)
      set(enumerator kCuda)
    else()
      set(source cpu/${name}.cpp)
      set(enumerator kCpu)
    endif()
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      message(FATAL_ERROR "kernels/CMakeLists.txt lists ${name} for ${backend}, but kernels/${source} does not exist")
    endif()
    set_property(GLOBAL APPEND PROPERTY mla_bench_listed ${source})

    set(missing "")
    if(backend STREQUAL "cuda" AND NOT MLA_BENCH_HAS_CUDA)
      set(missing "this build has no CUDA")
    elseif(arg_NEEDS AND NOT ${arg_NEEDS})
      set(missing "${${arg_NEEDS}_MISSING}")
    endif()
    if(missing)
      set(address nullptr)
    else()
      set(address &${backend}::${name})
      set_property(GLOBAL APPEND_STRING PROPERTY mla_bench_externs
        "namespace ${backend} {\nextern const Variant ${name};\n}\n")
      set_property(GLOBAL APPEND PROPERTY mla_bench_${backend}_sources ${source})
      set_property(GLOBAL APPEND PROPERTY mla_bench_links ${arg_LINK})
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY mla_bench_entries
      "    Listed{\"${name}\", Backend::${enumerator}, ${address}, \"${missing}\"},\n")
  endforeach()
endfunction()

function(mla_bench_finish_variants)
  # Globbed only to complain: a kernel file that nobody listed would silently not exist.
  file(GLOB found RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS cuda/*.cu cpu/*.cpp)
  get_property(listed GLOBAL PROPERTY mla_bench_listed)
  foreach(source IN LISTS found)
    if(NOT source IN_LIST listed)
      message(FATAL_ERROR "kernels/${source} is not listed in kernels/CMakeLists.txt: add a line for it, or delete it")
    endif()
  endforeach()

  get_property(MLA_BENCH_VARIANT_EXTERNS GLOBAL PROPERTY mla_bench_externs)
  get_property(MLA_BENCH_VARIANT_ENTRIES GLOBAL PROPERTY mla_bench_entries)
  configure_file(registry.cpp.in registry.cpp @ONLY)

  get_property(cpu_sources GLOBAL PROPERTY mla_bench_cpu_sources)
  get_property(cuda_sources GLOBAL PROPERTY mla_bench_cuda_sources)
  get_property(links GLOBAL PROPERTY mla_bench_links)
  add_library(mla_bench_kernels OBJECT
    ${CMAKE_CURRENT_BINARY_DIR}/registry.cpp ${cpu_sources} ${cuda_sources})
  target_include_directories(mla_bench_kernels PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(mla_bench_kernels PRIVATE mla_bench_warnings PUBLIC OpenMP::OpenMP_CXX ${links})
  if(MLA_BENCH_HAS_CUDA)
    target_link_libraries(mla_bench_kernels PUBLIC CUDA::cudart_static)
  endif()
endfunction()
