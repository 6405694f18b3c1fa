# Where a CUDA toolkit may be, as words of find_path() and find_program().
set(FABRING_CUDA_FIRST HINTS ENV CUDA_HOME ENV CUDA_PATH)
set(FABRING_CUDA_LAST PATHS /usr/local/cuda)

# fabring_find_cuda_header(VARIABLE): the folder of the CUDA toolkit's cuda.h; where there is none, FABRING_WITH_CUDA=ON is an error.
function(fabring_find_cuda_header into)
  # Beside the nvcc on the PATH too, and where the compiler itself would look.
  find_program(FABRING_NVCC_PROGRAM nvcc ${FABRING_CUDA_FIRST} ${FABRING_CUDA_LAST} PATH_SUFFIXES bin)
  mark_as_advanced(FABRING_NVCC_PROGRAM)
  get_filename_component(nvcc "${FABRING_NVCC_PROGRAM}" REALPATH)
  get_filename_component(bin "${nvcc}" DIRECTORY)
  find_path(FABRING_CUDA_INCLUDE_DIR cuda.h ${FABRING_CUDA_FIRST} ${bin}/.. ENV CPATH ${FABRING_CUDA_LAST} PATH_SUFFIXES include)
  mark_as_advanced(FABRING_CUDA_INCLUDE_DIR)
  if(NOT FABRING_CUDA_INCLUDE_DIR)
    message(FATAL_ERROR "FABRING_WITH_CUDA=ON but cuda.h was not found; install the CUDA toolkit, or set CUDA_HOME to where it is, "
                        "or leave FABRING_WITH_CUDA at AUTO: GPU memory is built without a toolkit too")
  endif()
  set(${into} ${FABRING_CUDA_INCLUDE_DIR} PARENT_SCOPE)
endfunction()
