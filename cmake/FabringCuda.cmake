# fabring_find_cuda_header(VARIABLE): the folder of the CUDA toolkit's cuda.h; where there is none, FABRING_WITH_CUDA=ON is an error.
function(fabring_find_cuda_header into)
  find_path(FABRING_CUDA_INCLUDE_DIR cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(FABRING_CUDA_INCLUDE_DIR)
  if(NOT FABRING_CUDA_INCLUDE_DIR)
    message(FATAL_ERROR "FABRING_WITH_CUDA=ON but cuda.h was not found; install the CUDA toolkit, or set CUDA_HOME to where it is, "
                        "or leave FABRING_WITH_CUDA at AUTO: GPU memory is built without a toolkit too")
  endif()
  set(${into} ${FABRING_CUDA_INCLUDE_DIR} PARENT_SCOPE)
endfunction()
