#pragma once
// The library hides its symbols; what is public is marked FABRING_API.
#include <cstddef>  // which library of C++ this is

#if __cplusplus <= 201703L
#error "Fabring's C++ headers need C++20 (-std=c++20); from an older C++ take fabring/fabring.h, the C API"
#endif
// Strings would have another layout here than in the library, which nobody sees before the program has crashed.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "Fabring's C++ headers need _GLIBCXX_USE_CXX11_ABI=1; without it take fabring/fabring.h, the C API"
#endif

#define FABRING_API [[gnu::visibility("default")]]
