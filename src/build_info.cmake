# Makes build_info.hpp: version, compilers, flags, and the commit as it is at build time, not at
# configure time. Included, it gives mla_bench_add_build_info(<target>), which lets that target
# include the header; run by `cmake -P`, it writes the header if that changes.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(mla_bench_add_build_info target)
    set(directory ${CMAKE_CURRENT_BINARY_DIR}/build_info)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
    string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}" flags)
    set(cuda_compiler "")
    set(cuda_architectures "")
    if(MLA_BENCH_HAS_CUDA)
      set(cuda_compiler "${CMAKE_CUDA_COMPILER_ID} ${CMAKE_CUDA_COMPILER_VERSION}")
      string(STRIP "${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${type}}" cuda_flags)
      string(APPEND flags "; nvcc: ${cuda_flags}")
      list(JOIN CMAKE_CUDA_ARCHITECTURES "," cuda_architectures)
      string(REPLACE "-real" "" cuda_architectures "${cuda_architectures}")
    endif()
    add_custom_target(mla_bench_build_info
      BYPRODUCTS ${directory}/build_info.hpp
      COMMAND ${CMAKE_COMMAND}
        -D SOURCE_DIR=${PROJECT_SOURCE_DIR}
        -D TEMPLATE=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/build_info.hpp.in
        -D HEADER=${directory}/build_info.hpp
        -D COMMIT=${MLA_BENCH_COMMIT}
        -D DIRTY=${MLA_BENCH_DIRTY}
        -D VERSION=${PROJECT_VERSION}
        -D "COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
        -D "CUDA_COMPILER=${cuda_compiler}"
        -D "FLAGS=${flags}"
        -D "CUDA_ARCHITECTURES=${cuda_architectures}"
        -D BUILD_TYPE=${CMAKE_BUILD_TYPE}
        -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
      COMMENT "Reading the commit" VERBATIM)
    add_dependencies(${target} mla_bench_build_info)
    target_include_directories(${target} PRIVATE ${directory})
  endfunction()
  return()
endif()

cmake_minimum_required(VERSION 3.25)

# Given by hand, in the environment or at configure time, wins over .git.
if(NOT "$ENV{MLA_BENCH_COMMIT}" STREQUAL "")
  set(COMMIT $ENV{MLA_BENCH_COMMIT})
  set(DIRTY $ENV{MLA_BENCH_DIRTY})
endif()
if(NOT COMMIT STREQUAL "")
  if(NOT COMMIT MATCHES "^[0-9a-f]+$")
    message(FATAL_ERROR "MLA_BENCH_COMMIT is '${COMMIT}': it takes a commit in lower-case hex digits")
  endif()
else()
  set(DIRTY OFF)
  find_program(git git)
  # Not a .git further up: that would be another project's.
  if(git AND EXISTS ${SOURCE_DIR}/.git)
    # The tree may belong to another user, as in containers.
    set(git ${git} -C ${SOURCE_DIR} -c safe.directory=*)
    execute_process(COMMAND ${git} rev-parse --verify --quiet HEAD
      OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT COMMIT STREQUAL "")
    # Of what the program is made from only: its own results in the tree do not make it dirty.
    execute_process(COMMAND ${git} --no-optional-locks status --porcelain -- CMakeLists.txt include kernels src
      OUTPUT_VARIABLE DIRTY)
    if(NOT DIRTY STREQUAL "")
      set(DIRTY ON)
    endif()
  endif()
endif()
if(DIRTY)
  set(DIRTY true)
else()
  set(DIRTY false)
endif()
configure_file(${TEMPLATE} ${HEADER} @ONLY)  # leaves an equal file alone
