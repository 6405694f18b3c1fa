# What FABRING_WITH_CUDA=ON demands, each in a CMake of its own that sees WORK for the whole machine:
# cmake -DMODULE=.../FabringCuda.cmake -DWORK=FOLDER -P cuda_header.cmake
if(DEFINED CMAKE_FIND_ROOT_PATH)
  include(${MODULE})
  fabring_find_cuda_header(folder)
  message(STATUS "it is in ${folder}.")
  return()
endif()
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/without)
file(WRITE ${WORK}/with/usr/local/cuda/include/cuda.h "")
set(wanted_without "FABRING_WITH_CUDA=ON but cuda.h was not found; install the CUDA toolkit")
set(wanted_with "it is in ${WORK}/with/usr/local/cuda/include.")
foreach(case IN ITEMS with without)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=CUDA_HOME --unset=CUDA_PATH
                          ${CMAKE_COMMAND} -DMODULE=${MODULE} -DCMAKE_FIND_ROOT_PATH=${WORK}/${case}
                          -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -P ${CMAKE_CURRENT_LIST_FILE}
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
  string(REGEX REPLACE "[ \n]+" " " words "${said}")  # CMake wraps its errors
  string(FIND "${words}" "${wanted_${case}}" at)
  if(at EQUAL -1 OR (failed AND case STREQUAL with) OR (NOT failed AND case STREQUAL without))
    message(SEND_ERROR "${case} a toolkit: wanted '${wanted_${case}}', but it ended with ${failed} and said: ${said}")
  endif()
endforeach()
