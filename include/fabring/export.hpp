#pragma once
// The library hides its symbols; what is public is marked FABRING_API.
#define FABRING_API [[gnu::visibility("default")]]
