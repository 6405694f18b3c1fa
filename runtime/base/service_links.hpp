#pragma once
// Kubernetes tells every container of the Services beside it in variables: of one that is named `master` MASTER_PORT,
// as tcp://10.96.0.7:23456, MASTER_SERVICE_HOST and more. Such a name may be one that means something to us. Pure.

#include <string>
#include <string_view>

namespace fabring {

/// Is it a variable of that kind?
bool tells_of_a_service(std::string_view name, std::string_view value);

/// Why `value` is no port, and what to do, where it is a Service's and not what was meant by `name`; else empty.
std::string hidden_by_a_service(std::string_view name, std::string_view value);

}  // namespace fabring
