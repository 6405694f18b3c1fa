#pragma once
// The library hides its symbols; what is public is marked FABRING_API.
#include <cstddef>  // which library of C++ this is

#if __cplusplus <= 201703L
#error "Fabring's C++ headers need C++20 (-std=c++20); from an older C++ take fabring/fabring.h, the C API"
#endif
// Strings and vectors would have another layout here than in the library, seen by nobody before the program crashes.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "Fabring's C++ headers need _GLIBCXX_USE_CXX11_ABI=1; without it take fabring/fabring.h, the C API"
#endif
#if defined(_LIBCPP_VERSION) && !defined(FABRING_BUILT_WITH_LIBCXX)
#error "Fabring was built with libstdc++ and this is libc++; take libstdc++ or fabring/fabring.h, the C API"
#elif !defined(_LIBCPP_VERSION) && defined(FABRING_BUILT_WITH_LIBCXX)
#error "Fabring was built with libc++; take that (-stdlib=libc++) or fabring/fabring.h, the C API"
#endif
#if defined(_GLIBCXX_DEBUG) && !defined(FABRING_BUILT_WITH_GLIBCXX_DEBUG)
#error "Fabring was built without _GLIBCXX_DEBUG; take _GLIBCXX_ASSERTIONS or fabring/fabring.h, the C API"
#elif !defined(_GLIBCXX_DEBUG) && defined(FABRING_BUILT_WITH_GLIBCXX_DEBUG)
#error "Fabring was built with _GLIBCXX_DEBUG; define it here too, or take fabring/fabring.h, the C API"
#endif

#define FABRING_API [[gnu::visibility("default")]]
