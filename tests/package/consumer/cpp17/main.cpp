// An outside program in C++17: the one in C, which only fabring.h is for.
static_assert(__cplusplus == 201703L, "the package asks for another C++");
#include "../c/main.c"
