# How targets of this project are made: one library per folder, hidden symbols, the same warnings everywhere.
include(CheckCXXSymbolExists)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT DEFINED CMAKE_INSTALL_RPATH_USE_LINK_PATH)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # libraries that are not among the system's are found after the install, too
endif()
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# In place of CMake's own flags; others are somebody's choice.
if(CMAKE_CXX_FLAGS_RELWITHDEBINFO STREQUAL "-O2 -g -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
  if(FABRING_SANITIZE)
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")  # g++ takes twice as long for what it instruments at -O2
  endif()
endif()
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # the kernels ask for -O3 themselves; elsewhere it only costs build time
endif()
# A tenth less for a batch of tests: g++ collects its garbage later. Two compilers at a time take 1.8 GB then, not 1.5.
cmake_host_system_information(RESULT FABRING_HOST_MEMORY_MIB QUERY TOTAL_PHYSICAL_MEMORY)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND FABRING_HOST_MEMORY_MIB GREATER 6000)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=2000000>")
endif()
find_program(FABRING_CCACHE ccache)
if(FABRING_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # What it would look at and need not, where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${FABRING_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${FABRING_CCACHE})
endif()

# What the headers ask about the standard library that Fabring is built with (export.hpp).
check_cxx_symbol_exists(_LIBCPP_VERSION cstddef FABRING_LIBCXX)
set(FABRING_LIBRARY_DEFINITIONS)
if(FABRING_LIBCXX)
  list(APPEND FABRING_LIBRARY_DEFINITIONS FABRING_BUILT_WITH_LIBCXX)
endif()
string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" flags)
get_directory_property(definitions COMPILE_DEFINITIONS)
get_directory_property(options COMPILE_OPTIONS)
if("${CMAKE_CXX_FLAGS};${${flags}};${options};${definitions}" MATCHES "(^|;| |-D)_GLIBCXX_DEBUG($|;| |=)")
  list(APPEND FABRING_LIBRARY_DEFINITIONS FABRING_BUILT_WITH_GLIBCXX_DEBUG)
endif()

# A package that is AUTO, ON or OFF: sets PREFIX_FOUND and PREFIX_LINK_LIBRARIES; ON and missing is an error that names the
# Debian package.
function(fabring_optional_pkg option prefix module debian)
  set(${prefix}_FOUND FALSE PARENT_SCOPE)
  if(${option} STREQUAL OFF)
    return()
  endif()
  pkg_check_modules(${prefix} IMPORTED_TARGET ${module})
  set(${prefix}_FOUND ${${prefix}_FOUND} PARENT_SCOPE)
  set(${prefix}_LINK_LIBRARIES ${${prefix}_LINK_LIBRARIES} PARENT_SCOPE)
  if(NOT ${prefix}_FOUND AND ${option} STREQUAL ON)
    message(FATAL_ERROR "${option}=ON but ${module} was not found; install the package ${debian}")
  endif()
endfunction()

# Sources of a target compiled several at a time: their headers are read once. Names in anonymous namespaces must differ
# within a target; what cannot be (a source compiled for several processors, a class of Asio's in one source) says
# SKIP_UNITY_BUILD_INCLUSION.
function(fabring_compile_options target)
  if(FABRING_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # To the compiler, only one of them is the main file.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                              $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_definitions(${target} PUBLIC ${FABRING_LIBRARY_DEFINITIONS})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow
                         $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -fno-math-errno
                         -Wno-restrict)  # false with std::string in GCC 12 (its bug 105651)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wno-unknown-warning-option)
  endif()
  if(FABRING_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(FABRING_SANITIZE)
    # What UBSan finds ends the process too; a line among the output of a test that passes, nobody reads.
    target_compile_options(${target} PRIVATE -fsanitize=${FABRING_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                           -Wno-maybe-uninitialized)  # false with std::variant in what GCC 12 instruments
    if(FABRING_SANITIZE MATCHES undefined)
      # This check asks the kernel, through a pipe, whether an object can be read: without a free descriptor none is right.
      target_compile_options(${target} PRIVATE -fno-sanitize=vptr)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${FABRING_SANITIZE})
  endif()
  if(FABRING_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)  # libFuzzer counts what each input reaches
  endif()
  target_link_libraries(${target} PUBLIC Threads::Threads)
endfunction()

# Headers of other projects that many sources of these targets include, compiled once: more than half of the time they
# would take. Nothing of Fabring's own is among them.
function(fabring_precompile target)
  cmake_parse_arguments(ARG "" "REUSE_FROM" "HEADERS" ${ARGN})
  if(ARG_REUSE_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARG_REUSE_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
endfunction()

# The same for what libfabring and the command are made of; only where sources are compiled several at a time: elsewhere
# each must include what it uses.
function(fabring_precompile_part target)
  if(NOT FABRING_UNITY)
    return()
  endif()
  if(NOT TARGET fabring_part_headers)
    add_library(fabring_part_headers OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/nothing.cpp)
    fabring_compile_options(fabring_part_headers)
    target_link_libraries(fabring_part_headers PUBLIC fmt::fmt)
    fabring_precompile(fabring_part_headers HEADERS <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <atomic> <charconv> <chrono>
      <condition_variable> <cstdint> <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex>
      <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
  endif()
  fabring_precompile(${target} REUSE_FROM fabring_part_headers)
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")  # false with std::string in GCC 12
endfunction()

# fabring_library(name SOURCES... LINK ...): a static library of one folder, part of libfabring.
function(fabring_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  fabring_compile_options(${name})
  fabring_precompile_part(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
  set_property(GLOBAL APPEND PROPERTY FABRING_PARTS ${name})
endfunction()

# What is tested is compiled as it is used; the tests themselves need not be fast.
function(fabring_test_options target)
  if(FABRING_SANITIZE)
    target_compile_options(${target} PRIVATE -O1 -Wno-array-bounds -Wno-stringop-overflow)  # false with std::string in GCC 12
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
    if(FABRING_UNITY AND FABRING_HOST_MEMORY_MIB GREATER 6000)
      # What each batch makes of templates of gtest and JSON for itself is most of its time: 44 s for five batches of
      # tools_test, 26 for one, which takes 1.9 GB.
      set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 24)
    endif()
  endif()
  if(FABRING_UNITY)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-shadow> $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>)  # a name of another source
  endif()
  if(TARGET fabring_test_headers AND NOT ${target} STREQUAL fabring_test_headers)
    fabring_precompile(${target} REUSE_FROM fabring_test_headers)
  endif()
endfunction()

# Tests wait this many times as long when a sanitizer slows everything down.
set(FABRING_TEST_SLOWNESS 1)
if(FABRING_SANITIZE)
  set(FABRING_TEST_SLOWNESS 5)
endif()

# fabring_test_timeout(SECONDS TEST...): so long for tests that fabring_test() does not make.
function(fabring_test_timeout seconds)
  math(EXPR seconds "${seconds} * ${FABRING_TEST_SLOWNESS}")
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${seconds})
endfunction()

# fabring_job_test(TEST ALONE): a test that is a job of several processes, which share the cores: one such test at a time, from the
# beginning, beside tests that are none; beside no test at all where ALONE is true, for what it measures or bounds tightly.
function(fabring_job_test test alone)
  if(alone)
    set_tests_properties("${test}" PROPERTIES RUN_SERIAL TRUE)
  else()
    set_tests_properties("${test}" PROPERTIES RESOURCE_LOCK jobs COST 1000)
  endif()
endfunction()

# fabring_test(name SOURCES... LINK... [LABELS...] [TIMEOUT s]): a GoogleTest program; every TEST is a ctest of its own.
function(fabring_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  math(EXPR timeout "${ARG_TIMEOUT} * ${FABRING_TEST_SLOWNESS}")
  add_executable(${name} ${ARG_SOURCES})
  fabring_compile_options(${name})
  fabring_test_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300 EXTRA_ARGS ${ARG_ARGS}
                       PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}")
endfunction()
